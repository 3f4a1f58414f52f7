"""Runs of items that lanes of a warp have in registers, merged by exchanges of registers alone: a bitonic merge (Batcher, 1968)."""

from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.shuffles import exchange
from inferno.codegen.sorts.keys import Item, choose, in_order, less
from inferno.mlir import arith
from inferno.target import WARP

# Items of a thread: 32 rows of 32 in float32, four a thread, took an H200 2.8 us through shared memory and an H100 2.0 so.  More, as large sorts have, compare
# more within a thread than it takes to look for their places, and were not timed.
_ITEMS = 4


def merges_lanes(run: int, items: int) -> bool:
    """Whether runs of ``run`` items, of which a thread has ``items``, are merged so and not through shared memory: few, where the lanes of two are in one
    warp."""
    return items <= _ITEMS and 2 * run // items <= WARP


def merge_lanes(ints: Integers, thread: Integer, items: list[Item], run: int) -> list[Item]:
    """Merge neighbouring runs of ``run`` items, whose i-th item of a thread is the run's i-th from its first one on."""
    count = len(items)
    lanes = 2 * run // count
    # The first half of what is merged keeps the smaller of two items as far from the middle; then each half does so with its own halves.
    items = _kept(ints, thread, items, items[::-1], lanes - 1, lanes // 2)
    distance = lanes // 4
    while distance:
        items = _kept(ints, thread, items, items, distance, distance)
        distance //= 2
    distance = count // 2
    while distance:
        for i in (i for i in range(count) if not i & distance):
            items[i], items[i + distance] = in_order(items[i], items[i + distance])
        distance //= 2
    return items


def _kept(ints: Integers, thread: Integer, items: list[Item], given: list[Item], away: int, bit: int) -> list[Item]:
    """Of each item and what the lane ``away`` has ``given`` for it: the smaller one where the lane's number has no such ``bit``."""
    theirs = [tuple(exchange(x, away) for x in item) for item in given]
    upper = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(ints.value(thread), ints.value(bit)), ints.value(0))
    return [choose(arith.xori(less(their, mine), upper), their, mine) for mine, their in zip(items, theirs)]
