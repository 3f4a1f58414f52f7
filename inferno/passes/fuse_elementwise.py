"""Elementwise operations become one with their readers: multiply, add, sigmoid is one kernel, the values in registers.

A producer goes into its reader when the reader is its only one, or when computing it again is cheaper than reading it:
its body is a few cheap operations and it reads no more bytes than it writes (a cast, a scale, a broadcast).
"""

from collections.abc import Sequence

from inferno.element_sizes import element_bytes
from inferno.mlir import dim_of, ir, owner, rewrite, users, walk
from inferno.passes.contraction import (
    CONVOLUTIONS, ended_contraction, ended_convolution, has_one_reader, has_windows, is_convolution, is_factor, is_sum_of_products, parse_fused,
)
from inferno.passes.generics import (
    REDUCTION, Operands, body, build, clone_body, covers_loops, dims, indices_are_simple, inputs, inverse, is_copy, is_elementwise, is_generic, is_reduction,
    is_widening, kinds, knows_sizes, loop_sizes, maps, only_user, outputs, substitute, use_count, yielded,
)
from inferno.passes.greedy import rewrite_greedily
from inferno.passes.locations import merge
from inferno.passes.places import is_looked_up, loops_behind, place_of
from inferno.passes.programs import readers, root_of
from inferno.passes.selected_products import stays_selected
from inferno.passes.shapes import shape
from inferno.passes.widen_arithmetic import is_marked, mark_rounding
from inferno.passes.write_slices import WRITES, changes_slices, is_update
from inferno.symbolic import hint, product

# (No absf: what a softmax subtracts where its largest element is infinite is told by one, and stays for merge-softmaxes.)
CHEAP = {
    "arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.extsi", "arith.extui", "arith.trunci", "arith.addf",
    "arith.subf", "arith.mulf", "arith.negf", "arith.addi", "arith.subi", "arith.muli", "arith.cmpf", "arith.cmpi", "arith.select",
    "arith.constant", "arith.index_cast", "linalg.index", "linalg.yield", "arith.andi", "arith.ori", "arith.xori", "arith.maximumf", "arith.minimumf",
    "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "math.floor", "math.ceil", "math.roundeven", "math.trunc",
}
_MOST_REPEATED = 6  # operations that may be computed again in each reader; a cast with a scale and a shift is four
_MOST_OF_NUMBERS = 16  # of loops' numbers alone, as the places that a border of another side repeats: reading them would come before reading what is there
_MANY = 8  # elements that would compute something costly of one anew, each
# Bytes of a concatenation that a reduction of so many terms reads from its pieces, element by element: a launch takes longer.  (On an H100 sums of 8 terms of
# pieces of 4x2112 in bf16 took 4.7 us by two kernels, and take 2.3.)
_LITTLE, _TERMS = 1 << 17, 32
_SMALLER = 8  # times, of what is computed for rows beside what is for points
# Picoseconds that a reduction takes to gather an element, and that memory takes for a byte; what a kernel more takes.  (On an H200 the largest of 19
# channels of 8x19x512x1024 in bf16, enlarged from 64x128, was found in 188 us by one kernel; the enlarged image takes 39.)
_TAP, _BYTE, _LAUNCH = 0.5, 0.25, 1.5e6
_DEEP = 17  # elementwise operations behind each other whose gathers are counted together
_MOST_INPUTS = 24  # tensors that one kernel reads: each takes registers for its address


def fuse_elementwise(module: ir.Module) -> None:
    """Fuse elementwise producers into elementwise readers, and into reductions that read them.  Contractions are left to
    fuse-contractions; convolutions read an element once for each feature and window, and stay what libraries know.

    Where convolutions are marked, what becomes the end of one's kernel is not taken away from it by another reader, and what is costly,
    made of arguments alone and of few elements, as the reciprocal root of a batch norm's variance, is not computed again for each of many.

    Where slices are to be written by themselves, what changes an argument in places is not done again by who reads it."""
    marked, writes = CONVOLUTIONS in module.operation.attributes, WRITES in module.operation.attributes
    patterns = rewrite.RewritePatternSet(module.context)
    patterns.add("linalg.generic", lambda op, rewriter: _fuse(op, rewriter, marked, writes))
    rewrite_greedily(module, patterns)


