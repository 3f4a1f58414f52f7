"""Compute an elementwise operation of which only some elements are gathered for those elements alone.

``log_softmax(x)[i, target[i]]``, the loss of a classifier, needs one element of each row: what makes the elements goes to where
``tensor.extract`` gathers one, and the tensor of all of them is never made.  Flips and whole rows are gathered with neighbours next to each other: what makes
them is then computed in the order in which they are wanted, and a flip of a flip is none.
"""

from inferno.mlir import arith, ir, is_read, owner, tensor, users, walk
from inferno.passes.contraction import ended_contraction
from inferno.passes.fuse_elementwise import bytes_of, fuse_elementwise, is_made_of_less, is_total, sources_of
from inferno.passes.generics import (
    REDUCTION, body, build, clone_body, covers_loops, dims, element_at, index, inputs, is_elementwise, is_generic, is_reduction, is_widening, kinds,
    knows_sizes, loop_sizes, loops_of, maps, outputs, take_place,
)
from inferno.passes.neighbours import generic_around, hoist_numbers, is_of_neighbours
from inferno.passes.places import place_of
from inferno.passes.reversals import reverse_producer, straighten_readers, straighten_sums
from inferno.passes.selected_products import product_of
from inferno.passes.shapes import reassociation, shape
from inferno.symbolic import hint, product


_SMALLER = 8  # times, of what caches keep wherever it is read, beside what is made of it
_MOVES = ("linalg.index", "linalg.yield", "scf.if", "scf.yield", "tensor.extract", "arith.constant")
_DEPTH = 4  # operations between what is gathered and a total
_FEW = 4  # elements that a point gathers of what is padded
_SECTOR = 32  # bytes that memory reads at least
_TRANSPOSED = 8e6  # bytes that are read in vain, which takes longer than a launch
_LINE = 64  # bytes of a row, from which on rows in any order are read as fast as in memory's


def fuse_gathers(module: ir.Module) -> None:
    """Rewrite every operation whose result nothing reads but ``tensor.extract``, if that reads no more elements than all of them are: from there
    on each of the operation's tensors is read at places that need not be neighbours, unless whole rows are gathered or flipped.  Tensors that bodies
    do not read are no operands, elements at the places of loops are operands, and those of a slice are gathered where it lies."""
    with ir.Location.unknown(module.context):
        for gather in walk(module.operation, "tensor.extract"):
            _read_whole(gather)
        for op in [g for g in walk(module.operation, "linalg.generic") if walk(g, "tensor.extract")]:
            _drop_unread(op)
    straight = any([straighten_sums(op) for op in walk(module.operation, "linalg.generic") if REDUCTION in kinds(op) and walk(op, "tensor.extract")])
    for producer in reversed(walk(module.operation, "linalg.generic")):
        if _may_move(producer) and not straighten_readers(producer):
            if _is_gathered(producer):
                _gather_anew(producer)
                _measure_anew(producer)
                producer.erase()
            elif is_of_neighbours(producer):
                place = generic_around(next(users(producer.results[0])))
                _gather_anew(producer)
                hoist_numbers(place)
                producer.erase()
            elif _is_made_again(producer) or _is_gathered_little(producer):
                _gather_anew(producer)
                if not is_read(producer.results[0]):
                    producer.erase()
            else:
                reverse_producer(producer)
    with ir.Location.unknown(module.context):
        for gather in walk(module.operation, "tensor.extract"):
            _read_whole(gather)
        for op in [g for g in walk(module.operation, "linalg.generic") if walk(g, "tensor.extract")]:
            _read_in_order(op)
    if straight:
        fuse_elementwise(module)


def _may_move(producer: ir.Operation) -> bool:
    return is_elementwise(producer) and len(producer.results) == 1 and knows_sizes(producer) and product_of(producer) is None


def _gather_anew(producer: ir.Operation) -> None:
    """Compute what is gathered where it is."""
    for gather in [u for u in users(producer.results[0]) if u.name == "tensor.extract"]:
        with ir.InsertionPoint(gather), gather.location:
            gather.results[0].replace_all_uses_with(element_at(producer, list(gather.operands)[1:], tensor.extract))
        gather.erase()


