"""The arithmetic of a body, operation by operation, as PyTorch expressions of tensors whose dimensions are the body's loops."""

from collections.abc import Callable

from inferno.mlir import dim_of, ir
from inferno.passes.generics import use_count
from inferno.targets.torch_source.values import (
    SHORT, Expr, Inexpressible, Lines, align, constant_value, element, literal, predicate, union,
)

_INFIX = {
    "arith.addf": "+", "arith.subf": "-", "arith.mulf": "*", "arith.divf": "/", "arith.addi": "+", "arith.subi": "-", "arith.muli": "*",
    "arith.andi": "&", "arith.ori": "|", "arith.xori": "^", "arith.shli": "<<", "arith.shrsi": ">>",
}
# On one bit: sums and differences are exclusive or, products and.
_INFIX_BOOL = {
    "arith.addi": "^", "arith.subi": "^", "arith.muli": "&", "arith.andi": "&", "arith.ori": "|", "arith.xori": "^",
    "arith.maxui": "|", "arith.minui": "&",
}
_CALLS = {
    "arith.maximumf": "torch.maximum({0}, {1})", "arith.minimumf": "torch.minimum({0}, {1})", "arith.maxnumf": "torch.fmax({0}, {1})",
    "arith.minnumf": "torch.fmin({0}, {1})", "arith.maxsi": "torch.maximum({0}, {1})", "arith.minsi": "torch.minimum({0}, {1})",
    "arith.remf": "torch.fmod({0}, {1})", "arith.remsi": "torch.fmod({0}, {1})",
    "arith.divsi": 'torch.div({0}, {1}, rounding_mode="trunc")', "arith.floordivsi": 'torch.div({0}, {1}, rounding_mode="floor")',
    "math.atan2": "torch.atan2({0}, {1})", "math.copysign": "torch.copysign({0}, {1})", "math.powf": "torch.pow({0}, {1})",
    "arith.negf": "-{0}", "math.absf": "torch.abs({0})", "math.absi": "torch.abs({0})", "math.roundeven": "torch.round({0})",
    "math.isnan": "torch.isnan({0})", "math.isinf": "torch.isinf({0})", "math.isfinite": "torch.isfinite({0})",
    "math.fma": "{0} * {1} + {2}",
}
_CALLS |= {
    f"math.{name}": f"torch.{name}({{0}})"
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos",
        "atan", "asinh", "acosh", "atanh", "erf", "erfc", "floor", "ceil", "trunc",
    )
}
_FLOAT_COMPARISONS = {
    "oeq": "{0} == {1}", "une": "{0} != {1}", "olt": "{0} < {1}", "ole": "{0} <= {1}", "ogt": "{0} > {1}", "oge": "{0} >= {1}",
    "ult": "~({0} >= {1})", "ule": "~({0} > {1})", "ugt": "~({0} <= {1})", "uge": "~({0} < {1})",
    "one": "({0} < {1}) | ({0} > {1})", "ueq": "~(({0} < {1}) | ({0} > {1}))",
    "ord": "~(torch.isnan({0}) | torch.isnan({1}))", "uno": "torch.isnan({0}) | torch.isnan({1})",
}
_SIGNED_COMPARISONS = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">="}
_UNSIGNED_COMPARISONS = {"ult": "<", "ule": "<=", "ugt": ">", "uge": ">="}
_MASKS = {"i8": 0xFF, "i16": 0xFFFF, "i32": 0xFFFFFFFF}


