"""What a kernel that sorts computes: whose rows, in which order, and which of the sorted places it keeps."""

from dataclasses import dataclass, replace
from math import prod

from inferno.mlir import arith, dim_of, func, ir, makes, owner, walk
from inferno.passes.programs import returned, root_of
from inferno.passes.shapes import known_shape, slice_parts, symbol_arguments
from inferno.schedule.analysis.as_map import as_map
from inferno.schedule.maps.pointwise import Pointwise
from inferno.symbolic import Int, bounds, hint, product

_FLOATS, _INTEGERS = ("f16", "bf16", "f32", "f64"), ("i8", "i16", "i32", "i64")


@dataclass(frozen=True)
class Kept:
    """A destination, by its number among the kernel's arguments: the values or the places of ``SortKernel.count`` sorted elements, or what a map ``after`` it
    makes of all of both, which are its arguments behind the kernel's."""

    argument: int
    indices: bool
    after: Pointwise | None = None


@dataclass(frozen=True)
class SortKernel:
    """Each row along ``dim`` of argument ``source``, or of what a map makes, is sorted, equal elements staying in their order; of the sorted row ``count``
    elements from ``begin`` on are kept.  What is outside of ``dim`` may vary."""

    source: int | Pointwise
    shape: tuple[Int, ...]
    dim: int
    element: ir.Type
    descending: bool
    begin: int
    count: int
    kept: tuple[Kept, ...]

    @property
    def length(self) -> int:
        return self.shape[self.dim]

    @property
    def inner(self) -> int:
        """Elements between neighbours of a row."""
        return prod(self.shape[self.dim + 1:])

    @property
    def rows(self) -> Int:
        return product(self.shape[:self.dim]) * self.inner

    @property
    def example(self) -> "SortKernel":
        """The same of the example's sizes."""
        return replace(self, shape=tuple(map(hint, self.shape)))

    @property
    def maps(self) -> tuple[Pointwise, ...]:
        """What is computed in front of it, and of what is sorted."""
        return tuple(x for x in (self.source, *(k.after for k in self.kept)) if isinstance(x, Pointwise))

    @property
    def bits(self) -> int:
        return self.element.width


def parse_sort_kernel(kernel: func.FuncOp) -> SortKernel | None:
    """What ``kernel`` sorts; None for anything but one sort of rows of a known length by an order of its only data, whose places go with it."""
    sorts = walk(kernel, "tm_tensor.sort")
    if len(sorts) != 1 or len(sorts[0].operands) != 2:
        return None
    sort = sorts[0]
    data, places = sort.operands
    dim, shape_ = ir.IntegerAttr(sort.attributes["dimension"]).value, ir.RankedTensorType(data.type)
    source = root_of(_copied(data))
    shape = known_shape(data)
    if any(bounds(n)[0] < 1 for n in shape) or not all(isinstance(n, int) for n in shape[dim:]):
        return None
    if not _is_iota(places, dim):
        return None
    known = not symbol_arguments(kernel.operation)
    read = source.arg_number if isinstance(source, ir.BlockArgument) else as_map(kernel, source) if known else None
    if read is None:
        return None
    descending = _order(sort)
    if descending is None or str(shape_.element_type) not in (*_FLOATS, *_INTEGERS):
        return None
    arguments = list(kernel.entry_block.arguments)
    values = returned(kernel)
    kept, windows = [], set()
    for destination, value in zip(arguments[len(arguments) - len(values):], values):
        found = _window(value, sort, dim)
        if found is None and known and (after := _after(kernel, value, sort)) is not None:
            windows.add((0, shape[dim]))
            kept.append(Kept(destination.arg_number, False, after))
            continue
        if found is None or str(destination.type.element_type) not in (str(shape_.element_type), "i64"):
            return None
        result, begin, count = found
        windows.add((begin, count))
        kept.append(Kept(destination.arg_number, result == 1))
    if len(windows) != 1:
        return None
    begin, count = windows.pop()
    return SortKernel(read, shape, dim, shape_.element_type, descending, begin, count, tuple(kept))