def _fuse(op, rewriter, marked: bool, writes: bool) -> bool:
    consumer = op.operation
    reads, once = None, False  # whether the consumer takes any producer, which is asked where there is one
    for number, value in enumerate(inputs(consumer)):
        producer = owner(value)
        if not is_generic(producer) or not is_elementwise(producer) or not knows_sizes(producer):
            continue
        pays = _pays(producer, value) or (_turns(consumer, number) and is_made_of_less(producer, [consumer]))
        if not pays and not _reads_already(producer, consumer, number):
            continue
        if reads is None:
            once = _reads_once(consumer)
            reads = knows_sizes(consumer) and (once or not (is_sum_of_products(consumer) or _multiplies_two(consumer) or _extends_factor(consumer)))
        if not reads:
            return True
        if _chooses(producer) and is_reduction(consumer) and not (_reads_in_order(producer, consumer, number) or _reduces_little(consumer, value)):
            continue
        if is_reduction(consumer) and _samples_much(producer, consumer):
            continue
        if writes and is_update(producer):
            continue
        if _is_sliced(value) and changes_slices(producer):
            continue  # it is in memory for these, and each of a chain of such changes would read all slices in front of it
        if not stays_selected(producer, consumer, number):
            continue
        if not once and walk(producer, "tensor.extract") and ended_contraction(consumer, reshaped=_looks_up(producer)) is not None:
            continue  # the end of a contraction reads each of its tensors at one place for each point, and scores a bias that a table has for pairs of places
        if marked and (_keeps_end(producer, consumer, number) or _repeats_much(producer, consumer)):
            continue
        if not is_marked(producer) and only_user(value) is None and _meets_itself(value):
            mark_rounding(producer)
        new = fuse(producer, consumer, number, rewriter.ip)
        if new is None:
            continue
        rewriter.replace_op(consumer, new)
        return False
    return True


def _samples_much(producer: ir.Operation, consumer: ir.Operation) -> bool:
    """Whether a reduction would take longer to interpolate each of its terms, of a gathered element at a time, than to read what a map has made by vectors."""
    taps = _taps(producer)
    points = product(map(hint, loop_sizes(producer))) if taps > 1 and is_elementwise(producer) else 0
    width = element_bytes(producer.results[0].type.element_type)
    return points * (taps * _TAP - 2 * width * _BYTE) > _LAUNCH


def _taps(op: ir.Operation) -> int:
    """Elements that are gathered at places that do not follow a loop in memory for each that elementwise operations, ending with ``op``, make."""
    taps, level, seen = 0, [op], {op}
    for _ in range(_DEEP):
        for one in level:
            gathers = [gather for gather in walk(one, "tensor.extract") if not is_copy(owner(gather.operands[0]))]  # of what lies in another order in memory
            taps += sum(len(gather.operands) > 1 and place_of(gather.operands[len(gather.operands) - 1]) is None for gather in gathers)
        makers = {maker for one in level for maker in map(owner, inputs(one)) if is_generic(maker) and is_elementwise(maker)}
        level, seen = [*makers - seen], seen | makers
    return taps


def _is_sliced(value: ir.Value) -> bool:
    return any(r.name == "tensor.extract_slice" for r in readers(value))


def _looks_up(producer: ir.Operation) -> bool:
    """Whether it reads elements at places that another tensor says, or that are in no regular order."""
    return any(is_looked_up(gather, bent=True) for gather in walk(producer, "tensor.extract"))


def _meets_itself(value: ir.Value) -> bool:
    """Whether a reader gathers elements of a value, or stores the greatest, which others may compare with what they compute of the same value: both have
    to be rounded then.  What only computes has the smaller error without."""
    return any(_gathers(use.owner.operation) for use in value.uses)


def _gathers(reader: ir.Operation) -> bool:
    if reader.name != "linalg.generic":
        return reader.name != "func.return"
    if is_copy(reader) or walk(reader, "tensor.extract"):
        return True
    extrema = [o for o in walk(reader, "arith.maximumf", "arith.minimumf", "arith.cmpf") if all(_varies(v) for v in o.operands)]
    return any(not is_reduction(reader) or o.operands[0].type.width == 16 for o in extrema)


def _varies(value: ir.Value) -> bool:
    made = owner(value)
    return made is None or made.name != "arith.constant"


def _multiplies_two(consumer: ir.Operation) -> bool:
    """Whether it is a contraction with something fused into it; a sum of squares is a reduction like any other."""
    found = parse_fused(consumer)
    return found is not None and (found.value is not None or found.lhs != found.rhs)