class Scalars:
    """Emits operations on scalars; ``known`` has the expression of each value, ``index`` makes that of ``linalg.index``."""

    def __init__(self, lines: Lines, known: dict[ir.Value, Expr], tensors: Callable[[ir.Value], str], index: Callable[[int], Expr] | None = None) -> None:
        """``tensors``: the text of a whole tensor that the body reads elements of."""
        self.lines = lines
        self.known = known
        self._tensors = tensors
        self._index = index

    def emit(self, op: ir.Operation) -> None:
        """Make the expression of an operation's result known; short ones that are used once stay part of the next."""
        if op.name == "cf.assert":
            return
        if op.name == "arith.constant":
            value = constant_value(op.attributes["value"])
            if value is None:
                raise Inexpressible(f"{op.name} of {op.results[0].type}")
            self.known[op.results[0]] = literal(value)
            return
        if len(op.results) != 1 or len(op.regions):
            raise Inexpressible(op.name)
        made = self._expression(op)
        uses = use_count(op.results[0])
        if made.literal is None and (uses > 1 or len(made.text) > SHORT):
            made = self.lines.bind(made)
        self.known[op.results[0]] = made

    def get(self, value: ir.Value) -> Expr:
        if value not in self.known:
            raise Inexpressible(f"a body that reads {value.type} from outside")
        return self.known[value]

    def _expression(self, op: ir.Operation) -> Expr:
        name = op.name
        if name == "linalg.index":
            if self._index is None:
                raise Inexpressible("linalg.index outside of a body")
            return self._index(dim_of(op))
        if name == "tensor.extract":
            return self._extract(op)
        operands = [self.get(v) for v in op.operands]
        types = [v.type for v in op.operands]
        if name == "arith.select":
            return self._select(op, operands)
        if name in ("arith.cmpf", "arith.cmpi"):
            return self._compare(op, operands)
        if len(types) == 1 and (cast := self._cast(op, operands[0])) is not None:
            return cast
        if name == "math.fpowi":
            exponent = Expr(f"{operands[1].operand}.to({self.lines.dtype(types[0])})", operands[1].loops) if operands[1].literal is None else operands[1]
            return self._call("torch.pow({0}, {1})", [operands[0], exponent], types, atomic=True)
        one_bit = str(op.results[0].type) == "i1"
        infix = (_INFIX_BOOL if one_bit else _INFIX).get(name)
        if infix is not None:
            return self._call(f"{{0}} {infix} {{1}}", operands, types, atomic=False)
        if name in _CALLS and not one_bit:
            text = _CALLS[name]
            return self._call(text, operands, types, atomic=text.startswith("torch."))
        amount = operands[-1].literal
        if name == "arith.shrui" and element(types[0]) == "i64" and isinstance(amount, int) and 0 < amount < 64:
            shifted = self._call("{0} >> {1}", operands, types, atomic=False)
            return Expr(f"({shifted.text}) & {2 ** (64 - amount) - 1}", shifted.loops, atomic=False)
        if name in ("arith.maxui", "arith.minui", "arith.divui", "arith.remui", "arith.shrui") and element(types[0]) in _MASKS:
            a, b = (self._unsigned(o, t) for o, t in zip(operands, types))
            text = {"maxui": "torch.maximum({0}, {1})", "minui": "torch.minimum({0}, {1})", "divui": "{0} // {1}", "remui": "{0} % {1}", "shrui": "{0} >> {1}"}
            made = self._call(text[name.split(".")[1]], [a, b], types, atomic=False)
            return Expr(f"({made.text}).to({self.lines.dtype(types[0])})", made.loops)
        raise Inexpressible(f"{name} on {types[0] if types else 'nothing'}")

    def _call(self, text: str, operands: list[Expr], types: list[ir.Type], atomic: bool) -> Expr:
        """``text`` with operands that broadcast against each other; numbers alone, and in calls all numbers, become tensors."""
        loops = union(operands)
        all_numbers = all(o.literal is not None for o in operands)
        called = "torch." in text
        placed = []
        for i, (operand, type_) in enumerate(zip(operands, types)):
            whole = operand.literal is not None and ((all_numbers and i == 0) or (called and "pow" not in text and "rounding" not in text))
            placed.append(align(self.lines.tensor(operand, type_) if whole else operand, loops))
        bare = called and text.startswith("torch.") and "|" not in text
        return Expr(text.format(*(p.text if bare else p.operand for p in placed)), loops, atomic=atomic)

    def _select(self, op: ir.Operation, operands: list[Expr]) -> Expr:
        condition, yes, no = operands
        types = [v.type for v in op.operands]
        if yes.literal is not None and no.literal is not None:
            yes = self.lines.tensor(yes, types[1])
        loops = union(operands)
        c, a, b = (align(o, loops) for o in (self.lines.tensor(condition, types[0]), yes, no))
        return Expr(f"torch.where({c.text}, {a.text}, {b.text})", loops)

    def _compare(self, op: ir.Operation, operands: list[Expr]) -> Expr:
        kind, types = predicate(op), [v.type for v in op.operands]
        if op.name == "arith.cmpf":
            text = _FLOAT_COMPARISONS.get(kind)
            if text is None:
                raise Inexpressible(f"arith.cmpf {kind}")
            operands = [self.lines.tensor(o, t) if "isnan" in text else o for o, t in zip(operands, types)]
            loops = union(operands)
            a, b = operands
            if all(o.literal is not None for o in operands):
                a = self.lines.tensor(a, types[0])
            a, b = align(a, loops), align(b, loops)
            return Expr(text.format(a.operand, b.operand), loops, atomic=False)
        one_bit = element(types[0]) == "i1"
        if kind in _SIGNED_COMPARISONS and not (one_bit and kind not in ("eq", "ne")):
            return self._call(f"{{0}} {_SIGNED_COMPARISONS[kind]} {{1}}", operands, types, atomic=False)
        if kind in _UNSIGNED_COMPARISONS:
            sign = _UNSIGNED_COMPARISONS[kind]
            if one_bit:
                return self._call(f"{{0}} {sign} {{1}}", operands, types, atomic=False)
            if element(types[0]) in ("i64", "index"):  # the order of unsigned numbers is that of signed ones with the top bit flipped
                flipped = [Expr(f"({o.operand} ^ {-2**63})", o.loops) if o.literal is None else literal(o.literal ^ -(2**63)) for o in operands]
                return self._call(f"{{0}} {sign} {{1}}", flipped, types, atomic=False)
            return self._call(f"{{0}} {sign} {{1}}", [self._unsigned(o, t) for o, t in zip(operands, types)], types, atomic=False)
        raise Inexpressible(f"arith.cmpi {kind} on {types[0]}")

    def _unsigned(self, operand: Expr, type_: ir.Type) -> Expr:
        """An integer of fewer than 64 bits, taken as unsigned, in int64."""
        name = element(type_)
        if name == "i1":
            return Expr(f"{self.lines.tensor(operand, type_).operand}.to(torch.int64)", operand.loops)
        if name not in _MASKS:
            raise Inexpressible(f"an unsigned {name}")
        if operand.literal is not None:
            return literal(operand.literal & _MASKS[name])
        return Expr(f"({operand.operand}.to(torch.int64) & {_MASKS[name]})", operand.loops)

    def _cast(self, op: ir.Operation, operand: Expr) -> Expr | None:
        """A conversion; None where ``op`` is none."""
        name, source, target = op.name, element(op.operands[0].type), element(op.results[0].type)
        if not name.startswith("arith.") or name.split(".")[1] not in (
            "extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui", "index_cast", "index_castui",
        ):
            return None
        to = self.lines.dtype(op.results[0].type)
        value = self.lines.tensor(operand, op.operands[0].type)
        if name in ("arith.extui", "arith.uitofp", "arith.index_castui") and source != "index":
            value = self._unsigned(value, op.operands[0].type) if source != "i1" else value
        elif name == "arith.extsi" and source == "i1":
            return Expr(f"-{value.operand}.to({to})", value.loops, atomic=False)
        elif name in ("arith.sitofp", "arith.index_cast") and source == "i1":
            raise Inexpressible(f"{name} of a signed bit")
        elif name == "arith.trunci" and target == "i1":
            return Expr(f"({value.operand} & 1) != 0", value.loops, atomic=False)
        elif name == "arith.fptoui":
            if target != "i8":
                raise Inexpressible(f"{name} to {target}")
            return Expr(f"{value.operand}.to(torch.uint8).view(torch.int8)", value.loops)
        elif {source, target} <= {"index", "i64"}:
            return value if operand.literal is None else operand
        return Expr(f"{value.operand}.to({to})", value.loops)

    def _extract(self, op: ir.Operation) -> Expr:
        source, *indices = op.operands
        found = [self.get(v) for v in indices]
        loops = union(found)
        text = self._tensors(source)
        if not found:
            return Expr(text)
        return Expr(f"{text}[{', '.join(align(f, loops).text for f in found)}]", loops)
