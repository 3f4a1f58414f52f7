"""Rewrite a select between a new and an old element by its index as the write of a slice: a token that is written to a cache.

``index_copy`` is a choice, for each element of the cache, between the new one and the old one, by its place: right anywhere, but it reads and writes the
whole cache.  Here it becomes what makes the slice, and a scatter of one update (``tm_tensor.scatter``), or an insertion where the place is a number:
both start from the cache as it was, and leave that out where they may write to it (see ``runtime/plan/in_place.py``).  What reads the new cache
reads it from memory, and does not choose again.  A place that there is not is written to by nobody, either way.  Where each row has a place of
its own, as sequences of different lengths have, the scatter has an update for each.
"""

from collections.abc import Callable
from dataclasses import dataclass

from inferno.mlir import arith, clone_onto, dim_of, func, ir, owner, tensor, walk
from inferno.passes.affine import renumber
from inferno.passes.generics import PARALLEL, body, build, dims, inputs, is_elementwise, knows_sizes, loop, loop_of, loops_of, maps, substitute, yielded
from inferno.passes.movements import insert, reshape, spread
from inferno.passes.programs import is_written, readers, root_of
from inferno.passes.shapes import function_of, number, reassociation_attribute, shape, static
from inferno.passes.size_values import mixed
from inferno.symbolic import Int, bounds, product

WRITES = "inferno.write_slices"
"""On a module whose slices are to be written by themselves."""


@dataclass(frozen=True)
class _Slice:
    """``new`` in the place of ``old``, values of an elementwise operation's body, where each loop of ``places`` is at what it has there; that is
    another for each iteration of the loops ``rows``.  ``order``: the loops of the slice, those first, and the others as the result has them."""

    old: ir.BlockArgument
    new: ir.Value
    places: dict[int, ir.Value]
    rows: list[int]
    order: list[int]


def write_slices(module: ir.Module) -> None:
    """Rewrite such choices in a module that asks for it (``inferno.write_slices``)."""
    if WRITES not in module.operation.attributes:
        return
    del module.operation.attributes[WRITES]
    for op in walk(module.operation, "linalg.generic"):
        if is_update(op) and (part := _read(op)) is not None:
            with ir.InsertionPoint(op), op.location:
                result = _write(op, part)
            op.results[0].replace_all_uses_with(result)
            op.erase()


def is_update(op: ir.Operation) -> bool:
    """Whether an elementwise operation chooses between the elements of an argument of the program and others, by some of its loops, and the program
    returns what that makes: it stays what it is, whoever reads it.  What nobody else reads, and is no argument's new value, is a tensor of its own, of which
    all is written anyway."""
    if not is_elementwise(op) or len(op.results) != 1 or not knows_sizes(op) or _old(op) is None:
        return False
    chosen = owner(yielded(op)[0]).operands[0]
    if isinstance(chosen, ir.BlockArgument) and len(maps(op)[chosen.arg_number].results) >= op.results[0].type.rank:
        return False
    returned = [r.name == "func.return" for r in readers(op.results[0])]
    return any(returned) and (not all(returned) or is_written(inputs(op)[_old(op).arg_number]))


def changes_slices(op: ir.Operation) -> bool:
    """Whether what an elementwise operation makes is new in some slices, chosen by some of its loops, and something else in the others:
    ``x.select_scatter(row, 1, 3)``."""
    if not is_elementwise(op) or len(op.results) != 1 or (made := owner(yielded(op)[0])) is None or made.name != "arith.select" or made.parent != op:
        return False
    chosen = _loops_of(made.operands[0], op)
    return chosen is not None and any(size != 1 and d not in chosen for d, size in _sizes(op).items())


def _old(op: ir.Operation) -> ir.BlockArgument | None:
    """The body's argument that is the element of the program's argument, where that is what is chosen or not."""
    made = owner(yielded(op)[0])
    if made is None or made.name != "arith.select" or made.parent != op or not isinstance(made.operands[2], ir.BlockArgument):
        return None
    place, value = made.operands[2].arg_number, None
    if made.operands[2].owner == body(op) and place < len(inputs(op)):
        value = inputs(op)[place]
    alike = value is not None and value.type == op.results[0].type and shape(value) == shape(op.results[0])
    same = alike and maps(op)[place] == maps(op)[-1]
    if not same or not isinstance(root_of(value), ir.BlockArgument) or not isinstance(op.parent.opview, func.FuncOp):
        return None
    return ir.BlockArgument(made.operands[2])