def _measure_anew(producer: ir.Operation) -> None:
    """Let who has what it makes for its sizes alone have those of something that it is made of."""
    like = _as_large(producer)
    for user in list(users(producer.results[0])):
        for i in _unread(user, producer.results[0]):
            user.operands[i] = like
            body(user).arguments[i].set_type(like.type.element_type)


def _as_large(producer: ir.Operation) -> ir.Value | None:
    """A tensor of the sizes of what an elementwise operation makes, that is there before."""
    same = [v for v, m in zip(inputs(producer), maps(producer)) if m == maps(producer)[-1] and isinstance(v.type, ir.RankedTensorType)]
    empty = outputs(producer)[0]
    if (made := owner(empty)) is not None and made.name == "linalg.fill":
        empty = made.operands[1]
    return same[0] if same else empty if (made := owner(empty)) is not None and made.name == "tensor.empty" else None


def _unread(user: ir.Operation, value: ir.Value) -> list[int]:
    """The operands by which an operation has a value and reads no element."""
    arguments = body(user).arguments if is_generic(user) else []
    return [i for i, v in enumerate(inputs(user)) if v == value and not is_read(arguments[i])] if len(arguments) else []


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


def _read_in_order(op: ir.Operation) -> None:
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


def _is_gathered(producer: ir.Operation) -> bool:
    """Whether all readers gather elements, and the body can be computed for one; others may have the result for its sizes."""
    result, number = producer.results[0], 0
    every = list(users(result))
    gathers = [u for u in every if u.name == "tensor.extract"]
    others = [u for u in every if u.name != "tensor.extract"]
    if not gathers or (others and _as_large(producer) is None) or any(len(_unread(u, result)) != list(u.operands).count(result) for u in others):
        return False
    if is_widening(producer) and maps(producer)[0] == maps(producer)[-1]:
        return True  # however many are read, they are narrower so
    own, known = product(hint(s) for s in shape(producer.results[0])), set()
    for gather in gathers:
        place = generic_around(gather)
        sizes = loop_sizes(place) if place is not None else [None]
        if any(s is None for s in sizes):
            return False
        places = [place_of(v) for v in list(gather.operands)[1:]]
        points, same = product(hint(s) for s in sizes), (place, tuple(gather.operands))
        if same in known:
            points = 0  # an element that is there
        known.add(same)
        if None not in places and len({p[0] for p in places}) == len(places) == len(sizes):  # each element once, whatever branches leave out
            points = min(points, own) if (place, tuple(places)) not in known else 0
            known.add((place, tuple(places)))
        number += points
    used = [v for v, a in zip(inputs(producer), body(producer).arguments) if is_read(a)]
    large = [v for v in used if isinstance(v.type, ir.RankedTensorType) and (2 if is_reduction(owner(v)) else _SMALLER) * product(map(hint, shape(v))) > own]
    read = len(large)  # (totals of rows lie in the order of what is gathered of each)
    neighbours = _is_one_place(gathers) and ((_in_order(gathers[0]) and _reads_in_order(producer)) or _reads_in_order_there(producer, gathers[0]))
    if 2 * number * max(1, read) > own and any(map(_reduces_rows, gathers)) and _reads_totals(producer):
        return False  # what ends a norm or a softmax is computed with the rest of it, unless few elements are gathered, as a classifier's loss does
    if walk(producer, "scf.if") and any(REDUCTION in kinds(generic_around(p)) for p in gathers):
        return False  # reductions read one piece
    if number * (1 if neighbours else max(1, read)) > own and not (len(gathers) <= _FEW and _is_padding(producer)):
        return False
    looked_up = len(gathers) == 1 and not neighbours and _in_order(gathers[0]) and None in map(place_of, list(gathers[0].operands)[1:])
    if looked_up and _transposes(producer) and number * _SECTOR - 3 * bytes_of(result) > _TRANSPOSED:
        return False  # rows of what is transposed first are neighbours
    if neighbours and ended_contraction(producer) is not None:
        return False  # that is the end of a contraction's kernel
    return all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer)[: len(inputs(producer))] for e in m.results)


