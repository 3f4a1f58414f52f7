"""Which exponentials of a row are below the row's maximum (softmax, logsumexp), and which sums of them can be accumulated together with it."""

from dataclasses import dataclass
from math import inf

from inferno.mlir import constant_number, ir, owner, terminator, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.matmul.row_contraction import RowContraction
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_steps import RowStep

_EQUAL = 1  # the value of arith.cmpf's predicate oeq
# The largest finite number of types that points have: what is infinite is no distance from it.
FINITE = {"f32": 3.4028234663852886e38, "bf16": 3.3895313892515355e38, "f16": 65504.0}


@dataclass(frozen=True)
class OnlineSum:
    """The sum ``result`` that ``step`` takes of exponentials of ``point`` less ``base``, which is or follows from the maximum ``largest``; ``made``:
    the step that makes the exponentials, where it is another one, and ``exponential`` their number."""

    step: RowStep
    result: int
    point: Access | int
    base: int
    largest: int
    element: ir.Type  # of points
    made: RowStep | None = None
    exponential: int | None = None

    @property
    def combiner(self) -> Combiner:
        return self.step.combiners[0]


def online_sums(c: RowKernel) -> dict[int, list[OnlineSum]]:
    """By phase, the sums that can be taken with its maxima: those of the phase behind it, if nothing else is computed of points there."""
    found = {}
    for phase in range(c.phases - 1):
        steps = [s for s in c.steps if s.reduces and s.phase == phase + 1]
        stored = any(not c.values[d.source].per_row and c.computed(d.source) == phase + 1 for d in c.destinations)
        sums = [_read(s, c) for s in steps]
        if sums and not stored and None not in sums:
            found[phase] = sums
    return found


def _read(step: RowStep, c: RowKernel) -> OnlineSum | None:
    """What a reduction sums, if it is that."""
    given = [s for s in step.sources if s is not None]
    if len(step.results) != 1 or not step.combiners[0].sums:
        return None
    made, of = None, step
    if not walk(step.generic, "math.exp") and len(given) == 1 and isinstance(given[0], int) and not c.values[given[0]].per_row:
        made = of = c.maker(given[0])
        if made.reduces or made.results != (given[0],) or source_of(_yielded(step), step) != given[0]:
            return None
    op = owner(_yielded(of))
    points = {s for s in of.sources if isinstance(s, Access) or (s is not None and not c.values[s].per_row)}
    bases = {s for s in of.sources if s is not None} - points
    if op is None or op.name != "math.exp" or len(points) != 1 or len(bases) != 1 or walk(of.generic, "linalg.index", "tensor.extract"):
        return None
    if not is_below_largest(op.operands[0], of, c):
        return None
    ((point,), (base,)), difference = (points, bases), owner(op.operands[0])
    maker = c.maker(largest := largest_of(difference.operands[1], of, c))
    element = point.element if isinstance(point, Access) else c.values[point].element
    if source_of(difference.operands[0], of) != point or maker.phase != step.phase - 1 or str(element) not in FINITE:
        return None
    f32 = isinstance(difference.operands[0].type, ir.F32Type) and isinstance(c.values[base].element, ir.F32Type)
    return OnlineSum(step, step.results[0], point, base, largest, element, made, given[0] if made is not None else None) if f32 else None


def _yielded(step: RowStep) -> ir.Value:
    return terminator(step.block).operands[0]


def is_below_largest(value: ir.Value, step: RowStep, kernel: RowKernel | RowContraction) -> bool:
    """Whether this is x - (the largest x of the row)."""
    op = owner(value)
    if op is None or op.name != "arith.subf":
        return False
    x, largest = source_of(op.operands[0], step), largest_of(op.operands[1], step, kernel)
    if x is None or largest is None:
        return False
    maker = kernel.maker(largest)
    term = terminator(maker.block).operands[maker.results.index(largest)]
    return source_of(term, maker) == x


def largest_of(value: ir.Value, step: RowStep, kernel: RowKernel | RowContraction) -> int | None:
    """The number of the maximum of rows that a value is, or is unless that is infinite, as logsumexp has it."""
    op = owner(value)
    if op is not None and op.name == "arith.extf":
        return largest_of(op.operands[0], step, kernel)
    if op is not None and op.name == "arith.select":
        constant = [v for v in op.operands[1:] if owner(v) is not None and owner(v).name == "arith.constant"]
        other = [v for v in op.operands[1:] if v not in constant]
        return largest_of(other[0], step, kernel) if len(constant) == 1 and _asks_for_infinity(op.operands[0]) else None
    number = source_of(value, step) if op is None else None
    if not isinstance(number, int) or not kernel.values[number].per_row:
        return None
    maker = kernel.maker(number)
    place = maker.results.index(number)
    if maker.reduces:
        k = maker.combiners[place]
        return number if k is not None and k.name == "arith.maximumf" else None
    return largest_of(terminator(maker.block).operands[place], maker, kernel)


def _asks_for_infinity(condition: ir.Value) -> bool:
    """Whether a condition is |x| == infinity."""
    op = owner(condition)
    if op is None or op.name != "arith.cmpf" or ir.IntegerAttr(op.attributes["predicate"]).value != _EQUAL:
        return False
    x = owner(op.operands[0])
    while x is not None and x.name == "arith.extf":
        x = owner(x.operands[0])
    return x is not None and x.name == "math.absf" and constant_number(op.operands[1]) == inf


def source_of(value: ir.Value, step: RowStep) -> Access | int | None:
    """What a value of a body is read from, maybe widened."""
    op = owner(value)
    while op is not None and op.name == "arith.extf":
        value = op.operands[0]
        op = owner(value)
    places = [i for i, a in enumerate(step.block.arguments) if a == value]
    return step.sources[places[0]] if places and places[0] < len(step.sources) else None