def _reads_once(consumer: ir.Operation) -> bool:
    """Whether it sums products whose factors differ at every point, ``(x * y).sum(0)``: each meets one other, so it is a reduction like any other, for which
    terms are computed once.  (Of 49359x483 in bf16 what made a factor of each term wrote and read 48 MB, of the differences of 256 times 200x200 numbers
    185.)  So does a total of all points of one of its factors, whatever the other is, as a loss with a weight for each row."""
    if set(kinds(consumer)) == {REDUCTION} and any(m.is_permutation for m in maps(consumer)[: len(inputs(consumer))]):
        return True
    if is_convolution(consumer) or (found := parse_fused(consumer)) is None or found.value is not None or found.lhs == found.rhs:
        return False
    return all(len(loops_behind(factor, consumer)) == len(kinds(consumer)) for factor in (found.lhs, found.rhs))


def _extends_factor(consumer: ir.Operation) -> bool:
    """Whether it only widens what contractions multiply: tensor cores do that, and what makes the factor may write it narrow."""
    names = [o.operation.name for o in body(consumer).operations]
    return names == ["arith.extf", "linalg.yield"] and is_factor(consumer)


def _chooses(producer: ir.Operation) -> bool:
    """Whether what it makes is of one piece or another."""
    return any(op.operation.name == "scf.if" for op in body(producer).operations)


def _reads_in_order(producer: ir.Operation, consumer: ir.Operation, number: int) -> bool:
    """Whether a reduction reads each element of a choice once, and neighbours of all pieces, whatever totals of rows they are scaled by, lie along one loop:
    its kernel reads them by vectors.  Of reductions of several results those of the largest element and its place are such."""
    beside = any(map(use_count, list(consumer.results)[1:]))
    if (beside and not _finds_place(consumer)) or not maps(consumer)[number].is_permutation or not all(isinstance(s, int) for s in loop_sizes(consumer)):
        return False
    reads = walk(producer, "tensor.extract")
    most = max((len(op.operands) for op in reads), default=0)
    along = {place and place[0] for place in (place_of(op.operands[most - 1]) for op in reads if len(op.operands) == most)}
    return len(along - {None}) == 1


def _finds_place(consumer: ir.Operation) -> bool:
    """Whether a reduction gives an element that it chooses, and its place along the only loop that is reduced."""
    along, place = [d for d, k in enumerate(kinds(consumer)) if k == REDUCTION], owner(yielded(consumer)[1])
    if len(along) != 1 or len(consumer.results) != 2 or place is None or place.name != "arith.select" or place.operands[2] != body(consumer).arguments[-1]:
        return False
    number = owner(place.operands[1])
    number = owner(number.operands[0]) if number is not None and number.name == "arith.index_cast" else number
    return number is not None and number.name == "linalg.index" and dim_of(number) == along[0]


def _reduces_little(consumer: ir.Operation, value: ir.Value) -> bool:
    """Whether a reduction of few terms each reads few bytes of a value; of sizes that vary no kernel chooses its terms."""
    sizes = loop_sizes(consumer)
    if any(not isinstance(s, int) for s in sizes) or bytes_of(value) > _LITTLE:
        return False
    return product(s for s, k in zip(sizes, kinds(consumer)) if k == REDUCTION) <= _TERMS


def _keeps_end(producer: ir.Operation, consumer: ir.Operation, number: int) -> bool:
    """Whether a producer is the end of a convolution and stays it: its reader is not the only one, goes over other points, widens what is kept narrow,
    or will end a later convolution."""
    own, value, points = ended_convolution(producer), inputs(consumer)[number], maps(consumer)[-1]
    if own is None or is_widening(producer):  # what is widened is kept narrow
        return False
    if not is_elementwise(consumer) or only_user(value) is None or is_widening(consumer):
        return True
    if maps(consumer)[number] != points:  # contractions write any order
        return has_windows(own) or len(inputs(consumer)) > 1
    others = (ended_convolution(owner(v)) for v, m in zip(inputs(consumer), maps(consumer)) if v != value and m == points and has_one_reader(v))
    return any(other is not None and own.is_before_in_block(other) for other in others)


def _repeats_much(producer: ir.Operation, consumer: ir.Operation) -> bool:
    if is_cheap_body(producer) or not _is_of_arguments(producer):
        return False
    sizes = shape(producer.results[0]), [s for s in loop_sizes(consumer) if s is not None]
    return _MANY * product(map(hint, sizes[0])) <= product(map(hint, sizes[1]))


