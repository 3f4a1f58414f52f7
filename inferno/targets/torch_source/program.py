"""A module as a Python program: a function for each kernel function, and ``main`` with the calls."""

from dataclasses import dataclass

from inferno.mlir import func, ir, is_read, is_unread, owner, run_upstream, walk
from inferno.passes.generics import body, inputs, is_generic, yielded
from inferno.passes.programs import callee, takes_tf32
from inferno.passes.remove_asserts import remove_asserts
from inferno.passes.split_contractions import split_contractions
from inferno.targets.torch_source.generic import Generic
from inferno.targets.torch_source.scalars import Scalars
from inferno.targets.torch_source.tensors import Tensors
from inferno.targets.torch_source.values import DTYPES, Expr, Inexpressible, Lines, constant_value, element, literal, shape_of

_NAMED = ("linalg-generalize-named-ops", "refback-generalize-tensor-pad")


@dataclass(frozen=True)
class Source:
    """``text``: Python; its functions are called like the module's.  ``missing``: by function, the operation that it lacks and why;
    such a function raises NotImplementedError.  ``roundings``: by function, the floating-point types that it rounds to on its way;
    ``tf32``: the functions whose float32 products may be TF32."""

    text: str
    missing: dict[str, str]
    roundings: dict[str, tuple[str, ...]]
    tf32: frozenset[str] = frozenset()


def to_torch(module: ir.Module) -> Source:
    """The program of a module on tensors (``linalg``, ``fused`` or ``scheduled`` stage), which is rewritten on the way.

    The text binds short dtype names (``f32``) at its top: run with all of them float64 it is its own reference.
    """
    with module.context, ir.Location.unknown():
        roundings = {o.name.value: _roundings(o) for o in module.body.operations if isinstance(o, func.FuncOp)}
        tf32 = frozenset(o.name.value for o in module.body.operations if isinstance(o, func.FuncOp) and takes_tf32(o))
        remove_asserts(module)
        run_upstream(module, f"func.func({_NAMED[0]})")
        split_contractions(module)
        functions, missing, dtypes = [], {}, set()
        for op in module.body.operations:
            if not isinstance(op, func.FuncOp) or op.is_external:
                continue
            text, reason, used = _function(op)
            functions.append(text)
            dtypes |= used
            if reason:
                missing[op.name.value] = reason
    functions.sort(key=lambda text: text.startswith("def main("))
    header = ["import torch", "from torch import Tensor", ""]
    header += [f"{name} = {DTYPES[name]}" for name in DTYPES if name in dtypes]
    if any("inf" in f or "nan" in f for f in functions):
        header += ["inf, nan = float(\"inf\"), float(\"nan\")"]
    return Source("\n".join(header) + "\n\n\n" + "\n\n".join(functions), missing, roundings, tf32)


def _roundings(function: func.FuncOp) -> tuple[str, ...]:
    """The types that values are rounded to: of results, and of what is narrowed on the way."""
    types = {str(t.element_type) for t in function.type.results if isinstance(t, ir.RankedTensorType)}
    types |= {str(r.type) for op in walk(function, "arith.truncf") for r in op.results}
    return tuple(sorted(t for t in types if t in ("f64", "f32", "f16", "bf16")))


def python_name(name: str) -> str:
    """A symbol's name as Python takes it."""
    return name.replace(".", "_").replace("$", "_").replace("-", "_")


def _function(function: func.FuncOp) -> tuple[str, str, set[str]]:
    """The text of one function, why it cannot be expressed ("" if it can), and the dtypes it uses."""
    lines = Lines()
    arguments = list(function.regions[0].blocks[0].arguments)
    names = [f"a{i}" for i in range(len(arguments))]
    many = len(function.type.results) != 1
    head = f"def {python_name(function.name.value)}({', '.join(f'{n}: Tensor' for n in names)}) -> {'tuple[Tensor, ...]' if many else 'Tensor'}:"
    reason = ""
    try:
        described = [_describe(a.type) for a in arguments]
        results = [_describe(t) for t in function.type.results]
        lines.text.append(f'    """{", ".join(described) or "()"} -> {", ".join(results) or "()"}"""')
        _Body(lines, dict(zip(arguments, names))).emit(function.regions[0].blocks[0])
    except Inexpressible as error:
        reason = str(error)
        lines = Lines()
        lines.comment(f"No PyTorch form: {reason}")
        lines.add(f"raise NotImplementedError({f'@{function.name.value}: no PyTorch form: {reason}'!r})")
    return "\n".join([head, *lines.text]) + "\n", reason, lines.dtypes


