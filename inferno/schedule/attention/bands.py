"""Masks of attention that are conditions on the indices of queries and keys alone: causal, sliding windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from inferno.mlir import arith, ir
from inferno.schedule.analysis.expression_folding import linear, predicate_of
from inferno.schedule.analysis.expressions import CONTRACTION, READ, Expression, Expressions, Loop, Loops
from inferno.symbolic import Int, bounds, in_steps, maximum, minimum, product


@dataclass(frozen=True)
class Band:
    """The keys that a query sees by their numbers: ``query + low <= key <= query + high``; None where that end is open.

    Causal is ``high = 0`` (or keys - queries, where queries are the last ones); a sliding window of w is ``low = 1 - w``.
    """

    low: Int | None
    high: Int | None


@dataclass(frozen=True)
class Reach:
    """Keys that are told at the call: none is seen beyond ``element``, an integer that the kernel reads, plus loops times ``steps``, plus ``high``.
    Scores there are -inf in any case."""

    element: Expression
    steps: dict[Loop, Int]
    high: Int


# A masked score that is not -inf: what a 16-bit or 32-bit float has least (f16's is -65504, which scores may come near to).
_LITTLE = -1e37
_ORDERS = {  # (left, right, more): left times the one side and right times the other and ``more`` are at least 0
    "slt": (-1, 1, -1), "sle": (-1, 1, 0), "sgt": (1, -1, -1), "sge": (1, -1, 0),
}
_OPPOSITE = {"slt": "sge", "sge": "slt", "sle": "sgt", "sgt": "sle"}


def find_band(made: Expressions, scores: Expression, keys: Loops, shared: Sequence[Loop]) -> tuple[Expression, Band | None, list[Loop]]:
    """The scores without the mask that is a band, that band, and the loops that are queries; without a band the scores as they are, and no
    loops.  ``shared`` are those that may be queries.

    Masked scores are -inf, or so little that nothing is left of them where a row has others; what is added to such a score is not looked at,
    be it no number, as torch's own kernels have it.
    """
    peeled = _Peeler(made, keys, shared)
    inside = peeled.peel(scores)
    if peeled.queries is None:
        return scores, None, []
    band = Band(peeled.low, peeled.high)
    if peeled.finite and not (_reaches(band, product(q.size for q in peeled.queries), product(k.size for k in keys))
                              and _keeps_all(inside, {*peeled.queries, *keys})):
        return scores, None, []
    return inside, band, peeled.queries


def _keeps_all(scores: Expression, pairs: set[Loop]) -> bool:
    """Whether nothing else masks scores: then all of a row's keys in the band might be, and those outside of it would count.  A bias of each
    query and key is taken for none."""
    for e in scores.walk(lambda e: e.name == CONTRACTION):
        if e.name == READ and not pairs <= {loop for loop, _ in e.strides}:
            return False
        if e.name == "arith.select" and any(x.constant is not None and x.constant <= _LITTLE for x in e.operands[1:]):
            return False
    return True


class _Peeler:
    """Takes masks off scores; ``low`` and ``high`` are of those that were bands, ``finite`` says that one was less than -inf."""

    def __init__(self, made: Expressions, keys: Loops, shared: Sequence[Loop]) -> None:
        self.made, self.keys, self.shared = made, keys, shared
        self.low: Int | None = None
        self.high: Int | None = None
        self.queries: list[Loop] | None = None
        self.finite = False

    def peel(self, scores: Expression) -> Expression:
        """What the scores are inside of the bands."""
        if scores.name == "arith.select":
            return self.chosen(scores, self.peel)
        if scores.name == "arith.addf":
            for term, mask in (scores.operands, scores.operands[::-1]):
                if mask.name == "arith.select" and (left := self.chosen(mask, lambda inner: inner)) is not mask:
                    return self.added(self.peel(term), left)
            return self.added(*map(self.peel, scores.operands))
        return scores

    def added(self, a: Expression, b: Expression) -> Expression:
        return a if b.constant == 0 else self.made.make("arith.addf", a.type, [a, b])

    def chosen(self, select: Expression, go_on: Callable[[Expression], Expression]) -> Expression:
        """A choice between a value and next to nothing, without the part of its condition that is a band."""
        least = [e.constant is not None and e.constant <= _LITTLE for e in select.operands[1:]]
        if sum(least) != 1:
            return select
        holds = least[1]
        masks = _conjuncts(select.operands[0], holds)
        bands = [m for m in masks if (b := read_band(*m, self.keys, self.shared)) is not None and b[2] == (self.queries or b[2])]
        left = [m for m in masks if m not in bands]
        none = select.operands[2 if holds else 1]
        if left and none.constant != -inf:  # a row of which all is masked goes over keys outside of the band too
            return select
        for low, high, queries in (read_band(*m, self.keys, self.shared) for m in bands):
            if self.queries not in (None, queries):
                return select
            self.queries = queries
            self.low = low if self.low is None else self.low if low is None else maximum(self.low, low)
            self.high = high if self.high is None else self.high if high is None else minimum(self.high, high)
            self.finite |= none.constant != -inf
        inside = go_on(select.operands[1 if holds else 2])
        for condition, expected in left:
            inside = self.made.make("arith.select", select.type, [condition, *((inside, none) if expected else (none, inside))])
        return inside


def find_reach(scores: Expression, keys: Loops) -> Reach | None:
    """How far queries reach, if a mask says so by an element that is no key's own, such as a position in a cache."""
    for condition, holds in _needed(scores):
        found = _read_reach(condition, holds, keys)
        if found is not None:
            return found
    return None


