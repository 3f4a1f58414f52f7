"""What a ``linalg.generic`` on buffers computes: which of its loops can be threads, and how its sums are combined."""

from dataclasses import dataclass, replace

from inferno.errors import CompileError
from inferno.mlir import ir, terminator
from inferno.passes.generics import PARALLEL, kinds, maps
from inferno.passes.shapes import UnknownSize, shape
from inferno.schedule.analysis.accesses import steps_in_memory
from inferno.schedule.analysis.combiners import Combiner, read_combiner, to_term
from inferno.schedule.reductions.extrema import Extremum, read_extremum, to_candidate
from inferno.symbolic import Int, bounds, hint, product


@dataclass(frozen=True)
class Structured:
    """``parallel``: loops whose iterations write different elements, the one that walks the destination fastest last;
    ``serial``: the others, in order.  ``strides``: elements that each operand moves by in each loop, None where not linear.
    ``combiners``: one a result if all running values are combined in ways that may be regrouped; ``extremum`` tells
    that they are combined together, as a value and its place."""

    operation: ir.Operation
    sizes: tuple[Int, ...]
    parallel: tuple[int, ...]
    serial: tuple[int, ...]
    inputs: int
    strides: tuple[tuple[Int, ...] | None, ...]
    combiners: tuple[Combiner, ...] | None
    extremum: Extremum | None = None

    @property
    def points(self) -> Int:
        return product(self.sizes[d] for d in self.parallel)

    @property
    def length(self) -> Int:
        """Terms of one sum."""
        return product(self.sizes[d] for d in self.serial)

    @property
    def outputs(self) -> list[ir.Value]:
        return list(self.operation.operands)[self.inputs:]

    @property
    def in_registers(self) -> bool:
        """Whether a point's results stay in place while its serial loops run."""
        return all(s is not None and not any(s[d] != 0 for d in self.serial if self.sizes[d] != 1) for s in self.strides[self.inputs:])


def read_structured(operation: ir.Operation, like: Structured | None = None) -> Structured:
    """The generic as loops.  CompileError for sizes that are not known.  ``like`` is the operation that this one is a copy of, in a
    function that does not tell sizes."""
    kind, all_maps = kinds(operation), maps(operation)
    sizes = _sizes(operation, all_maps) if like is None else like.sizes
    strides = tuple(_strides(v, m) for v, m in zip(operation.operands, all_maps)) if like is None else like.strides
    body = operation.regions[0].blocks[0]
    count = len(terminator(body).operands)
    inputs = len(operation.operands) - count
    parallel = [d for d, k in enumerate(kind) if k == PARALLEL]
    if not all(_injective(s, parallel, sizes) for s in strides[inputs:]):
        parallel = [d for d in parallel if all(_own_coordinate(m, d) for m in all_maps[inputs:])]
    first = strides[inputs] if count and strides[inputs] is not None else (0,) * len(sizes)
    parallel.sort(key=lambda d: -abs(hint(first[d])))
    serial = tuple(d for d in range(len(sizes)) if d not in parallel)
    found = Structured(operation, sizes, tuple(parallel), serial, inputs, strides, None)
    if not serial or not found.in_registers:
        return found
    loops = [d for d in serial if sizes[d] != 1]
    extremum = read_extremum(body, inputs, loops[0]) if len(loops) == 1 else None
    combiners = extremum.combiners if extremum is not None else _combiners(body, inputs)
    return Structured(operation, sizes, tuple(parallel), serial, inputs, strides, combiners, extremum)


def with_scalars(structured: Structured) -> Structured:
    """The same once inputs of the operation have become scalars.  Its loops stay as long as they were: those inputs may be all that told."""
    operation = structured.operation
    return replace(structured, strides=tuple(_strides(v, m) for v, m in zip(operation.operands, maps(operation))))


def _sizes(operation: ir.Operation, all_maps: list[ir.AffineMap]) -> tuple[Int, ...]:
    sizes: list[Int | None] = [None] * len(kinds(operation))
    for value, map_ in zip(operation.operands, all_maps):
        if not isinstance(value.type, ir.MemRefType):
            continue
        type_ = ir.MemRefType(value.type)
        for d, expr in enumerate(map_.results):
            if isinstance(expr, ir.AffineDimExpr) and not isinstance(sizes[ir.AffineDimExpr(expr).position], int):
                sizes[ir.AffineDimExpr(expr).position] = _size(value, type_, d)
    if any(s is None for s in sizes):
        raise CompileError(f"a loop of this operation has no known size: {str(operation)[:300]}")
    return tuple(sizes)


def _size(value: ir.Value, type_: ir.MemRefType, dim: int) -> Int | None:
    if not type_.is_dynamic_dim(dim):
        return type_.shape[dim]
    try:
        return shape(value)[dim]
    except UnknownSize:
        return None


def _strides(value: ir.Value, map_: ir.AffineMap) -> tuple[Int, ...] | None:
    """Elements by which the access moves when each loop takes a step."""
    if not isinstance(value.type, ir.MemRefType):
        return (0,) * map_.n_dims
    found = steps_in_memory(value, map_)
    return None if found is None else found[0]


def _injective(strides: tuple[Int, ...] | None, loops: list[int], sizes: tuple[Int, ...]) -> bool:
    """Whether different iterations go to different elements: each stride is beyond the reach of all smaller ones."""
    if strides is None:
        return False
    reach: Int = 0
    steps = [(-strides[d] if bounds(strides[d])[1] < 0 else strides[d], sizes[d]) for d in loops if sizes[d] != 1]
    for stride, size in sorted(steps, key=lambda s: (hint(s[0]), hint(s[1]))):
        if bounds(stride - reach)[0] <= 0:
            return False
        reach = reach + stride * (size - 1)
    return True


def _own_coordinate(map_: ir.AffineMap, dim: int) -> bool:
    """Whether the loop alone is one coordinate of the access."""
    return any(isinstance(e, ir.AffineDimExpr) and ir.AffineDimExpr(e).position == dim for e in map_.results)


def _combiners(body: ir.Block, inputs: int) -> tuple[Combiner, ...] | None:
    found = [read_combiner(body, running, i) for i, running in enumerate(list(body.arguments)[inputs:])]
    return tuple(found) if all(c is not None for c in found) else None


def to_terms(structured: Structured) -> None:
    """Make the body yield what is combined with the running values instead of the combination; they are not read then."""
    body = structured.operation.regions[0].blocks[0]
    if structured.extremum is not None:
        to_candidate(body, structured.inputs)
        return
    for i, running in enumerate(list(body.arguments)[structured.inputs:]):
        to_term(body, running, i)


def combine(structured: Structured, a: list[ir.Value], b: list[ir.Value]) -> list[ir.Value]:
    """Running values with others, or with terms."""
    if structured.extremum is not None:
        return structured.extremum.combine(a, b)
    return [c.combine(x, y) for c, x, y in zip(structured.combiners, a, b)]