def _describe(type_: ir.Type) -> str:
    return f"{element(type_)}{list(shape_of(type_))}"


def _fills(op: ir.Operation) -> bool:
    """Whether a generic writes one number, a scalar input, everywhere."""
    if not is_generic(op) or len(op.results) != 1 or isinstance(op.operands[0].type, ir.RankedTensorType):
        return False
    return yielded(op) == [body(op).arguments[0]] and len(inputs(op)) == 1


class _Body:
    """Emits the operations of a function in order."""

    def __init__(self, lines: Lines, names: dict[ir.Value, str]) -> None:
        self._lines = lines
        self._known: dict[ir.Value, Expr] = {v: Expr(n) for v, n in names.items()}
        self._scalars = Scalars(lines, {}, lambda v: self._tensor(v).operand)
        self._tensors = Tensors(lines, self._tensor, self._scalars.get)

    def emit(self, block: ir.Block) -> None:
        for op in block.operations:
            op = op.operation
            if op.name == "func.return":
                values = [self._tensor(v) if isinstance(v.type, ir.RankedTensorType) else self._lines.tensor(self._scalars.get(v), v.type) for v in op.operands]
                text = ", ".join(v.text for v in values)
                self._lines.add(f"return {text}" if len(values) == 1 else f"return ({text}{',' if values else ''})")
            elif op.name in ("tensor.empty", "linalg.fill") or _fills(op) or is_unread(op):
                continue  # made where they are read
            elif op.name == "func.call":
                self._call(op)
            elif all(isinstance(r.type, ir.RankedTensorType) for r in op.results):
                made = self._generic(op) if op.name == "linalg.generic" else self._tensors.emit(op)
                for result, expr in zip(op.results, made):
                    read = is_read(result)
                    self._known[result] = self._lines.bind(expr) if read else expr
            else:
                self._scalars.emit(op)

    def _call(self, op: ir.Operation) -> None:
        function = python_name(callee(op))
        made = [self._lines.name() for _ in op.results]
        if made:
            call = f"{function}({', '.join(self._tensor(v).text for v in op.operands)})"
            self._lines.add(f"{', '.join(made)} = {call}")
        self._known.update((r, Expr(n)) for r, n in zip(op.results, made))

    def _generic(self, op: ir.Operation) -> list[Expr]:
        outside = {v: self._scalars.known[v] for v in self._scalars.known}
        for inner in walk(op):
            for value in inner.operands:
                made = owner(value)
                if made is not None and made.name == "arith.constant" and not isinstance(value.type, ir.RankedTensorType):
                    outside[value] = literal(constant_value(made.attributes["value"]))
        return Generic(op, self._lines, self._tensor, self._fill, outside).emit()

    def _fill(self, value: ir.Value) -> Expr | None:
        """The number that a tensor is filled with, if it is; a fill may have become a generic that yields its scalar input."""
        op = owner(value)
        return self._scalars.get(op.operands[0]) if op is not None and (op.name == "linalg.fill" or _fills(op)) else None

    def _tensor(self, value: ir.Value) -> Expr:
        if value in self._known:
            return self._known[value]
        op, type_ = owner(value), value.type
        shape, dtype = shape_of(type_), self._lines.dtype(type_)
        if op is not None and op.name == "tensor.empty":
            return Expr(f"torch.empty({shape}, dtype={dtype})")
        number = self._fill(value)
        if number is None:
            raise Inexpressible(op.name if op is not None else "a value from outside")
        if number.literal is not None:
            return Expr(f"torch.full({shape}, {number.text}, dtype={dtype})")
        return Expr(f"{number.operand}.expand({shape})")
