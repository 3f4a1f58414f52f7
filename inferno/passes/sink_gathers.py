"""Reduce or multiply the rows that there are, and take what these come to, where more rows are taken: ``x[i].mean(-1)`` is ``x.mean(-1)[i]``.

What is made of each taken row alone is the same for rows that are the same, as many times as a table names them: messages along a graph's edges are products
of its nodes, tokens of a small vocabulary have few projections.  Rows of a transposed tensor, of which each element lies in another sector, are read in
memory's order so.
"""

from collections.abc import Sequence
from math import prod

from inferno.element_sizes import element_bytes
from inferno.mlir import clone_onto, ir, is_unread, owner, tensor, walk
from inferno.passes.contraction import is_sum_of_products
from inferno.passes.generics import dims, is_copy, is_generic, is_reduction, loop_sizes, maps, outputs
from inferno.passes.row_regions import RowRegion, Rows, row_region
from inferno.passes.shapes import reassociation, reassociation_attribute
from inferno.passes.takings import Taking, begin, resized, take, taking

_SECTOR = 32  # bytes that memory reads at least
LAUNCH = 4 << 20  # bytes that an H200 moves while another kernel is launched (1 us)
_BYTE, _BYTE_OF_16_BITS = 25, 150  # operations of a product that take an H200 as long as a byte does: in float32 (exact, by three of bf16) and in 16 bits
GAIN = 1.5  # times fewer bytes from which on: rows that are named often are in a cache (no measurement chose it)


def sink_gathers(module: ir.Module) -> None:
    """Rewrite every taking of rows that are then reduced or multiplied, where less is moved or computed so."""
    for gather in walk(module.operation, "tensor.extract"):
        made = taking(gather)
        if made is None:
            continue
        region, taken = row_region(made.op, Rows(made.axis, made.counts)), made.op.results[0]
        if region.ends and taken not in region.ends and any(map(is_reduction, region.operations)) and _pays(made, region):
            _rewrite(made, region)


def _pays(made: Taking, region: RowRegion) -> bool:
    """Whether less is moved and computed for the rows that there are."""
    taken, there = prod(made.counts), made.source.type.shape[made.axis]
    width, row = element_bytes(made.source.type.element_type), prod(made.op.results[0].type.shape) // taken
    source = owner(made.source)
    turned = source if is_copy(source) and len(dims(maps(source)[0]) or ()) == made.source.type.rank else None
    strided = made.axis == made.source.type.rank - 1 or (turned is not None and _last(turned) == made.axis)
    before = taken * row * (_SECTOR if strided and row > 1 else max(width, min(width * row, _SECTOR) // row))
    if turned is not None:
        before = min(before, (2 * there + taken) * row * width)
    after, products, rate = LAUNCH + there * row * width, 0, operations_of_a_byte(made.source.type.element_type)
    for op in region.operations:
        if is_sum_of_products(op):
            before += 2 * taken * row * width
            products += 2 * prod(loop_sizes(op))
    for end in region.ends:
        after += prod(end.type.shape) // taken * element_bytes(end.type.element_type) * (there + taken)
    return before + products / rate > GAIN * (after + products * there / taken / rate)


def operations_of_a_byte(element: ir.Type) -> int:
    """How many operations of a product of such factors take as long as a byte."""
    return _BYTE if element_bytes(element) > 2 else _BYTE_OF_16_BITS


def _last(turned: ir.Operation) -> int:
    """The dimension of a transposed tensor whose neighbours are next to each other in memory."""
    every = maps(turned)
    return dims(every[-1]).index(dims(every[0])[-1])


def _rewrite(made: Taking, region: RowRegion) -> None:
    """Make all of the rows that there are, and take the ends."""
    there, known, taken = made.source.type.shape[made.axis], {}, {}
    with ir.InsertionPoint(made.op), made.op.location:
        known[made.op.results[0]] = _split(made.source, made.axis, [*[1] * (len(made.counts) - 1), there])
    for op in region.operations:
        with ir.InsertionPoint(op), op.location:
            for old, new in zip(op.results, _made_again(op, known, region.rows, there)):
                known[old] = new
                if old in region.ends:
                    taken[old] = _taken(made, new, region.rows[old])
    for old, new in taken.items():
        old.replace_all_uses_with(new)
    for op in (*reversed(region.operations), made.op):
        if is_unread(op):
            op.erase()


def _made_again(op: ir.Operation, known: dict[ir.Value, ir.Value], rows: dict[ir.Value, Rows], there: int) -> list[ir.Value]:
    """The results of an operation for the rows that there are, which are the last of its dimensions for rows; the others are of one."""
    types = [resized(r.type, rows[r].first, [*[1] * (len(rows[r].sizes) - 1), there]) for r in op.results]
    if op.name == "tensor.expand_shape":
        shape = list(types[0].shape)
        return [tensor.ExpandShapeOp(types[0], known[op.operands[0]], reassociation_attribute(reassociation(op)), [], shape).result]
    begins = {}
    if is_generic(op):
        begins = {out: begin(out, rows[r].first, type_.shape[rows[r].first:][:len(rows[r].sizes)]) for out, r, type_ in zip(outputs(op), op.results, types)}
    new = clone_onto(op, {**known, **begins})
    for result, type_ in zip(new.results, types):
        result.set_type(type_)
    if op.name == "tensor.extract_slice":
        new.attributes["static_sizes"] = ir.DenseI64ArrayAttr.get(list(types[0].shape))
    return list(new.results)


def _taken(made: Taking, value: ir.Value, rows: Rows) -> ir.Value:
    """The rows that ``made`` takes, of ``value``, in as many dimensions as ``rows`` says."""
    result = take(made, _joined(value, rows.first, len(rows.sizes)), rows.first)
    if rows.sizes == made.counts:
        return result
    return _split(_joined(result, rows.first, len(made.counts)), rows.first, rows.sizes)


def _split(value: ir.Value, axis: int, sizes: Sequence[int]) -> ir.Value:
    """``value`` with so many dimensions in the place of one."""
    count = len(sizes)
    if count == 1:
        return value
    shape = list(value.type.shape)
    shape[axis:axis + 1] = sizes
    return tensor.ExpandShapeOp(ir.RankedTensorType.get(shape, value.type.element_type), value, _groups(value.type.rank, axis, count), [], shape).result


def _joined(value: ir.Value, axis: int, count: int) -> ir.Value:
    """``value`` with one dimension in the place of so many."""
    if count == 1:
        return value
    shape = list(value.type.shape)
    shape[axis:axis + count] = [prod(shape[axis:axis + count])]
    return tensor.CollapseShapeOp(ir.RankedTensorType.get(shape, value.type.element_type), value, _groups(len(shape), axis, count)).result


def _groups(rank: int, axis: int, count: int) -> ir.ArrayAttr:
    """Those of a reshape in which one of ``rank`` dimensions is as many as ``count``."""
    return reassociation_attribute([[d] if d < axis else list(range(axis, axis + count)) if d == axis else [d + count - 1] for d in range(rank)])
