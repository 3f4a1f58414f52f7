"""Scans across the lanes of a warp by shuffles; lanes are adjacent, or ``step`` apart, and powers of two."""

from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.shuffles import from_before
from inferno.mlir import arith, ir
from inferno.schedule.analysis.combiners import Combiner
from inferno.target import WARP



def running(combiner: Combiner, terms: list[ir.Value]) -> list[ir.Value]:
    """Of a thread's neighbours."""
    found = terms[:1]
    for term in terms[1:]:
        found.append(combiner.combine(found[-1], term))
    return found


def scan_lanes(ints: Integers, combiner: Combiner, values: list[ir.Value], lane: Integer, lanes: int, step: int = 1) -> list[ir.Value]:
    """Of neighbours ``step`` lanes apart, of which this one is number ``lane`` of ``lanes``."""
    distance = 1
    while distance < lanes:
        has = ints.less(distance - 1, lane)
        values = [arith.select(has, combiner.combine(from_before(v, distance * step), v), v) for v in values]
        distance *= 2
    return values


def before(ints: Integers, combiner: Combiner, values: list[ir.Value], lane: Integer, step: int = 1) -> list[ir.Value]:
    """Each the value of the lane in front of this one, nothing for the first."""
    has = ints.less(0, lane)
    return [arith.select(has, from_before(v, step), combiner.identity(v.type)) for v in values]


def last_lane(ints: Integers, thread: Integer, lane: Integer, lanes: int) -> int | ir.Value:
    """The number in its warp of the last one of ``lanes`` neighbours, of which this thread is number ``lane``."""
    return WARP - 1 if lanes == WARP else ints.word(ints.add(ints.sub(ints.rem(thread, WARP), lane), lanes - 1))
