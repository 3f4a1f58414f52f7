"""Compute an elementwise operation of which only some elements are gathered for those elements alone.

``log_softmax(x)[i, target[i]]``, the loss of a classifier, needs one element of each row: what makes the elements goes to where
``tensor.extract`` gathers one, and the tensor of all of them is never made.  Flips and whole rows are gathered with neighbours next to each other: what makes
them is then computed in the order in which they are wanted, and a flip of a flip is none.
"""

from inferno.mlir import arith, erase_dead, ir, is_read, owner, tensor, users, walk
from inferno.passes.expand_pieces import collapsed, flattened
from inferno.passes.fuse_elementwise import fuse_elementwise
from inferno.passes.gathered_producers import as_large, computes_of_few, is_gathered, is_gathered_little, is_made_again, may_move, unread
from inferno.passes.generics import (
    body, build, clone_body, covers_loops, element_at, index, inputs, is_elementwise, is_reduction, kinds, loop_sizes, maps, only_user, outputs, take_place,
)
from inferno.passes.neighbours import generic_around, hoist_numbers, is_of_neighbours
from inferno.passes.places import place_of
from inferno.passes.programs import RESHAPES, whole_of
from inferno.passes.reversals import reverse_producer, straighten_readers, straighten_sums
from inferno.passes.shapes import reassociation, shape


def fuse_gathers(module: ir.Module) -> None:
    """Rewrite every operation whose result nothing reads but ``tensor.extract``, if that reads no more elements than all of them are: from there
    on each of the operation's tensors is read at places that need not be neighbours, unless whole rows are gathered or flipped.  Tensors that bodies
    do not read are no operands, elements at the places of loops are operands, and those of a slice are gathered where it lies."""
    with ir.Location.unknown(module.context):
        for gather in walk(module.operation, "tensor.extract"):
            _read_whole(gather)
        for op in [g for g in walk(module.operation, "linalg.generic") if walk(g, "tensor.extract")]:
            _drop_unread(op)
    straight = any([straighten_sums(op) for op in walk(module.operation, "linalg.generic") if is_reduction(op) and walk(op, "tensor.extract")])
    for producer in reversed(walk(module.operation, "linalg.generic")):
        if may_move(producer) and not straighten_readers(producer):
            if _made_where_gathered(producer):
                continue
            if is_of_neighbours(producer):
                place = generic_around(next(users(producer.results[0])))
                _gather_anew(producer)
                hoist_numbers(place)
                producer.erase()
            elif is_made_again(producer) or is_gathered_little(producer):
                _gather_anew(producer)
                if not is_read(producer.results[0]):
                    producer.erase()
            else:
                reverse_producer(producer)
    with ir.Location.unknown(module.context):
        for gather in walk(module.operation, "tensor.extract"):
            _read_whole(gather)
        for op in [g for g in walk(module.operation, "linalg.generic") if walk(g, "tensor.extract")]:
            read_in_order(op)
    if straight:
        fuse_elementwise(module)


def compute_where_gathered(producer: ir.Operation) -> bool:
    """Make what a map makes where that is gathered, if nothing else reads it, and that reads no more elements than there are, however much it computes of few;
    whether the map is gone."""
    return may_move(producer) and _made_where_gathered(producer, of_few=True)


def _made_where_gathered(producer: ir.Operation, of_few: bool = False) -> bool:
    """Compute ``producer`` where its elements are gathered, in the shape that it has or in another one; whether that can be."""
    _gather_unshaped(producer, of_few)
    if not is_gathered(producer):
        return False
    _gather_anew(producer)
    _measure_anew(producer)
    producer.erase()
    return True


