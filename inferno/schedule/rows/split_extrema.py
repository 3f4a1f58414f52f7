"""Present an extremum and its place (argmax, max along a dimension) as two reductions of rows: the value, and then the first place where that is.

Threads that hold a row compare what they hold once more, and memory is read once: so an argmax goes along with the norm or the softmax in front of it, and
with what reads it.  NaN counts as beyond every number, as in eager.  What is compared is computed once, for computed again it might be rounded otherwise:
it is held until then.
"""

from inferno.mlir import arith, ir, is_read, linalg, owner, tensor, walk
from inferno.passes.generics import PARALLEL, REDUCTION, body, build, clone_body, inputs, kinds, loop, maps, outputs, yielded
from inferno.schedule.analysis.accesses import filled, loop_sizes
from inferno.schedule.reductions.extrema import Extremum, read_extremum, to_candidate, unround

_I32 = 1 << 31  # terms, fewer of which are numbered by 32 bits


def split_extrema(module: ir.Module) -> bool:
    """Rewrite the kernel of a module of its own, where extrema begin with what comes behind every candidate; whether there was one."""
    found = False
    for op in walk(module.body.operations[0], "linalg.generic"):
        sizes = loop_sizes(op) or ()
        along = [d for d, (kind, size) in enumerate(zip(kinds(op), sizes)) if kind == REDUCTION and size != 1]
        extremum = read_extremum(body(op), len(inputs(op)), along[0]) if len(op.results) == 2 and len(along) == 1 else None
        if extremum is None or filled(outputs(op)[0]) != extremum.combiners[0].neutral(extremum.narrow) or filled(outputs(op)[1]) is None:
            continue
        with ir.InsertionPoint(op), op.location:
            _split(op, extremum, along[0], sizes)
        found = True
    return found


def _split(op: ir.Operation, extremum: Extremum, along: int, sizes: tuple[int, ...]) -> None:
    to_candidate(body(op), len(inputs(op)))
    unround(body(op), extremum)
    candidate, place = (v.type for v in yielded(op))
    number = ir.IntegerType.get_signless(32) if sizes[along] < _I32 else place
    combiner, behind = extremum.combiners[0], ir.IntegerAttr.get(number, (1 << (number.width - 1)) - 1)
    (source, order), points = _candidates(op, sizes), maps(op)[-1]

    def widened(value: ir.Value) -> ir.Value:
        return value if value.type == candidate else arith.extf(candidate, value)

    def larger(arguments: list[ir.Value]) -> list[ir.Value]:
        return [combiner.combine(widened(arguments[0]), arguments[1])]

    def first(arguments: list[ir.Value]) -> list[ir.Value]:
        value, largest, before = arguments
        here = arith.select(_equal(widened(value), largest), arith.index_cast(number, loop(along)), arith.constant(number, behind))
        return [arith.minsi(here, before)]

    start = _start(outputs(op)[0], candidate, combiner.neutral(candidate))
    made = [build([source], [start], [order, points], kinds(op), larger, op.location).results[0], None]
    if is_read(op.results[1]):
        start = _start(outputs(op)[1], number, behind)
        made[1] = build([source, made[0]], [start], [order, points, points], kinds(op), first, op.location).results[0]
    for old, new, before in zip(op.results, made, outputs(op)):
        if is_read(old):
            old.replace_all_uses_with(_converted(new, old.type.element_type, owner(before)))
    op.erase()


def _candidates(op: ir.Operation, sizes: tuple[int, ...]) -> tuple[ir.Value, ir.AffineMap]:
    """The tensor of what is compared, maybe in a narrower type, and how it is walked: one that is read as it is, or what a map makes."""
    value = yielded(op)[0]
    made = owner(value)
    read = made.operands[0] if made is not None and made.name == "arith.extf" else value
    arguments = list(body(op).arguments)[:len(inputs(op))]
    if read in arguments:
        return inputs(op)[arguments.index(read)], maps(op)[arguments.index(read)]
    count = len(arguments)
    order = next((m for m in maps(op)[:count] if m.is_permutation), ir.AffineMap.get_identity(len(sizes)))
    shape = [sizes[ir.AffineDimExpr(e).position] for e in order.results]

    def candidate(given: list[ir.Value]) -> list[ir.Value]:
        return clone_body(body(op), [*given[:count], None, None])[:1]

    empty = tensor.empty(shape, value.type)
    return build(inputs(op), [empty], [*maps(op)[:count], order], [PARALLEL] * len(sizes), candidate, op.location).results[0], order


def _equal(value: ir.Value, largest: ir.Value) -> ir.Value:
    """Whether a candidate is the largest, which is NaN if any is: whatever is NaN then is equal to it."""
    if isinstance(value.type, ir.IntegerType):
        return arith.cmpi(arith.CmpIPredicate.eq, value, largest)
    return arith.ori(arith.cmpf(arith.CmpFPredicate.OEQ, value, largest), arith.cmpf(arith.CmpFPredicate.UNO, value, value))


def _start(before: ir.Value, element: ir.Type, value: ir.Attribute) -> ir.Value:
    """A tensor full of what a reduction begins with: where the result is to be, if it has the result's type."""
    same = before.type.element_type == element
    empty = owner(before).operands[1] if same else tensor.empty(list(before.type.shape), element)
    return linalg.fill(arith.constant(element, value), outs=[empty])


def _converted(value: ir.Value, element: ir.Type, fill: ir.Operation) -> ir.Value:
    """What a reduction makes in a type of its own, in that of the result."""
    if value.type.element_type == element:
        return value
    convert = arith.extsi if isinstance(element, ir.IntegerType) else arith.truncf
    same = ir.AffineMap.get_identity(value.type.rank)
    return build(
        [value], [fill.operands[1]], [same, same], [PARALLEL] * value.type.rank, lambda arguments: [convert(element, arguments[0])], fill.location,
    ).results[0]
