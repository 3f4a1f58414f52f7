"""The indices of a scatter as one map over a flat index, which the last generator computes where it reads them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from inferno.mlir import arith, func, ir, is_unread, linalg, tensor, walk
from inferno.passes.generics import PARALLEL, build, clone_at, index
from inferno.passes.programs import VIEWS, operations_in
from inferno.passes.shapes import reassociation_attribute, row_major
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.scatters.flat_elements import Computed, Elements, read_elements

_LARGEST = 40  # operations of the map: each thread that moves a part of a row computes its place


def flatten_places(kernel: func.FuncOp) -> bool:
    """Make it so; False where places are computed of anything else than arguments' elements."""
    (scatter,) = walk(kernel, "tm_tensor.scatter")
    table = scatter.operands[1]
    places = read_elements(kernel, table) if table.type.has_static_shape and table.type.shape[1] == 1 else None
    if not isinstance(places, Computed) or _count(places) > _LARGEST:
        return False
    count, element = table.type.shape[0], table.type.element_type
    with ir.InsertionPoint(scatter), scatter.location:
        flat = {n: _flattened(kernel.entry_block.arguments[n]) for n in _read(places)}
        same = [n for n in flat if _is_read_in_order(places, n, count)]
        empty = tensor.EmptyOp([count], element).result
        one = ir.AffineMap.get_identity(1)

        def fill(arguments: list[ir.Value]) -> list[ir.Value]:
            return [_Body(dict(zip(same, arguments)), flat, linalg.IndexOp(0).result).value(places)]

        made = build([flat[n] for n in same], [empty], [one] * (len(same) + 1), [PARALLEL], fill, scatter.location)
        scatter.operands[1] = tensor.ExpandShapeOp(table.type, made.results[0], [[0, 1]], [], [count, 1]).result
    for op in reversed(operations_in(kernel)):
        dead = op.name == "linalg.generic" or op.name == "tensor.empty" or op.name in VIEWS
        if dead and is_unread(op):
            op.erase()
    return True


def _read(elements: Elements) -> list[int]:
    """The arguments that are read."""
    if isinstance(elements, Access):
        return [elements.argument]
    return list(dict.fromkeys(n for e in elements.sources for n in _read(e))) if isinstance(elements, Computed) else []


def _is_read_in_order(elements: Elements, argument: int, count: int) -> bool:
    """Whether each of ``count`` elements reads the argument's of the same number, wherever it reads it."""
    sources = elements.sources if isinstance(elements, Computed) else ()
    return all(
        _is_in_order(s, elements.sizes, count) if isinstance(s, Access) and s.argument == argument else _is_read_in_order(s, argument, count) for s in sources
    )


def _is_in_order(access: Access, sizes: tuple[int, ...], count: int) -> bool:
    return access.strides == row_major(sizes) and not access.offset and prod(access.shape) == count


def _count(elements: Elements) -> int:
    return len(elements.body.operations) + sum(map(_count, elements.sources)) if isinstance(elements, Computed) else 0


def _flattened(argument: ir.Value) -> ir.Value:
    rank = ir.RankedTensorType(argument.type).rank
    if rank == 1:
        return argument
    type_ = ir.RankedTensorType.get([prod(argument.type.shape)], argument.type.element_type)
    if rank == 0:
        return tensor.ExpandShapeOp(type_, argument, reassociation_attribute([]), [], [1]).result
    return tensor.CollapseShapeOp(type_, argument, [list(range(rank))]).result


@dataclass(frozen=True)
class _Body:
    """The map's body at a number of an element: ``same`` has elements that are read in order, others are gathered of rows of arguments' elements."""

    same: dict[int, ir.Value]
    flat: dict[int, ir.Value]
    number: ir.Value

    def value(self, elements: Elements) -> ir.Value:
        if not isinstance(elements, Computed):
            return arith.constant(elements.type, elements)
        strides = row_major(elements.sizes)

        def coordinate(dim: int) -> ir.Value:
            found = self.number if strides[dim] == 1 else arith.divui(self.number, index(strides[dim]))
            return found if dim == 0 else arith.remui(found, index(elements.sizes[dim]))

        values = [self._read(s, coordinate) if isinstance(s, Access) else self.value(s) for s in elements.sources]
        return clone_at(elements.body, [*values, None], coordinate)[0]

    def _read(self, access: Access, coordinate: Callable[[int], ir.Value]) -> ir.Value:
        if access.argument in self.same:
            return self.same[access.argument]
        place = index(access.offset)
        for dim, stride in enumerate(access.strides):
            if stride:
                place = arith.addi(place, arith.muli(coordinate(dim), index(stride)))
        return tensor.extract(self.flat[access.argument], [place])
