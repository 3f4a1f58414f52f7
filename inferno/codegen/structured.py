"""What a ``linalg.generic`` on buffers computes: which of its loops can be threads, and how its sums are combined."""

import math
from dataclasses import dataclass

from inferno.errors import CompileError
from inferno.mlir import arith, ir, owner
from inferno.schedule.accesses import iterators, linear, maps

# Combiners that may be applied in any order, and the value that changes nothing.
_IDENTITY: dict[str, float | int | str] = {
    "arith.addf": -0.0, "arith.mulf": 1.0, "arith.maximumf": -math.inf, "arith.minimumf": math.inf, "arith.maxnumf": math.nan,
    "arith.minnumf": math.nan, "arith.addi": 0, "arith.muli": 1, "arith.andi": -1, "arith.ori": 0, "arith.xori": 0,
    "arith.maxsi": "least", "arith.minsi": "most", "arith.maxui": 0, "arith.minui": -1,
}


@dataclass(frozen=True)
class Combiner:
    """The operation that adds a term to a running value.

    ``narrow`` is the type in memory.  Running values have ``type``, float32 for 16-bit floats, float64 for float32 products.  What many running values come
    together in has ``total``: float64 for float32 sums, so that their number adds no error.  Where terms wait for memory all is
    added as totals.
    """

    name: str
    narrow: ir.Type
    type: ir.Type
    total: ir.Type

    @property
    def sums(self) -> bool:
        """Whether rounding errors add up."""
        return self.name == "arith.addf"

    def identity(self, type_: ir.Type | None = None) -> ir.Value:
        type_, value = type_ or self.type, _IDENTITY[self.name]
        if isinstance(value, float):
            return arith.constant(type_, ir.FloatAttr.get(type_, value))
        width = ir.IntegerType(type_).width
        value = {"least": -(1 << (width - 1)), "most": (1 << (width - 1)) - 1}.get(value, value)
        return arith.constant(type_, ir.IntegerAttr.get(type_, value))

    def combine(self, a: ir.Value, b: ir.Value) -> ir.Value:
        attributes = {"fastmath": ir.Attribute.parse("#arith.fastmath<contract>")} if self.name in ("arith.addf", "arith.mulf") else {}
        return ir.Operation.create(self.name, results=[a.type], operands=[a, b], attributes=attributes).results[0]

    def widen(self, value: ir.Value) -> ir.Value:
        """A term, or a value from memory, as a running value; a rounding to the type in memory is undone."""
        op = owner(value)
        if value.type != self.type and op is not None and op.name == "arith.truncf" and op.operands[0].type == self.type:
            return op.operands[0]
        return _convert(value, self.type)

    def to_total(self, value: ir.Value) -> ir.Value:
        return _convert(value, self.total)

    def round(self, value: ir.Value) -> ir.Value:
        """As it goes to memory."""
        return _convert(value, self.narrow)


