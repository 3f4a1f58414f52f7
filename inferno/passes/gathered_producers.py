"""Which operations of whose elements some are gathered are better computed for those elements alone, where they are gathered."""

from inferno.element_sizes import element_bytes
from inferno.mlir import ir, is_read, owner, users, walk
from inferno.passes.contraction import ended_contraction
from inferno.passes.fuse_elementwise import CHEAP, bytes_of, is_cheap, is_cheap_body, is_made_of_less, is_total, sources_of
from inferno.passes.generics import (
    REDUCTION, body, dims, inputs, is_copy, is_elementwise, is_generic, is_reduction, is_widening, kinds, knows_sizes, loop_sizes, loops_of, maps, outputs,
)
from inferno.passes.lanes import reads_whole_sectors
from inferno.passes.neighbours import generic_around
from inferno.passes.places import place_of
from inferno.passes.selected_products import product_of
from inferno.passes.shapes import shape
from inferno.symbolic import hint, product

_SMALLER = 8  # times, of what caches keep wherever it is read, beside what is made of it
_MOVES = ("linalg.index", "linalg.yield", "scf.if", "scf.yield", "tensor.extract", "arith.constant")
_DEPTH = 4  # operations between what is gathered and a total
_AGAIN = 16  # times that an element is gathered, as four of each point of an image twice as high and wide are
_FEW = 4  # elements that a point gathers of what is padded
_SECTOR = 32  # bytes that memory reads at least
_TRANSPOSED = 8e6  # bytes that are read in vain, which takes longer than a launch
_LINE = 64  # bytes of a row, from which on rows in any order are read as fast as in memory's


def may_move(producer: ir.Operation) -> bool:
    """Whether an operation's elements can be computed one by one, and it is no part of a product."""
    return is_elementwise(producer) and len(producer.results) == 1 and knows_sizes(producer) and product_of(producer) is None


def is_gathered(producer: ir.Operation) -> bool:
    """Whether all readers gather elements, and the body can be computed for one; others may have the result for its sizes."""
    result, every = producer.results[0], list(users(producer.results[0]))
    gathers = [u for u in every if u.name == "tensor.extract"]
    others = [u for u in every if u.name != "tensor.extract"]
    if not gathers or (others and as_large(producer) is None) or any(len(unread(u, result)) != list(u.operands).count(result) for u in others):
        return False
    if is_widening(producer) and maps(producer)[0] == maps(producer)[-1]:
        return True  # however many are read, they are narrower so
    if is_copy(producer) and all(_is_turned_back(producer, g) for g in gathers):
        return True
    own, number = product(hint(s) for s in shape(result)), _gathered_elements(gathers)
    if number is None:
        return False
    used = [v for v, a in zip(inputs(producer), body(producer).arguments) if is_read(a)]
    large = [v for v in used if isinstance(v.type, ir.RankedTensorType) and (2 if is_reduction(owner(v)) else _SMALLER) * product(map(hint, shape(v))) > own]
    read = len(large)  # (totals of rows lie in the order of what is gathered of each)
    neighbours = _is_one_place(gathers) and ((gathers_in_order(gathers[0]) and _reads_in_order(producer)) or _reads_in_order_there(producer, gathers[0]))
    if 2 * number * max(1, read) > own and any(map(_reduces_rows, gathers)) and _reads_totals(producer):
        return False  # what ends a norm or a softmax is computed with the rest of it, unless few elements are gathered, as a classifier's loss does
    if walk(producer, "scf.if") and any(is_reduction(generic_around(p)) for p in gathers):
        return False  # reductions read one piece
    neighbours = neighbours or (read > 1 and number <= own and all(reads_whole_sectors(producer, g) for g in gathers))
    more = number * (1 if neighbours else max(1, read)) > own
    if more and not (len(gathers) <= _FEW and (_is_padding(producer) or (number <= _AGAIN * own and _repeats_little(producer, gathers, read)))):
        return False
    looked_up = len(gathers) == 1 and not neighbours and gathers_in_order(gathers[0]) and None in map(place_of, list(gathers[0].operands)[1:])
    if looked_up and _transposes(producer) and number * _SECTOR - 3 * bytes_of(result) > _TRANSPOSED:
        return False  # rows of what is transposed first are neighbours
    if (neighbours or _narrows(producer)) and ended_contraction(producer) is not None:
        return False  # that is the end of a contraction's kernel
    return all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer)[: len(inputs(producer))] for e in m.results)