def _is_one_place(gathers: list[ir.Operation]) -> bool:
    """Whether all gathers are of one element, as of a place that several weights are computed of."""
    places = {(generic_around(p), tuple(place_of(v) for v in list(p.operands)[1:])) for p in gathers}
    return len(gathers) == 1 or (len(places) == 1 and None not in places.pop()[1])


def _is_padding(producer: ir.Operation) -> bool:
    """Whether it is one tensor with numbers around it: where many elements are gathered, as by ``unfold``, they are as many of the tensor itself."""
    return _moves(producer) and len(walk(producer, "scf.if")) == len(walk(producer, "tensor.extract")) == 1


def _moves(producer: ir.Operation) -> bool:
    """Whether it reads elements of tensors at places of its own, and computes nothing of them."""
    inside = [op for op in walk(producer) if op != producer]
    plain = all(op.name in _MOVES or (op.name.startswith("arith.") and isinstance(op.results[0].type, (ir.IndexType, ir.IntegerType))) for op in inside)
    return plain and not inputs(producer)


def _is_made_again(producer: ir.Operation) -> bool:
    """Whether elements of which neighbours are gathered are made for that once more, though others read them, too: of arguments of no more bytes, and what rows
    have in common, as exponentials that a sum reads.  What has the sum would write them otherwise, wider than what they are made of.  So are the halves of a
    row that is normalised and then rotated, of which each point gathers two."""
    result = producer.results[0]
    gathers = [u for u in users(result) if u.name == "tensor.extract"]
    if not 1 <= len(gathers) <= _FEW or ended_contraction(producer) is not None or not all(map(_in_order, gathers)) or not _reads_in_order(producer):
        return False
    place = generic_around(gathers[0])
    if any(generic_around(p) != place for p in gathers) or REDUCTION in kinds(place) or any(s is None for s in loop_sizes(place)):
        return False
    simple = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer)[: len(inputs(producer))] for e in m.results)
    number, own = product(hint(s) for s in loop_sizes(place)), product(hint(s) for s in shape(result))
    return simple and number <= 2 * own and (is_made_of_less(producer, [*gathers, place], columns=True) or _only_moves(producer))