def _convert(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A float in another precision; anything else as it is."""
    if value.type == type_:
        return value
    return arith.extf(type_, value) if type_.width > value.type.width else arith.truncf(type_, value)


@dataclass(frozen=True)
class Structured:
    """``parallel``: loops whose iterations write different elements, the one that walks the destination fastest last;
    ``serial``: the others, in order.  ``strides``: elements that each operand moves by in each loop, None where not linear.
    ``combiners``: one a result if all running values are combined in ways that may be regrouped."""

    operation: ir.Operation
    sizes: tuple[int, ...]
    parallel: tuple[int, ...]
    serial: tuple[int, ...]
    inputs: int
    strides: tuple[tuple[int, ...] | None, ...]
    combiners: tuple[Combiner, ...] | None

    @property
    def points(self) -> int:
        return math.prod(self.sizes[d] for d in self.parallel)

    @property
    def length(self) -> int:
        """Terms of one sum."""
        return math.prod(self.sizes[d] for d in self.serial)

    @property
    def outputs(self) -> list[ir.Value]:
        return list(self.operation.operands)[self.inputs:]

    @property
    def in_registers(self) -> bool:
        """Whether a point's results stay in place while its serial loops run."""
        return all(s is not None and not any(s[d] for d in self.serial if self.sizes[d] > 1) for s in self.strides[self.inputs:])


def read_structured(operation: ir.Operation) -> Structured:
    """The generic as loops.  CompileError for sizes that are not known."""
    kinds, all_maps = iterators(operation), maps(operation)
    sizes = _sizes(operation, all_maps)
    strides = tuple(_strides(v, m) for v, m in zip(operation.operands, all_maps))
    body = operation.regions[0].blocks[0]
    count = len(body.operations[len(body.operations) - 1].operands)
    inputs = len(operation.operands) - count
    parallel = [d for d, kind in enumerate(kinds) if kind == "parallel"]
    if not all(_injective(s, parallel, sizes) for s in strides[inputs:]):
        parallel = [d for d in parallel if all(_own_coordinate(m, d) for m in all_maps[inputs:])]
    first = strides[inputs] if count and strides[inputs] is not None else (0,) * len(sizes)
    parallel.sort(key=lambda d: -abs(first[d]))
    serial = tuple(d for d in range(len(sizes)) if d not in parallel)
    found = Structured(operation, sizes, tuple(parallel), serial, inputs, strides, None)
    combiners = _combiners(body, inputs) if serial and found.in_registers else None
    return Structured(operation, sizes, tuple(parallel), serial, inputs, strides, combiners)


def _sizes(operation: ir.Operation, all_maps: list[ir.AffineMap]) -> tuple[int, ...]:
    sizes: list[int | None] = [None] * len(iterators(operation))
    for value, map_ in zip(operation.operands, all_maps):
        if not isinstance(value.type, ir.MemRefType):
            continue
        type_ = ir.MemRefType(value.type)
        for d, expr in enumerate(map_.results):
            if isinstance(expr, ir.AffineDimExpr) and not type_.is_dynamic_dim(d):
                sizes[ir.AffineDimExpr(expr).position] = type_.shape[d]
    if any(s is None for s in sizes):
        raise CompileError(f"a loop of this operation has no known size: {str(operation)[:300]}")
    return tuple(sizes)


def _strides(value: ir.Value, map_: ir.AffineMap) -> tuple[int, ...] | None:
    """Elements by which the access moves when each loop takes a step."""
    if not isinstance(value.type, ir.MemRefType):
        return (0,) * map_.n_dims
    steps, _ = ir.MemRefType(value.type).get_strides_and_offset()
    if any(s == ir.ShapedType.get_dynamic_stride_or_offset() for s in steps):
        return None
    total = [0] * map_.n_dims
    for step, expr in zip(steps, map_.results):
        part = linear(expr, map_.n_dims)
        if part is None:
            return None
        total = [t + step * c for t, c in zip(total, part[0])]
    return tuple(total)


def _injective(strides: tuple[int, ...] | None, loops: list[int], sizes: tuple[int, ...]) -> bool:
    """Whether different iterations go to different elements: each stride is beyond the reach of all smaller ones."""
    if strides is None:
        return False
    reach = 0
    for stride, size in sorted((abs(strides[d]), sizes[d]) for d in loops if sizes[d] > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def _own_coordinate(map_: ir.AffineMap, dim: int) -> bool:
    """Whether the loop alone is one coordinate of the access."""
    return any(isinstance(e, ir.AffineDimExpr) and ir.AffineDimExpr(e).position == dim for e in map_.results)


def _combiners(body: ir.Block, inputs: int) -> tuple[Combiner, ...] | None:
    found = [read_combiner(body, running, i) for i, running in enumerate(list(body.arguments)[inputs:])]
    return tuple(found) if all(c is not None for c in found) else None


def read_combiner(body: ir.Block, running: ir.Value, result: int = 0) -> Combiner | None:
    """How ``body`` computes a result from the running value and a term that does not depend on it; None if not like that."""
    value = body.operations[len(body.operations) - 1].operands[result]
    found = _combination(body, running, value)
    if found is None:
        return None
    type_ = found[0].results[0].type
    if found[0].name in ("arith.addf", "arith.mulf") and isinstance(type_, (ir.F16Type, ir.BF16Type)):
        type_ = ir.F32Type.get()
    elif found[0].name == "arith.mulf" and isinstance(type_, ir.F32Type):
        type_ = ir.F64Type.get()  # each factor's rounding counts in full, and products of many terms are rare
    total = ir.F64Type.get() if found[0].name == "arith.addf" and isinstance(type_, ir.F32Type) else type_
    return Combiner(found[0].name, value.type, type_, total)


def _combination(body: ir.Block, running: ir.Value, value: ir.Value) -> tuple[ir.Operation, ir.Value] | None:
    """The operation that combines ``running`` with a term, and the term; both may be converted to a wider type and back."""
    op = owner(value)
    if op is not None and op.name == "arith.truncf" and _single(value):
        uses = [u.owner.operation for u in running.uses]
        if len(uses) != 1 or uses[0].name != "arith.extf":
            return None
        running, value = uses[0].results[0], op.operands[0]
        op = owner(value)
    if op is None or op.name not in _IDENTITY or op.parent != body.owner.operation or list(op.operands).count(running) != 1:
        return None
    if not _single(running) or not _single(value):
        return None
    return op, next(v for v in op.operands if v != running)


def _single(value: ir.Value) -> bool:
    return len(list(value.uses)) == 1


def to_terms(structured: Structured) -> None:
    """Make the body yield what is combined with the running values instead of the combination; they are not read then."""
    body = structured.operation.regions[0].blocks[0]
    end = body.operations[len(body.operations) - 1].operation
    for i, running in enumerate(list(body.arguments)[structured.inputs:]):
        value = end.operands[i]
        op, term = _combination(body, running, value)
        end.operands[i] = term
        if owner(value) != op:
            owner(value).erase()
        op.erase()
        for use in list(running.uses):
            use.owner.operation.erase()