def _narrows(producer: ir.Operation) -> bool:
    """Whether an operation's elements take fewer bytes than those of a tensor of its shape that it reads."""
    result = producer.results[0].type
    sizes = [element_bytes(v.type.element_type) for v in inputs(producer) if isinstance(v.type, ir.RankedTensorType) and v.type.shape == result.shape]
    return any(size > element_bytes(result.element_type) for size in sizes)


def computes_of_few(producer: ir.Operation) -> bool:
    """Whether an operation computes something costly of fewer elements than it makes, as the gate of a channel: as long as loops are those of its result,
    ``hoist-vectors`` computes that once, but not where places are quotients and remainders of loops."""
    made = product(hint(s) for s in shape(producer.results[0]))
    block = body(producer)
    many = {a for a, v in zip(block.arguments, inputs(producer)) if isinstance(v.type, ir.RankedTensorType) and product(map(hint, shape(v))) >= made}
    for op in [o.operation for o in block.operations]:
        if any(v in many for inner in walk(op) for v in inner.operands) or op.name == "tensor.extract":
            many.update(op.results)
        elif op.name not in CHEAP and len(op.operands):
            return True
    return False


def _is_turned_back(copy: ir.Operation, gather: ir.Operation) -> bool:
    """Whether who gathers of a transposed tensor goes over neighbours of the tensor itself, as images with channels last."""
    source, written, generic = maps(copy)[0], dims(maps(copy)[-1]), generic_around(gather)
    if not source.is_permutation or source == maps(copy)[-1] or written is None or generic is None:
        return False
    found = place_of(list(gather.operands)[1 + written.index(dims(source)[-1])])
    return found is not None and found[0] is not None and found[1] == 1 and found[0] in _loops_of_neighbours(generic)


def _loops_of_neighbours(generic: ir.Operation) -> set[int | None]:
    """The loop of neighbours of what a map makes; of a reduction's terms that of all tensors that have one for each."""
    if is_elementwise(generic):
        return {_inner_loop(generic)}
    return {dims(m)[-1] for m in maps(generic)[: len(inputs(generic))] if m.is_permutation}


def _gathered_elements(gathers: list[ir.Operation]) -> int | None:
    """How many elements of one tensor are gathered, one that is there counted once, and of branches the one that gathers more; None where that is not known."""
    around = list(dict.fromkeys(map(generic_around, gathers)))
    if any(g is None or None in loop_sizes(g) for g in around):
        return None
    most = sum(product(hint(s) for s in loop_sizes(g)) * _gathered_at_once(body(g), gathers) for g in around)
    return min(_gathered_each(gathers), most)


def _gathered_at_once(block: ir.Block, gathers: list[ir.Operation]) -> int:
    """How many of the gathers a block does for one point."""
    count = 0
    for op in [o.operation for o in block.operations]:
        count += (op in gathers) + max((_gathered_at_once(b, gathers) for region in op.regions for b in region.blocks), default=0)
    return count


def _gathered_each(gathers: list[ir.Operation]) -> int:
    """The same as if every gather were done at each point."""
    own, number, known = product(hint(s) for s in shape(gathers[0].operands[0])), 0, set()
    for gather in gathers:
        place = generic_around(gather)
        sizes = loop_sizes(place)
        places = [place_of(v) for v in list(gather.operands)[1:]]
        points, same = product(hint(s) for s in sizes), (place, tuple(gather.operands))
        if same in known:
            points = 0
        known.add(same)
        if None not in places and len({p[0] for p in places}) == len(places) == len(sizes):  # each element once, whatever branches leave out
            points = min(points, own) if (place, tuple(places)) not in known else 0
            known.add((place, tuple(places)))
        number += points
    return number