def _gather_unshaped(producer: ir.Operation, of_few: bool) -> None:
    """Gather of what an operation makes instead of this in another shape, where it can be computed for the elements that are gathered then."""
    first, views = producer.results[0], []
    while (user := only_user(views[-1].results[0] if views else first)) is not None and user.name in RESHAPES:
        views.append(user)
    gathers = list(users(views[-1].results[0])) if views else []
    known = all(v.type.has_static_shape for v in (first, *(view.results[0] for view in views)))
    makers = [m for m in map(owner, map(whole_of, inputs(producer))) if m is not None]
    ends = not all(is_elementwise(m) or m.name == "tensor.empty" for m in makers)
    if not gathers or not known or ends or (computes_of_few(producer) and not of_few) or any(g.name != "tensor.extract" for g in gathers):
        return  # (a kernel of sums writes what it ends with)
    made = []
    for gather in gathers:
        with ir.InsertionPoint(gather), gather.location:
            place = list(gather.operands)[1:]
            for view in reversed(views):
                place = flattened(view, place) if view.name == "tensor.expand_shape" else collapsed(view)(place)
            made.append(tensor.ExtractOp(first, place))
        gather.results[0].replace_all_uses_with(made[-1].result)
    with ir.InsertionPoint(views[0]), producer.location:
        other = tensor.EmptyOp(list(first.type.shape), first.type.element_type)
    views[0].operands[0] = other.result  # the view is no reader
    if is_gathered(producer):
        for old in (*gathers, *reversed(views), other.operation):
            old.erase()
        return
    views[0].operands[0] = first
    other.operation.erase()
    for gather, new in zip(gathers, made):
        new.result.replace_all_uses_with(gather.results[0])
    for generic in {generic_around(g) for g in gathers}:
        erase_dead(o for o in walk(generic) if o != generic)


def _gather_anew(producer: ir.Operation) -> None:
    """Compute what is gathered where it is."""
    for gather in [u for u in users(producer.results[0]) if u.name == "tensor.extract"]:
        with ir.InsertionPoint(gather), gather.location:
            gather.results[0].replace_all_uses_with(element_at(producer, list(gather.operands)[1:], tensor.extract))
        gather.erase()


def _measure_anew(producer: ir.Operation) -> None:
    """Let who has what it makes for its sizes alone have those of something that it is made of."""
    like = as_large(producer)
    for user in list(users(producer.results[0])):
        for i in unread(user, producer.results[0]):
            user.operands[i] = like
            body(user).arguments[i].set_type(like.type.element_type)


