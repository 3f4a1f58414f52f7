"""The maximum of some terms and the sum of their exponentials below it (softmax, logsumexp) as one reduction that may be regrouped.

The sum is relative to the largest term so far, and is scaled when that grows ("Online normalizer calculation for softmax", Milakov and Gimelshein,
2018).  Where that is infinite, the sum is relative to 0.
"""

from dataclasses import dataclass
from math import inf

from inferno.mlir import arith, constant_number, ir, math, owner, terminator
from inferno.passes.generics import use_count
from inferno.schedule.analysis.combiners import Combiner

_OPERATIONS = ("arith.maximumf", "math.absf", "arith.cmpf", "arith.select", "arith.subf", "math.exp", "arith.subf", "math.exp", "arith.mulf", "arith.addf")


@dataclass(frozen=True)
class ExponentialSum:
    """Two results in float32: the largest term, and the sum, of which what many threads have comes together in float64."""

    f32: ir.Type
    f64: ir.Type

    @property
    def combiners(self) -> tuple[Combiner, Combiner]:
        """The two running values' types and neutral values: of the sum beside the largest's."""
        return Combiner("arith.maximumf", self.f32, self.f32, self.f32), Combiner("arith.addf", self.f32, self.f32, self.f64)


def base_of(largest: ir.Value) -> ir.Value:
    """What a sum is relative to, at the insertion point: the largest term unless that is infinite."""
    zero, bound = (arith.constant(largest.type, ir.FloatAttr.get(largest.type, x)) for x in (0.0, inf))
    return arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(largest), bound), zero, largest)


def take_term(term: ir.Value, largest: ir.Value, total: ir.Value) -> list[ir.Value]:
    """The body of the reduction at the insertion point: the running values with a term more."""
    grown = arith.maximumf(term, largest)
    base = base_of(grown)
    before, new = math.exp(arith.subf(largest, base)), math.exp(arith.subf(term, base))
    return [grown, arith.addf(arith.mulf(total, before), new)]


def read_exponential_sum(block: ir.Block, inputs: int) -> ExponentialSum | None:
    """The reduction that a body makes, if it is this one; its first result's term is the first operand of the maximum."""
    running, end = list(block.arguments)[inputs:], terminator(block)
    if len(running) != 2 or len(end.operands) != 2 or any(not isinstance(v.type, ir.F32Type) for v in running):
        return None
    made = _made(block)
    if tuple(o.name for o in made) != _OPERATIONS:
        return None
    grown, size, infinite, base, first, before, second, new, scaled, total = made
    zero, bound = base.operands[1], infinite.operands[1]
    if constant_number(zero) != 0 or constant_number(bound) != inf:
        return None
    if ir.IntegerAttr(infinite.attributes["predicate"]).value != int(arith.CmpFPredicate.OEQ):
        return None
    term, (largest, kept) = grown.operands[0], running
    wanted = {
        grown: (term, largest), size: (grown.results[0],), infinite: (size.results[0], bound),
        base: (infinite.results[0], zero, grown.results[0]), first: (largest, base.results[0]), before: (first.results[0],),
        second: (term, base.results[0]), new: (second.results[0],), scaled: (kept, before.results[0]), total: (scaled.results[0], new.results[0]),
        end: (grown.results[0], total.results[0]),
    }
    uses = {largest: 2, kept: 1, grown.results[0]: 3, total.results[0]: 1}
    if any(list(op.operands) != list(given) for op, given in wanted.items()) or any(use_count(v) != n for v, n in uses.items()):
        return None
    return ExponentialSum(largest.type, ir.F64Type.get())


def to_first_term(block: ir.Block) -> None:
    """Make such a body yield its term, twice; the running values are not read then."""
    end = terminator(block)
    term = owner(end.operands[0]).operands[0]
    end.operands[0], end.operands[1] = term, term
    for op in reversed(_made(block)):
        op.erase()


def _made(block: ir.Block) -> list[ir.Operation]:
    """The last operations that are no constants, as many as such a body has for its running values."""
    return [o.operation for o in block.operations if o.operation.name != "arith.constant"][-1 - len(_OPERATIONS):-1]