def _read(op: ir.Operation) -> _Slice | None:
    """The slice that an update writes; None where its choice is no comparison of loops with places."""
    choice = owner(yielded(op)[0])
    places: dict[int, ir.Value] = {}
    pending = [choice.operands[0]]
    while pending:
        made = owner(pending.pop())
        if made is None or made.parent != op:
            return None
        if made.name == "arith.andi":
            pending += made.operands
            continue
        if made.name != "arith.cmpi" or ir.IntegerAttr(made.attributes["predicate"]).value != arith.CmpIPredicate.eq:
            return None
        found = next(((d, other) for one, other in (made.operands, reversed(made.operands)) if (d := _loop(one)) is not None), None)
        if found is None or found[0] in places:
            return None
        places[found[0]] = found[1]
    dimensions = dims(maps(op)[-1])
    used = [_loops_of(v, op) for v in (choice.operands[1], *places.values())]
    if None in used or any(loops & set(places) for loops in used):
        return None
    numbers = {d: n for d, v in places.items() if (n := number(v)) is not None}
    if any(bounds(n)[0] < 0 or bounds(_sizes(op)[d] - n)[0] < 1 for d, n in numbers.items()):
        return None
    rows = [d for d in dimensions if any(d in loops for loops in used[1:])]
    return _Slice(_old(op), choice.operands[1], places, rows, rows + [d for d in dimensions if d not in rows and d not in places])


def _loop(value: ir.Value) -> int | None:
    """The loop whose place a value is, in an integer that holds any size."""
    made = owner(value)
    widened = made is not None and made.name == "arith.index_cast" and str(value.type) in ("i32", "i64")
    return loop_of(made.operands[0] if widened else value)


def _needed(value: ir.Value, op: ir.Operation) -> list[ir.Operation]:
    """The operations of the body that a value is computed by, in their order."""
    block, pending, found = body(op), [value], set()
    while pending:
        made = owner(pending.pop())
        if made is not None and made.block == block and made not in found:
            found.add(made)
            pending += [v for o in walk(made) for v in o.operands] if len(made.regions) else list(made.operands)
    return [o.operation for o in block.operations if o.operation in found]


def _taken(value: ir.Value, op: ir.Operation) -> list[int]:
    """The numbers of the operands whose elements a value is computed of."""
    used = {v for made in _needed(value, op) for o in walk(made) for v in o.operands} | {value}
    return [n for n, a in enumerate(list(body(op).arguments)[: len(inputs(op))]) if a in used]


def _loops_of(value: ir.Value, op: ir.Operation) -> set[int] | None:
    """The loops that a value depends on; None where that is not told at the top of the body."""
    needed = _needed(value, op)
    if any(len(o.regions) and any(i.name == "linalg.index" for i in walk(o)) for o in needed):
        return None
    read = {d for n in _taken(value, op) for e in maps(op)[n].results for d in loops_of(e)}
    return read | {dim_of(o) for o in needed if o.name == "linalg.index"}


def _write(op: ir.Operation, part: _Slice) -> ir.Value:
    """The new tensor, at the insertion point."""
    dimensions, old = dims(maps(op)[-1]), inputs(op)[part.old.arg_number]
    numbers = {dimensions.index(d): number(v) for d, v in part.places.items()}
    new = _in_a_row(_computed(op, part), len(part.rows))
    first, others = min(len(part.rows), 1), part.order[len(part.rows):]
    own = [first + others.index(d) if d in others else None for d in dimensions]
    if None not in numbers.values():
        new = spread(new, own, op)
        return insert(new, old, [numbers.get(d, 0) for d in range(len(own))], shape(new), op)
    update = spread(new, [0 if part.rows else None, *own], op)
    return _scatter(update, _table(op, part), old, [dimensions.index(d) for d in (*part.rows, *part.places)])


def _computed(op: ir.Operation, part: _Slice) -> ir.Value:
    """The slice without the dimensions that it has one place in."""
    taken, identity = _taken(part.new, op), ir.AffineMap.get_identity(len(part.order))
    indexing = [_renamed(maps(op)[n], part.order) for n in taken]
    if part.new in list(body(op).arguments) and indexing == [identity] and isinstance(inputs(op)[taken[0]].type, ir.RankedTensorType):
        return inputs(op)[taken[0]]
    out = tensor.EmptyOp(mixed([_sizes(op)[d] for d in part.order], function_of(op)), op.results[0].type.element_type).result
    place = lambda d: loop(part.order.index(d))  # noqa: E731
    return _generic(op, taken, [*indexing, identity], out, lambda given: _clone(op, given, part.new, place))