def _after(kernel: func.FuncOp, value: ir.Value, sort: ir.Operation) -> Pointwise | None:
    """The map of whole sorted rows, point by point, that makes a value."""
    point = as_map(kernel, value, list(sort.results))
    count = len(kernel.type.inputs)
    if point is None or root_of(value) in list(sort.results) or any(argument >= count for _, argument in point.tables):
        return None
    sorted_ = [s for s in point.sources if s is not None and s.argument >= count]
    return point if sorted_ and all(point.flat(s) and s.offset == 0 for s in sorted_) else None


def _copied(value: ir.Value) -> ir.Value:
    """What a copy copies."""
    op = owner(value)
    return op.operands[0] if op is not None and op.name == "linalg.copy" else value


def _is_iota(value: ir.Value, dim: int) -> bool:
    """Whether each element is its own place along ``dim``, made in this shape or another."""
    made, wanted = root_of(_copied(value)), known_shape(value)
    op = owner(made)
    if op is None or op.name != "linalg.generic" or len(op.operands) != 1:
        return False
    map_ = ir.AffineMapAttr(op.attributes["indexing_maps"][0]).value
    body = [o.operation for o in op.regions[0].blocks[0].operations]
    if map_ != ir.AffineMap.get_identity(map_.n_dims) or [o.name for o in body] != ["linalg.index", "arith.index_cast", "linalg.yield"]:
        return False
    chained = body[1].operands[0] == body[0].results[0] and body[2].operands[0] == body[1].results[0]
    along, shape = dim_of(body[0]), known_shape(made)
    same = (shape[along], product(shape[along + 1:])) == (wanted[dim], product(wanted[dim + 1:]))
    return chained and same and str(value.type.element_type) == "i64"


def _order(sort: ir.Operation) -> bool | None:
    """Whether the sort descends; None for an order that is not by its data's size."""
    block = sort.regions[0].blocks[0]
    body = [o.operation for o in block.operations]
    if len(body) != 2 or body[0].name not in ("arith.cmpf", "arith.cmpi") or body[1].operands[0] != body[0].results[0]:
        return None
    if list(body[0].operands) != list(block.arguments)[:2]:
        return None
    predicate = ir.IntegerAttr(body[0].attributes["predicate"]).value
    if body[0].name == "arith.cmpf":
        up, down = (arith.CmpFPredicate.OLE, arith.CmpFPredicate.OLT), (arith.CmpFPredicate.OGE, arith.CmpFPredicate.OGT)
        found = arith.CmpFPredicate(predicate)
    else:
        up, down = (arith.CmpIPredicate.sle, arith.CmpIPredicate.slt), (arith.CmpIPredicate.sge, arith.CmpIPredicate.sgt)
        found = arith.CmpIPredicate(predicate)
    return False if found in up else True if found in down else None


def _window(value: ir.Value, sort: ir.Operation, dim: int) -> tuple[int, int, int] | None:
    """(which of the sort's results, first place, number of places) that a returned value is."""
    if makes(sort, value):
        number = list(sort.results).index(value)
        return number, 0, value.type.shape[dim]
    part = owner(_copied(value))
    if part is None or part.name != "tensor.extract_slice" or not makes(sort, part.operands[0]):
        return None
    offsets, sizes, strides = slice_parts(part)
    whole = known_shape(sort.operands[0])
    others = [(o, n) for d, (o, n) in enumerate(zip(offsets, sizes)) if d != dim]
    if any(s != 1 for s in strides) or others != [(0, n) for d, n in enumerate(whole) if d != dim] or not isinstance(part.results[0].type, ir.RankedTensorType):
        return None
    if not isinstance(offsets[dim], int) or not isinstance(sizes[dim], int):
        return None
    return list(sort.results).index(part.operands[0]), offsets[dim], sizes[dim]