def _needed(scores: Expression) -> list[tuple[Expression, bool]]:
    """Conditions without which a score is -inf."""
    if scores.name == "arith.addf":
        return [c for e in scores.operands for c in _needed(e)]
    if scores.name != "arith.select":
        return []
    for holds, none, other in ((True, 2, 1), (False, 1, 2)):
        if scores.operands[none].constant == -inf:
            return [*_conjuncts(scores.operands[0], holds), *_needed(scores.operands[other])]
    return []


def _read_reach(condition: Expression, holds: bool, keys: Loops) -> Reach | None:
    by, more = _sides(condition, holds, lambda e: linear(e, leaves=True)) or ({}, 0)
    elements = [e for e in by if isinstance(e, Expression)]
    if len(elements) != 1 or by[elements[0]] != 1 or elements[0].moves_with() & set(keys):
        return None
    steps = {loop: c for loop, c in by.items() if loop is not elements[0] and loop not in keys}
    if not keys or {loop: c for loop, c in by.items() if loop in keys} != _numbered(keys, -1) or any(bounds(c)[0] < 0 for c in steps.values()):
        return None
    return Reach(elements[0], steps, more)


def _numbered(loops: Sequence[Loop], sign: int) -> dict[Loop, int]:
    """Coefficients that make loops one number."""
    return {loop: sign * product(i.size for i in loops[n + 1:]) for n, loop in enumerate(loops)}


def _sides(condition: Expression, holds: bool, read: Callable[[Expression], tuple | None]) -> tuple[dict, Int] | None:
    """A comparison of integers as a sum that is at least 0: coefficients, and a constant."""
    if condition.name != "arith.cmpi":
        return None
    name = predicate_of(condition)
    sides = [read(e) for e in condition.operands]
    if name not in _ORDERS or None in sides:
        return None
    left, right, more = _ORDERS[name if holds else _OPPOSITE[name]]
    by: dict = {}
    for factor, (coefficients, constant) in zip((left, right), sides):
        more += factor * constant
        for loop, c in coefficients.items():
            by[loop] = by.get(loop, 0) + factor * c
    return {loop: c for loop, c in by.items() if c != 0}, more


def _reaches(band: Band, queries: Int, keys: Int) -> bool:
    """Whether every query sees a key."""
    low, high = (-queries if band.low is None else band.low), (keys if band.high is None else band.high)
    return all(bounds(x)[0] >= 0 for x in (high - low, high, keys - queries - low))


def compares(expression: Expression, predicate: arith.CmpFPredicate) -> bool:
    """Whether it is a comparison of floats by this predicate."""
    return expression.name == "arith.cmpf" and ir.IntegerAttr(expression.op.attributes["predicate"]).value == predicate.value


def _conjuncts(condition: Expression, holds: bool) -> list[tuple[Expression, bool]]:
    """What all has to hold, or not to hold, for the condition to be ``holds``."""
    if condition.name == ("arith.andi" if holds else "arith.ori"):
        return [c for e in condition.operands for c in _conjuncts(e, holds)]
    if condition.name == "arith.xori":
        flipped = [e for e in condition.operands if e.constant is None]
        if len(flipped) == 1 and next(e.constant for e in condition.operands if e is not flipped[0]):
            return _conjuncts(flipped[0], not holds)
    return [(condition, holds)]


def read_band(condition: Expression, holds: bool, keys: Loops, shared: Sequence[Loop]) -> tuple[Int | None, Int | None, list[Loop]] | None:
    """(low, high, the loops of queries) of a condition, if it is one of a band."""
    found = _sides(condition, holds, linear)
    if found is None:
        return None
    by, more = found
    steps = {by[loop]: loop for loop in by if loop not in keys}
    if not steps or not keys or any(loop not in shared for loop in steps.values()):
        return None
    sign = 1 if by.get(keys[-1]) == 1 else -1
    queries = [steps[s] for s in reversed(in_steps(steps) or ())]
    if by != _numbered(keys, sign) | _numbered(queries, -sign):
        return None
    return (-more, None, queries) if sign > 0 else (None, more, queries)