def _table(op: ir.Operation, part: _Slice) -> ir.Value:
    """The places of each update: those of the rows, which are counted, and those along its other dimensions."""
    values, integer, rank = list(part.places.values()), ir.IntegerType.get_signless(64), len(part.rows)
    if len(values) == 1 and not rank and values[0] in list(body(op).arguments):
        given = inputs(op)[ir.BlockArgument(values[0]).arg_number]
        if isinstance(given.type, ir.RankedTensorType) and given.type.element_type == integer and all(n == 1 for n in given.type.shape):
            return reshape(given, [1, 1])
    taken = sorted({n for v in values for n in _taken(v, op)})
    indexing = [_renamed(maps(op)[n], part.rows, rank + 1) for n in taken]
    sizes = [_sizes(op)[d] for d in part.rows]
    out = tensor.EmptyOp([*mixed(sizes, function_of(op)), rank + len(values)], integer).result

    def fill(given: dict[int, ir.Value]) -> ir.Value:
        places = [loop(d) for d in range(rank)] + [_clone(op, given, v, lambda d: loop(part.rows.index(d))) for v in values]
        found = None
        for column, place in enumerate(places):
            if place.type != integer:
                place = (arith.index_cast if isinstance(place.type, ir.IndexType) else arith.extsi)(integer, place)
            if found is not None:
                here = arith.cmpi(arith.CmpIPredicate.eq, loop(rank), arith.constant(ir.IndexType.get(), column))
                place = arith.select(here, place, found)
            found = place
        return found

    table = _generic(op, taken, [*indexing, ir.AffineMap.get_identity(rank + 1)], out, fill)
    return _in_a_row(table, rank) if rank else spread(table, [None, 0], op)


def _in_a_row(value: ir.Value, count: int) -> ir.Value:
    """The tensor with one dimension in the place of its first ``count``, at the insertion point."""
    if count < 2:
        return value
    sizes = shape(value)
    type_ = ir.RankedTensorType.get(static([product(sizes[:count]), *sizes[count:]]), value.type.element_type)
    groups = [list(range(count)), *([d] for d in range(count, len(sizes)))]
    return tensor.CollapseShapeOp(type_, value, reassociation_attribute(groups)).result


def _renamed(map_: ir.AffineMap, order: list[int], count: int = 0) -> ir.AffineMap:
    """A map as one of ``count`` loops, of which the first are those of ``order``."""
    return substitute(map_, renumber(order, map_.n_dims), count or len(order))


def _sizes(op: ir.Operation) -> dict[int, Int]:
    return dict(zip(dims(maps(op)[-1]), shape(op.results[0])))


def _generic(op: ir.Operation, taken: list[int], indexing: list[ir.AffineMap], out: ir.Value, fill: Callable[[dict[int, ir.Value]], ir.Value]) -> ir.Value:
    """An elementwise operation on some operands of another; ``fill`` gets their elements by their numbers."""
    kinds = [PARALLEL] * out.type.rank
    return build([inputs(op)[n] for n in taken], [out], indexing, kinds, lambda given: [fill(dict(zip(taken, given)))], op.location).results[0]


def _clone(op: ir.Operation, given: dict[int, ir.Value], wanted: ir.Value, place: Callable[[int], ir.Value]) -> ir.Value:
    """What ``wanted`` is, of the body, where operands have these elements, at the insertion point."""
    known: dict[ir.Value, ir.Value] = {a: given[n] for n, a in enumerate(body(op).arguments) if n in given}
    for made in _needed(wanted, op):
        if made.name == "linalg.index":
            known[made.results[0]] = place(dim_of(made))
        else:
            clone_onto(made, known)
    return known.get(wanted, wanted)


def _scatter(update: ir.Value, table: ir.Value, old: ir.Value, along: list[int]) -> ir.Value:
    element = old.type.element_type
    scatter = ir.Operation.create(
        "tm_tensor.scatter", [old.type], [update, table, old],
        {"dimension_map": ir.DenseI64ArrayAttr.get(along), "unique_indices": ir.BoolAttr.get(True), "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 1])},
        regions=1,
    )
    block = scatter.regions[0].blocks.append(element, element, arg_locs=[ir.Location.current] * 2)
    with ir.InsertionPoint(block):
        ir.Operation.create("tm_tensor.yield", operands=[block.arguments[0]])
    return scatter.results[0]