def _read_whole(gather: ir.Operation) -> None:
    """From the tensor that a slice is of, where its places are numbers, or that dimensions of one place were added to."""
    gather = _read_narrow(gather)
    part = owner(gather.operands[0])
    while part is not None and part.name == "tensor.extract_slice":
        offsets, sizes, steps = (list(ir.DenseI64ArrayAttr(part.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides"))
        if ir.ShapedType.get_dynamic_size() in (*offsets, *steps):
            return
        left = list(zip(part.results[0].type.shape, list(gather.operands)[1:]))
        places = []
        with ir.InsertionPoint(gather), gather.location:
            for offset, size, step in zip(offsets, sizes, steps):
                at = left.pop(0)[1] if left and left[0][0] == size else None  # a dimension of one place may be none of the slice's
                at = arith.muli(at, index(step)) if at is not None and step != 1 else at
                places.append(index(offset) if at is None else arith.addi(at, index(offset)) if offset else at)
            new = tensor.ExtractOp(part.operands[0], places)
        gather.results[0].replace_all_uses_with(new.result)
        gather.erase()
        old, gather, part = part, new.operation, owner(part.operands[0])
        if not is_read(old.results[0]):
            old.erase()


def _read_narrow(gather: ir.Operation) -> ir.Operation:
    """From the tensor that has no dimensions of one place beside its own, as a row that is a matrix of one for who gathers."""
    wide = owner(gather.operands[0])
    if wide is None or wide.name != "tensor.expand_shape":
        return gather
    sizes, places = list(gather.operands[0].type.shape), list(gather.operands)[1:]
    groups = [[i for i in group if sizes[i] != 1] for group in reassociation(wide)]
    if any(len(group) > 1 for group in groups):
        return gather
    with ir.InsertionPoint(gather), gather.location:
        new = tensor.ExtractOp(wide.operands[0], [places[group[0]] if group else index(0) for group in groups])
    gather.results[0].replace_all_uses_with(new.result)
    gather.erase()
    if not is_read(wide.results[0]):
        wide.erase()
    return new.operation


def _drop_unread(op: ir.Operation) -> None:
    """Without the inputs that the body does not use, where others tell how long the loops are."""
    count, block = len(inputs(op)), body(op)
    kept = [i for i in range(count) if is_read(block.arguments[i])]
    unread = [owner(v) for i, v in enumerate(inputs(op)) if i not in kept]
    if len(kept) != count and _rebuild(op, [(inputs(op)[i], maps(op)[i]) for i in kept], {i: n for n, i in enumerate(kept)}) is not None:
        for part in {o for o in unread if o is not None and o.name == "tensor.extract_slice" and not is_read(o.results[0])}:
            part.erase()  # or its tensor would have a reader that gathers nothing


def read_in_order(op: ir.Operation) -> None:
    """With operands in the place of elements that are gathered at the numbers of loops, as by a flip of a flip, where all others are flipped."""
    every = walk(op, "tensor.extract")
    if any(p.parent != op or None in map(place_of, list(p.operands)[1:]) for p in every):
        return
    gathers = [(p, map_) for p in every if (map_ := _map_of(p, op)) is not None]
    if not gathers:
        return
    count = len(inputs(op))
    if not covers_loops([*maps(op), *(map_ for _, map_ in gathers)], len(kinds(op))):
        return
    with ir.InsertionPoint(op), op.location:
        operands = [*zip(inputs(op), maps(op)), *((_part_of(p, op), map_) for p, map_ in gathers)]
    new = _rebuild(op, operands, {i: i for i in range(count)})
    again = [p for p in walk(new, "tensor.extract") if _map_of(p, new) is not None]
    for number, gather in enumerate(again):
        gather.results[0].replace_all_uses_with(body(new).arguments[count + number])
        gather.erase()
    _drop_unread(new)


def _rebuild(op: ir.Operation, operands: list[tuple[ir.Value, ir.AffineMap]], places: dict[int, int]) -> ir.Operation | None:
    """The operation with these inputs, ``places`` of the old ones' that are used; None, and nothing new, where they do not tell the loops' sizes."""
    count, indexing = len(inputs(op)), [*(m for _, m in operands), *maps(op)[len(inputs(op)):]]
    if not covers_loops(indexing, len(kinds(op))):
        return None
    same = [ir.AffineDimExpr.get(i, op.context) for i in range(len(kinds(op)))]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        own = [arguments[places[i]] if i in places else None for i in range(count)]
        return clone_body(body(op), [*own, *arguments[len(operands):]], same)

    with ir.InsertionPoint(op), op.location:
        new = build([v for v, _ in operands], outputs(op), indexing, kinds(op), fill, op.location)
    take_place(new, op)
    return new


def _map_of(gather: ir.Operation, op: ir.Operation) -> ir.AffineMap | None:
    """The map by which an element is read, where it is gathered by the numbers of different loops of ``op``, which go over all of the tensor or a part of it
    (see ``_part_of``), or at a number."""
    found, sizes, loops = [place_of(v) for v in list(gather.operands)[1:]], loop_sizes(op), []
    for place, size in zip(found, shape(gather.operands[0])):
        if place is None:
            return None
        loop, times, begin = place
        if loop is None:
            if not isinstance(size, int) or not 0 <= begin < size:
                return None
            continue
        whole = begin == 0 and size == sizes[loop]
        if times != 1 or loop in loops or not (whole or (isinstance(size, int) and isinstance(sizes[loop], int) and 0 <= begin <= size - sizes[loop])):
            return None
        loops.append(loop)
    if tuple(sizes[d] for d in loops) != shape(gather.operands[0]) and not all(isinstance(sizes[d], int) for d in loops):
        return None  # a part of a tensor whose size varies
    return ir.AffineMap.get(len(sizes), 0, [ir.AffineDimExpr.get(d, gather.context) for d in loops], gather.context)


def _part_of(gather: ir.Operation, op: ir.Operation) -> ir.Value:
    """What an element is gathered of by such a map, at the insertion point: the tensor, or its part that loops go over, without dimensions of one place."""
    value, found, sizes = gather.operands[0], [place_of(v) for v in list(gather.operands)[1:]], loop_sizes(op)
    if all(p[0] is not None and sizes[p[0]] == n for p, n in zip(found, shape(value))):
        return value
    taken = [1 if p[0] is None else sizes[p[0]] for p in found]
    type_ = ir.RankedTensorType.get([n for n, p in zip(taken, found) if p[0] is not None], value.type.element_type)
    return tensor.ExtractSliceOp(type_, value, [], [], [], [p[2] for p in found], taken, [1] * len(found)).result