def _is_of_arguments(op: ir.Operation) -> bool:
    """Whether an elementwise operation is one of the program's arguments alone."""
    return all(made is None or (is_elementwise(made) and _is_of_arguments(made)) for made in map(owner, inputs(op)))


def _pays(producer: ir.Operation, value: ir.Value) -> bool:
    if len(producer.results) == 1 and only_user(value) is not None:
        return True
    return len(producer.results) == 1 and is_cheap(producer) and not _is_given_back(producer)


def _reads_already(producer: ir.Operation, consumer: ir.Operation, number: int) -> bool:
    """Whether a reader has all that a producer reads, at the same points, as what gathers by a label has the label that says whether it counts."""
    every = [m for v, m in zip([*inputs(producer), *producer.results], maps(producer)) if isinstance(v.type, ir.RankedTensorType)]
    known = list(zip(inputs(consumer), maps(consumer)))
    alike = len(producer.results) == 1 and len(set(every)) == 1 and every[0].is_permutation and bool(inputs(producer))
    return alike and all((v, maps(consumer)[number]) in known for v in inputs(producer)) and is_cheap_body(producer)


def _is_given_back(producer: ir.Operation) -> bool:
    """Whether what it makes is in memory in any case, for the program returns it, and something that it is made of would not have to be: who reads what is made
    needs not compute it again."""
    if all(user.name != "func.return" for user in users(producer.results[0])):
        return False
    return any(is_elementwise(owner(v)) and _is_made_for(v, producer) for v in inputs(producer))


def _is_made_for(value: ir.Value, reader: ir.Operation, depth: int = 4) -> bool:
    """Whether nothing reads a value but an operation, or what is made for it: a row's greatest, too, which is subtracted."""
    def is_for(user: ir.Operation) -> bool:
        return (is_elementwise(user) or is_reduction(user)) and depth > 0 and all(_is_made_for(r, reader, depth - 1) for r in user.results)

    return all(user == reader or is_for(user) for user in users(value))


def _turns(consumer: ir.Operation, number: int) -> bool:
    """Whether a map reads an input in another order than it writes: it is no part of a kernel that has the input's rows."""
    read, written = maps(consumer)[number], maps(consumer)[-1]
    return is_elementwise(consumer) and read.is_permutation and read != written


def is_made_of_less(producer: ir.Operation, own: Sequence[ir.Operation], columns: bool = False, gathered: bool = False) -> bool:
    """Whether what an elementwise operation makes of totals of rows can be made of them and of arguments of no more bytes: what ends a norm, or the
    exponentials of a softmax; with ``columns`` of theirs, too, whose kernel writes any order; with ``gathered`` of what is gathered of arguments, too.  All
    that reads it but ``own`` are such totals, beside which it need not be in memory."""
    if any(user not in own and not is_total(user, producer.results[0], columns) for user in users(producer.results[0])):
        return False
    made = bytes_of(producer.results[0])
    found = sources_of(producer, made, columns, gathered)
    if found == {producer.results[0]}:
        return True
    totals = [v for v in inputs(producer) if is_generic(owner(root_of(v))) and _SMALLER * bytes_of(v) <= made]
    return found is not None and bool(totals) and sum(map(bytes_of, found)) <= made


def is_total(user: ir.Operation, value: ir.Value, columns: bool) -> bool:
    """Whether it reduces the last dimension of what it reads, or with ``columns`` any one."""
    if not is_generic(user):
        return False
    read = [dims(m) for v, m in zip(inputs(user), maps(user)) if v == value]
    return bool(read) and all(d and any(kinds(user)[x] == REDUCTION for x in (d if columns else d[-1:])) for d in read)


def sources_of(producer: ir.Operation, made: int, columns: bool, gathered: bool) -> set[ir.Value] | None:
    """The arguments that an operation reads, or that maps do whose results it reads, where they are not small beside so many bytes, and with ``gathered`` what
    maps gather of arguments; None where it reads anything else that was computed of points, or without ``columns`` for these."""
    if gathers := walk(producer, "tensor.extract"):
        of_arguments = gathered and all(p.parent == producer and _is_argument(p.operands[0]) for p in gathers)
        large = [p for p in gathers if _SMALLER * bytes_of(p.operands[0]) > made and not _is_number(p.operands[len(p.operands) - 1])]
        small = of_arguments and len(large) == 1 and not any(_SMALLER * bytes_of(v) > made for v in inputs(producer))
        return {producer.results[0]} if small else None
    found: set[ir.Value] = set()
    last = list(maps(producer)[-1].results)[-1:]
    for value, map_ in zip(inputs(producer), maps(producer)):
        maker = owner(value)
        if _SMALLER * bytes_of(value) <= made:
            if not columns and is_generic(owner(root_of(value))) and any(e in last for e in map_.results):
                return None
            continue
        read = {value} if maker is None else sources_of(maker, made, columns, gathered) if is_elementwise(maker) and len(maker.results) == 1 else None
        if read is None:
            return None
        found |= read
    return found


