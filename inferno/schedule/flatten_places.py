"""The places of a scatter as one map of a row of numbers, which the last generator computes where it reads them."""

from math import prod

from inferno.mlir import arith, func, ir, linalg, tensor, walk
from inferno.passes.generics import PARALLEL, build, clone_at, index
from inferno.passes.programs import VIEWS
from inferno.passes.shapes import reassociation_attribute
from inferno.schedule.accesses import Access, row_major
from inferno.schedule.flat_elements import Computed, Elements, read_elements

_LARGEST = 40  # operations of the map: each thread that moves a part of a row computes its place


def flatten_places(kernel: func.FuncOp) -> bool:
    """Make it so; False where places depend on anything else than arguments' elements of the same number."""
    (scatter,) = walk(kernel, "tm_tensor.scatter")
    table = scatter.operands[1]
    places = read_elements(kernel, table) if table.type.has_static_shape and table.type.shape[1] == 1 else None
    read = _read(places, table.type.shape[0]) if isinstance(places, Computed) else None
    if read is None or _count(places) > _LARGEST:
        return False
    count, element = table.type.shape[0], table.type.element_type
    with ir.InsertionPoint(scatter), scatter.location:
        flat = [_flattened(kernel.entry_block.arguments[n], count) for n in read]
        empty = tensor.EmptyOp([count], element).result
        one = ir.AffineMap.get_identity(1)

        def fill(arguments: list[ir.Value]) -> list[ir.Value]:
            return [_value(places, dict(zip(read, arguments)), linalg.IndexOp(0).result)]

        made = build(flat, [empty], [one] * (len(flat) + 1), [PARALLEL], fill, scatter.location)
        scatter.operands[1] = tensor.ExpandShapeOp(table.type, made.results[0], [[0, 1]], [], [count, 1]).result
    for op in reversed([o.operation for o in kernel.entry_block.operations]):
        dead = op.name == "linalg.generic" or op.name == "tensor.empty" or op.name in VIEWS
        if dead and not any(True for r in op.results for _ in r.uses):
            op.erase()
    return True


def _read(elements: Elements, count: int) -> list[int] | None:
    """The arguments, of ``count`` elements, of which those of the same number are read; None where others are."""
    if not isinstance(elements, Computed):
        return []
    found: dict[int, None] = {}
    for source in elements.sources:
        if isinstance(source, Access):
            if source.strides != row_major(elements.sizes) or source.offset or prod(source.shape) != count:
                return None
            found[source.argument] = None
        elif (inner := _read(source, count)) is None:
            return None
        else:
            found.update(dict.fromkeys(inner))
    return list(found)


def _count(elements: Elements) -> int:
    return len(elements.body.operations) + sum(map(_count, elements.sources)) if isinstance(elements, Computed) else 0


def _flattened(argument: ir.Value, count: int) -> ir.Value:
    rank = ir.RankedTensorType(argument.type).rank
    if rank == 1:
        return argument
    type_ = ir.RankedTensorType.get([count], argument.type.element_type)
    if rank == 0:
        return tensor.ExpandShapeOp(type_, argument, reassociation_attribute([]), [], [1]).result
    return tensor.CollapseShapeOp(type_, argument, [list(range(rank))]).result


def _value(elements: Elements, arguments: dict[int, ir.Value], number: ir.Value) -> ir.Value:
    """An element in the map's body."""
    if isinstance(elements, Access):
        return arguments[elements.argument]
    if not isinstance(elements, Computed):
        return arith.constant(elements.type, elements)
    strides = row_major(elements.sizes)

    def coordinate(dim: int) -> ir.Value:
        found = number if strides[dim] == 1 else arith.divui(number, index(strides[dim]))
        return found if dim == 0 else arith.remui(found, index(elements.sizes[dim]))

    values = [_value(source, arguments, number) for source in elements.sources]
    return clone_at(elements.body, [*values, None], coordinate)[0]