def _is_one_place(gathers: list[ir.Operation]) -> bool:
    """Whether all gathers are of one element, as of a place that several weights are computed of."""
    places = {(generic_around(p), tuple(place_of(v) for v in list(p.operands)[1:])) for p in gathers}
    return len(gathers) == 1 or (len(places) == 1 and None not in places.pop()[1])


def _is_padding(producer: ir.Operation) -> bool:
    """Whether it is one tensor with numbers around it: where many elements are gathered, as by ``unfold``, they are as many of the tensor itself."""
    return _moves(producer) and len(walk(producer, "scf.if")) == len(walk(producer, "tensor.extract")) == 1


def _repeats_little(producer: ir.Operation, gathers: list[ir.Operation], read: int) -> bool:
    """Whether maps gather what a few cheap operations make of one element of a tensor, or of two of the ``read`` large ones where a point gathers one, as
    resized images do: making it again reads caches, and writing and reading it costs a launch and memory."""
    if any(is_reduction(generic_around(g)) for g in gathers) or not _reads_in_order(producer):
        return False
    if _moves(producer, looked_up=True) and not walk(producer, "scf.if"):
        places = [place_of(p.operands[len(p.operands) - 1]) for p in walk(producer, "tensor.extract")]
        return len(places) == 1 and places[0] is not None and places[0][0] == _inner_loop(producer)
    return is_cheap(producer) or (len(gathers) == 1 and read == 2 and is_cheap_body(producer))


def _moves(producer: ir.Operation, looked_up: bool = False) -> bool:
    """Whether it reads elements of tensors at places of its own, or with ``looked_up`` where other tensors say, and computes nothing of them."""
    inside = [op for op in walk(producer) if op != producer]
    plain = all(op.name in _MOVES or (op.name.startswith("arith.") and isinstance(op.results[0].type, (ir.IndexType, ir.IntegerType))) for op in inside)
    return plain and (not inputs(producer) or (looked_up and bool(walk(producer, "tensor.extract"))))


def is_made_again(producer: ir.Operation) -> bool:
    """Whether elements of which neighbours are gathered are made for that once more, though others read them, too: of arguments of no more bytes, and what rows
    have in common, as exponentials that a sum reads.  What has the sum would write them otherwise, wider than what they are made of.  So are the halves of a
    row that is normalised and then rotated, of which each point gathers two."""
    result = producer.results[0]
    gathers = [u for u in users(result) if u.name == "tensor.extract"]
    if not 1 <= len(gathers) <= _FEW or ended_contraction(producer) is not None or not all(map(gathers_in_order, gathers)) or not _reads_in_order(producer):
        return False
    place = generic_around(gathers[0])
    if any(generic_around(p) != place for p in gathers) or is_reduction(place) or any(s is None for s in loop_sizes(place)):
        return False
    simple = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer)[: len(inputs(producer))] for e in m.results)
    number, own = product(hint(s) for s in loop_sizes(place)), product(hint(s) for s in shape(result))
    return simple and number <= 2 * own and (is_made_of_less(producer, [*gathers, place], columns=True) or _only_moves(producer))


def is_gathered_little(producer: ir.Operation) -> bool:
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
    counts = [(product(hint(s) for s in loop_sizes(a)), gathers_in_order(p)) for p, a in zip(gathers, around)]
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


def gathers_in_order(gather: ir.Operation) -> bool:
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
    if is_reduction(generic):
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


def as_large(producer: ir.Operation) -> ir.Value | None:
    """A tensor of the sizes of what an elementwise operation makes, that is there before."""
    same = [v for v, m in zip(inputs(producer), maps(producer)) if m == maps(producer)[-1] and isinstance(v.type, ir.RankedTensorType)]
    empty = outputs(producer)[0]
    if (made := owner(empty)) is not None and made.name == "linalg.fill":
        empty = made.operands[1]
    return same[0] if same else empty if (made := owner(empty)) is not None and made.name == "tensor.empty" else None


def unread(user: ir.Operation, value: ir.Value) -> list[int]:
    """The operands by which an operation has a value and reads no element."""
    arguments = body(user).arguments if is_generic(user) else []
    return [i for i, v in enumerate(inputs(user)) if v == value and not is_read(arguments[i])] if len(arguments) else []