def _is_argument(value: ir.Value) -> bool:
    """Whether it is given to the program, or a part of what is."""
    made = owner(value)
    return made is None or (made.name == "tensor.extract_slice" and _is_argument(made.operands[0]))


def _is_number(place: ir.Value) -> bool:
    made = owner(place)
    return made is not None and made.name == "arith.constant"


def is_cheap(producer: ir.Operation) -> bool:
    """Whether a reader may compute a producer again: few cheap operations, and no more bytes read than written, but for totals of rows."""
    if not is_cheap_body(producer):
        return False
    made = sum(bytes_of(r) for r in producer.results)
    read = dict.fromkeys(zip(inputs(producer), maps(producer)))  # a square reads its operand once
    return sum(bytes_of(v) for v, _ in read if not (2 * bytes_of(v) <= made and is_reduction(owner(root_of(v))))) <= 1.05 * made


def is_cheap_body(generic: ir.Operation) -> bool:
    """Whether a generic's body is few cheap operations."""
    operations = [o.operation for o in body(generic).operations]
    most = _MOST_REPEATED if inputs(generic) or not all(isinstance(r.type.element_type, ir.IntegerType) for r in generic.results) else _MOST_OF_NUMBERS
    few = sum(o.name not in ("arith.constant", "linalg.yield", "linalg.index") for o in operations) <= most
    return few and all(o.name in CHEAP or _divides_by_number(o) for o in operations)


def _divides_by_number(op: ir.Operation) -> bool:
    """Whether it is a quotient of whole numbers, which is a product and a shift, or what is left of one."""
    made = owner(op.operands[1]) if op.name in ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui") else None
    return made is not None and made.name == "arith.constant"


def bytes_of(value: ir.Value) -> int:
    """Of a tensor; 0 for anything else."""
    type_ = value.type
    if not isinstance(type_, ir.RankedTensorType):
        return 0
    return product(hint(s) for s in shape(value)) * element_bytes(type_.element_type)


def fuse(producer: ir.Operation, consumer: ir.Operation, number: int, at: ir.InsertionPoint | None = None) -> ir.Operation | None:
    """The consumer with its input ``number`` computed by the producer's body, in front of it, or ``at`` a place; None where the maps do not compose."""
    read = maps(consumer)[number]
    result = list(producer.results).index(inputs(consumer)[number])
    order = dims(maps(producer)[len(inputs(producer)) + result])
    loops = [list(read.results)[i] for i in inverse(order)]
    if not indices_are_simple(producer, loops):
        return None
    count = len(kinds(consumer))
    operands = Operands()
    values, indexing, operand = operands.values, operands.maps, operands.number

    target = inputs(consumer)[number]
    kept = [-1 if v == target and m == read else operand(v, m) for v, m in zip(inputs(consumer), maps(consumer))]
    added = [operand(v, substitute(m, loops, count)) for v, m in zip(inputs(producer), maps(producer))]
    if len(values) > _MOST_INPUTS:
        return None
    outs = maps(consumer)[len(inputs(consumer)) :]
    if not covers_loops([*indexing, *outs], count):
        empty, gathers = outputs(producer)[result], [*walk(producer, "tensor.extract"), *walk(consumer, "tensor.extract")]
        if not gathers or not is_reduction(consumer) or owner(empty) is None or owner(empty).name != "tensor.empty":
            return None
        operand(empty, read)  # which is not read, but tells how many elements are gathered and reduced
        if not covers_loops([*indexing, *outs], count):
            return None
    same = [ir.AffineDimExpr.get(i) for i in range(count)]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        old = arguments[len(values) :]
        made = clone_body(body(producer), [arguments[i] for i in added] + [None] * len(producer.results), loops)[result]
        return clone_body(body(consumer), [made if i < 0 else arguments[i] for i in kept] + old, same)

    with at or ir.InsertionPoint(consumer), consumer.location:
        return build(values, outputs(consumer), [*indexing, *outs], kinds(consumer), fill, merge(consumer.location, producer.location))
