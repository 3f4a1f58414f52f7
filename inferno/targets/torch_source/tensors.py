"""Operations on whole tensors as PyTorch: slices, padding, concatenation, scans, sorts and scatters."""

import math
from collections.abc import Callable

from inferno.mlir import ir, owner, terminator
from inferno.passes.import_scans import RUNNING
from inferno.targets.torch_source.scalars import Scalars
from inferno.targets.torch_source.values import Expr, Inexpressible, Lines, constant_value, literal, predicate, shape_of

_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape")


class Tensors:
    """Emits operations on tensors.  ``tensor`` gives the Expr of a value, ``scalar`` that of a number or element."""

    def __init__(self, lines: Lines, tensor: Callable[[ir.Value], Expr], scalar: Callable[[ir.Value], Expr]) -> None:
        self.lines, self._tensor, self._scalar = lines, tensor, scalar

    def emit(self, op: ir.Operation) -> list[Expr]:
        """The expressions of the operation's results."""
        name = op.name
        if name in _VIEWS:
            return [Expr(f"{self._tensor(op.operands[0]).operand}.reshape({shape_of(op.results[0].type)})")]
        if name == "tensor.cast":
            return [self._tensor(op.operands[0])]
        emit = {
            "arith.constant": self._constant, "tensor.extract_slice": self._slice, "tensor.insert_slice": self._insert, "tensor.pad": self._pad,
            "tensor.concat": self._concat, "tensor.from_elements": self._elements, "tensor.splat": self._splat, "tensor.insert": self._insert_element,
            "tm_tensor.scan": self._scan, "tm_tensor.sort": self._sort, "tm_tensor.scatter": self._scatter,
        }.get(name)
        if emit is None:
            raise Inexpressible(name)
        return emit(op)

    def _constant(self, op: ir.Operation) -> list[Expr]:
        attribute, type_ = op.attributes["value"], op.results[0].type
        dtype = self.lines.dtype(type_)
        number = constant_value(attribute)
        if number is not None:
            return [Expr(f"torch.full({shape_of(type_)}, {literal(number).text}, dtype={dtype})")]
        if not isinstance(attribute, (ir.DenseIntElementsAttr, ir.DenseFPElementsAttr)):
            raise Inexpressible(f"a constant of {type_} whose numbers are not in the text")
        numbers = ", ".join(literal(bool(n) if dtype == "i1" else n).text for n in attribute)
        return [Expr(f"torch.tensor([{numbers}], dtype={dtype}).reshape({shape_of(type_)})")]

    def _slice(self, op: ir.Operation) -> list[Expr]:
        index = self._slices(op, shape_of(op.operands[0].type), op.operands[1:])
        return [Expr(f"{self._tensor(op.operands[0]).operand}[{index}].reshape({shape_of(op.results[0].type)})")]

    def _insert(self, op: ir.Operation) -> list[Expr]:
        index = self._slices(op, shape_of(op.results[0].type), op.operands[2:])
        name = self.lines.name()
        sizes = tuple(ir.DenseI64ArrayAttr(op.attributes["static_sizes"]))
        self.lines.add(f"{name} = {self._tensor(op.operands[1]).operand}.clone()")
        self.lines.add(f"{name}[{index}] = {self._tensor(op.operands[0]).operand}.reshape({sizes})")
        return [Expr(name)]

    def _slices(self, op: ir.Operation, shape: tuple[int, ...], varying: list[ir.Value]) -> str:
        if len(varying):
            raise Inexpressible(f"{op.name} at a place that is computed")
        parts = []
        offsets, sizes, strides = (tuple(ir.DenseI64ArrayAttr(op.attributes[f"static_{n}"])) for n in ("offsets", "sizes", "strides"))
        for whole, offset, size, stride in zip(shape, offsets, sizes, strides):
            if stride < 1:
                raise Inexpressible(f"{op.name} with the stride {stride}")
            end = offset + (size - 1) * stride + 1 if size else offset
            parts.append(":" if (offset, size, stride) == (0, whole, 1) else f"{offset}:{end}" + (f":{stride}" if stride > 1 else ""))
        return ", ".join(parts) if parts else "..."

    def _pad(self, op: ir.Operation) -> list[Expr]:
        if len(op.operands) > 1:
            raise Inexpressible("tensor.pad by widths that are computed")
        value = terminator(op.regions[0].blocks[0]).operands[0]
        inside = owner(value)
        if isinstance(value, ir.BlockArgument) and value.owner == op.regions[0].blocks[0]:
            raise Inexpressible("tensor.pad with what depends on the place")
        number = literal(constant_value(inside.attributes["value"])) if inside is not None and inside.name == "arith.constant" else self._scalar(value)
        low = tuple(ir.DenseI64ArrayAttr(op.attributes["static_low"]))
        source, shape = shape_of(op.operands[0].type), shape_of(op.results[0].type)
        name = self.lines.name()
        if number.literal is not None:
            self.lines.add(f"{name} = torch.full({shape}, {number.text}, dtype={self.lines.dtype(op.results[0].type)})")
        else:
            self.lines.add(f"{name} = {number.operand}.expand({shape}).clone()")
        inside = [(max(0, -b), min(n, m - b)) for b, n, m in zip(low, source, shape)]  # a negative width cuts off
        if all(begin < end for begin, end in inside):
            to = ", ".join(f"{b + begin}:{b + end}" for b, (begin, end) in zip(low, inside)) or "..."
            cut = ", ".join(f"{begin}:{end}" for begin, end in inside)
            whole = inside == [(0, n) for n in source]
            self.lines.add(f"{name}[{to}] = {self._tensor(op.operands[0]).operand}{'' if whole else f'[{cut}]'}")
        return [Expr(name)]

    def _concat(self, op: ir.Operation) -> list[Expr]:
        parts = ", ".join(self._tensor(v).text for v in op.operands)
        return [Expr(f"torch.cat([{parts}], {ir.IntegerAttr(op.attributes['dim']).value})")]

    def _elements(self, op: ir.Operation) -> list[Expr]:
        type_ = op.results[0].type
        parts = ", ".join(self.lines.tensor(self._scalar(v), type_).text for v in op.operands)
        return [Expr(f"torch.stack([{parts}]).reshape({shape_of(type_)})")]

    def _splat(self, op: ir.Operation) -> list[Expr]:
        type_ = op.results[0].type
        return [Expr(f"{self.lines.tensor(self._scalar(op.operands[0]), type_).operand}.expand({shape_of(type_)})")]

    def _insert_element(self, op: ir.Operation) -> list[Expr]:
        value, target, *index = op.operands
        name = self.lines.name()
        self.lines.add(f"{name} = {self._tensor(target).operand}.clone()")
        self.lines.add(f"{name}[{', '.join(self._scalar(i).text for i in index) or '...'}] = {self._scalar(value).text}")
        return [Expr(name)]

    def _scan(self, op: ir.Operation) -> list[Expr]:
        block = op.regions[0].blocks[0]
        inclusive = "inclusive" in op.attributes and ir.BoolAttr(op.attributes["inclusive"]).value
        combiner = owner(terminator(block).operands[0])
        whole = len(block.operations) == 2 and combiner is not None and set(combiner.operands) == set(block.arguments)
        text = {
            "arith.addf": "cumsum({})", "arith.addi": "cumsum({})", "arith.mulf": "cumprod({})", "arith.muli": "cumprod({})",
            "arith.maximumf": "cummax({})[0]", "arith.minimumf": "cummin({})[0]", "arith.maxsi": "cummax({})[0]", "arith.minsi": "cummin({})[0]",
        }.get(combiner.name if whole else "")
        if RUNNING in op.attributes:
            text = {"logaddexp": "logcumsumexp({})"}.get(ir.StringAttr(op.attributes[RUNNING]).value)
        if text is None or not inclusive:
            raise Inexpressible("tm_tensor.scan that is not an inclusive sum, product or extreme")
        dim, type_ = ir.IntegerAttr(op.attributes["dimension"]).value, op.results[0].type
        dtype = f", dtype={self.lines.dtype(type_)}" if "sum" in text or "prod" in text else ""
        made = self.lines.bind(Expr(f"{self._tensor(op.operands[0]).operand}.{text.format(f'{dim}{dtype}')}"))
        if not shape_of(type_)[dim]:
            return [made, self._tensor(op.operands[2])]
        return [made, Expr(f"{made.text}.select({dim}, -1)")]

    def _sort(self, op: ir.Operation) -> list[Expr]:
        block = op.regions[0].blocks[0]
        compare = owner(terminator(block).operands[0])
        kind = predicate(compare) if len(block.operations) == 2 and compare is not None and compare.name in ("arith.cmpf", "arith.cmpi") else ""
        sides = [a.arg_number if isinstance(a, ir.BlockArgument) else -1 for a in compare.operands] if kind else []
        key = sides[0] // 2 if sides else 0
        if kind not in ("ole", "oge", "sle", "sge") or sides != [2 * key, 2 * key + 1]:
            raise Inexpressible("tm_tensor.sort whose comparison is not <= or >= of one operand")
        half = len(op.operands) // 2
        operands = list(op.operands)[:half] if len(op.operands) > len(op.results) else list(op.operands)
        dim = ir.IntegerAttr(op.attributes["dimension"]).value
        order = self.lines.name()
        descending = ", descending=True" if kind.endswith("ge") else ""
        self.lines.add(f"{order} = torch.sort({self._tensor(operands[key]).text}, dim={dim}{descending}, stable=True).indices")
        return [Expr(f"torch.gather({self._tensor(v).text}, {dim}, {order})") for v in operands]

    def _scatter(self, op: ir.Operation) -> list[Expr]:
        """Updates as one flat list of places and values."""
        updates, indices, target = op.operands
        shape, window = shape_of(target.type), shape_of(updates.type)[1:]
        count, rank = shape_of(indices.type)[0], len(shape)
        dims = tuple(ir.DenseI64ArrayAttr(op.attributes["dimension_map"]))
        extra = rank - len(window)
        place, value, name = self.lines.name(), self.lines.name(), self.lines.name()
        terms = []
        for d in range(rank):
            step = math.prod(shape[d + 1:])
            at = f"[:, {dims.index(d)}].to(torch.int64)" if d in dims else ""
            if at:
                text = f"{self._tensor(indices).operand}{at}.reshape({(count, *[1] * len(window))})"
                terms.append(f"{text} * {step}" if step != 1 else text)
            if d >= extra and window[d - extra] > 1:
                text = f"torch.arange({window[d - extra]}).reshape({tuple(w if i == d - extra else 1 for i, w in enumerate(window))})"
                terms.append(f"{text} * {step}" if step != 1 else text)
        self.lines.add(f"{place} = ({' + '.join(terms)}).expand({(count, *window)}).reshape(-1)")
        self.lines.add(f"{value} = {self._tensor(updates).operand}.reshape(-1)")
        self.lines.add(f"{name} = {self._tensor(target).operand}.reshape(-1).clone()")
        self._combine(op, place, value, name, math.prod(shape))
        return [Expr(f"{name}.reshape({shape})")]

    def _combine(self, op: ir.Operation, place: str, value: str, name: str, count: int) -> None:
        block = op.regions[0].blocks[0]
        update, old = block.arguments
        end = terminator(block).operands[0]
        made = owner(end)
        if end == update:
            # Of several updates of one element the last stays.
            last = self.lines.name()
            self.lines.add(f"{last} = torch.full(({count},), -1).scatter_reduce(0, {place}, torch.arange({place}.numel()), 'amax')")
            self.lines.add(f"{name}[{last} >= 0] = {value}[{last}[{last} >= 0]]")
            return
        both = made is not None and len(block.operations) == 2 and set(made.operands) == {update, old}
        kind = {
            "arith.addf": "sum", "arith.addi": "sum", "arith.mulf": "prod", "arith.muli": "prod", "arith.maximumf": "amax", "arith.maxsi": "amax",
            "arith.minimumf": "amin", "arith.minsi": "amin",
        }.get(made.name if both else "")
        if kind is not None and str(end.type) != "i1":
            self.lines.add(f"{name} = {name}.scatter_reduce(0, {place}, {value}, '{kind}')")
            return
        self.lines.add(f"for i in range({place}.numel()):")
        outer, self.lines.indent = self.lines.indent, self.lines.indent + "    "
        scalars = Scalars(self.lines, {update: Expr(f"{value}[i]"), old: Expr(f"{name}[{place}[i]]")}, lambda v: self._tensor(v).operand)
        for inner in block.operations:
            if inner.operation.name != "tm_tensor.yield":
                scalars.emit(inner.operation)
        self.lines.add(f"{name}[{place}[i]] = {scalars.get(end).text}")
        self.lines.indent = outer