def _is_gathered_little(producer: ir.Operation) -> bool:
    """Whether of what others read, too, so few elements are gathered that these are made anew of arguments and of what rows have in common, in memory: the
    probabilities of a few tokens beside a sum over all.  Where sums alone are the others, nothing is written for them then, and no more bytes are read."""
    result = producer.results[0]
    every = list(users(result))
    gathers = [u for u in every if u.name == "tensor.extract"]
    others = [u for u in every if u.name != "tensor.extract"]
    if not others or not 1 <= len(gathers) <= _FEW or ended_contraction(producer) is not None or walk(producer, "scf.if", "tensor.extract"):
        return False
    around = [generic_around(p) for p in gathers]
    if any(a is None or a in others or None in loop_sizes(a) for a in around):
        return False
    if any(not isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer)[: len(inputs(producer))] for e in m.results):
        return False
    made = bytes_of(result)
    read = sources_of(producer, made, columns=True, gathered=False)
    if read is None:
        return False
    counts = [(product(hint(s) for s in loop_sizes(a)), _in_order(p)) for p, a in zip(gathers, around)]
    again = sum(min(bytes_of(v), sum(n * (v.type.element_type.width // 8 if ordered else _SECTOR) for n, ordered in counts)) for v in read)
    return again <= (made if all(_ends_in_totals(o, result, _DEPTH) for o in others) else made // _SMALLER)


def _ends_in_totals(user: ir.Operation, value: ir.Value, depth: int) -> bool:
    """Whether an operation reduces rows or columns of a value, or makes what only such operations read: it is in no memory."""
    if is_total(user, value, columns=True):
        return True
    return depth > 0 and is_elementwise(user) and all(_ends_in_totals(u, r, depth - 1) for r in user.results for u in users(r))


def _only_moves(producer: ir.Operation) -> bool:
    """Whether it puts a few tensors together, or pads one, in whole rows, of each of which a point reads one element at most: no more than of what it makes."""
    last, places = _inner_loop(producer), [place_of(p.operands[len(p.operands) - 1]) for p in walk(producer, "tensor.extract")]
    return _moves(producer) and 0 < len(places) <= _FEW and all(p is not None and p[0] == last and p[1] == 1 for p in places)


def _in_order(gather: ir.Operation) -> bool:
    """Whether elements that are gathered one behind the other are neighbours, of whole rows or of flipped ones: as fast to read as in order."""
    generic, type_ = generic_around(gather), gather.operands[0].type
    if generic is None or type_.rank == 0:
        return False
    last, inner = place_of(gather.operands[len(gather.operands) - 1]), _inner_loop(generic)
    if last is None or last[0] is None or last[0] != inner:
        return False
    width = hint(shape(gather.operands[0])[-1]) * getattr(type_.element_type, "width", 64) // 8
    return width >= _LINE or all(p is not None and p[0] is not None for p in (place_of(v) for v in list(gather.operands)[1:]))


def _inner_loop(generic: ir.Operation) -> int | None:
    """The loop of neighbours of what a map makes, or of a reduction's terms, as these are imported."""
    if REDUCTION in kinds(generic):
        return len(kinds(generic)) - 1
    order = maps(generic)[-1].results
    return ir.AffineDimExpr(order[len(order) - 1]).position if is_elementwise(generic) and len(order) else None


def _reads_in_order_there(producer: ir.Operation, gather: ir.Operation) -> bool:
    """Whether what an operation reads of each point, however it lies in what it makes, are neighbours where that is gathered one behind the other."""
    generic, places = generic_around(gather), [place_of(v) for v in list(gather.operands)[1:]]
    if None in places or generic is None or (inner := _inner_loop(generic)) is None:
        return False
    at, own = dict(zip(dims(maps(producer)[-1]), places)), product(hint(s) for s in shape(producer.results[0]))
    for value, map_ in zip(inputs(producer), maps(producer)):
        if not isinstance(value.type, ir.RankedTensorType) or _SMALLER * product(hint(s) for s in shape(value)) <= own:
            continue
        if not len(map_.results):
            continue  # one number
        last = list(map_.results)[-1]
        if not isinstance(last, ir.AffineDimExpr) or at[ir.AffineDimExpr(last).position][0] != inner:
            return False
    return True


def _reduces_rows(gather: ir.Operation) -> bool:
    """Whether a reduction's terms are gathered along rows, as far as is known."""
    around, last = kinds(generic_around(gather)), place_of(gather.operands[len(gather.operands) - 1])
    return REDUCTION in around and (last is None or last[0] is None or around[last[0]] == REDUCTION)


def _reads_totals(producer: ir.Operation) -> bool:
    """Whether an operation reads what others reduce, an element for all neighbours."""
    last = dims(maps(producer)[-1])[-1:]
    return any(is_reduction(owner(v)) and not set(last) & set().union(*map(loops_of, m.results)) for v, m in zip(inputs(producer), maps(producer)))


def _reads_in_order(producer: ir.Operation) -> bool:
    """Whether neighbours of an operation's result are made of neighbours, or of what they have in common."""
    made = maps(producer)[-1].results
    last = ir.AffineDimExpr(made[len(made) - 1]).position if len(made) else None
    reads = [[ir.AffineDimExpr(e).position for e in m.results if isinstance(e, ir.AffineDimExpr)] for m in maps(producer)[: len(inputs(producer))]]
    return all(last not in r or r[-1] == last for r in reads)


def _transposes(producer: ir.Operation) -> bool:
    """Whether neighbours of what an operation makes are made of elements of a large tensor that lie apart."""
    own, made = product(hint(s) for s in shape(producer.results[0])), dims(maps(producer)[-1])
    large = [m for v, m in zip(inputs(producer), maps(producer)) if isinstance(v.type, ir.RankedTensorType) and product(hint(s) for s in shape(v)) == own]
    return bool(made) and any(r is not None and made[-1] in r and r[-1] != made[-1] for r in map(dims, large))


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
