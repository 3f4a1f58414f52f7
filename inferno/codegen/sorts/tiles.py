"""Tiles of items that a block sorts: each thread sorts some in registers, then runs are merged to ones of twice the length, by lanes of a warp or through
shared memory.

There every thread finds by a search how many items of either run go before its own part of the merged run, and merges its part alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.sorts.keys import Item, choose, in_order, less, network
from inferno.codegen.sorts.lanes import merge_lanes, merges_lanes
from inferno.mlir import arith, gpu, ir, memref


@dataclass(frozen=True)
class Tiles:
    """``shared``: an array for each integer of an item, of ``size(threads, items)`` elements."""

    ints: Integers
    shared: list[ir.Value]
    thread: Integer
    threads: int
    items: int

    @staticmethod
    def size(threads: int, items: int) -> int:
        return threads * items + threads * items // _gap(items) + 1

    def put(self, place: Integer, item: Item) -> None:
        at = [self.ints.index(self._physical(place))]
        for array, word in zip(self.shared, item):
            memref.store(word, array, at)

    def get(self, place: Integer) -> Item:
        at = [self.ints.index(self._physical(place))]
        return tuple(memref.load(array, at) for array in self.shared)

    def _physical(self, place: Integer) -> Integer:
        """Neighbouring threads' items are not in the same banks."""
        return self.ints.add(place, self.ints.div(place, _gap(self.items)))

    def sort(self, items: list[Item], length: int) -> list[Item]:
        """Sort runs of ``length``, which neighbouring threads have; the i-th item of a thread comes to be the run's i-th from its first one on."""
        for low, high in network(len(items)):
            items[low], items[high] = in_order(items[low], items[high])
        run = self.items
        while run < length:
            items = merge_lanes(self.ints, self.thread, items, run) if merges_lanes(run, self.items) else self.merge(items, run)
            run *= 2
        return items

    def put_all(self, items: list[Item]) -> None:
        first = self.ints.mul(self.thread, self.items)
        for i, item in enumerate(items):
            self.put(self.ints.add(first, i), item)
        gpu.barrier()

    def merge(self, items: list[Item], run: int) -> list[Item]:
        """Merge neighbouring runs of ``run`` items through shared memory."""
        ints = self.ints
        self.put_all(items)
        first = ints.mul(self.thread, self.items)
        before = ints.rem(first, 2 * run)
        base = ints.sub(first, before)
        merged = merge_part(self, (base, ints.add(base, run)), (ints.add(base, run), ints.add(base, 2 * run)), before, run, self.items)
        gpu.barrier()
        return merged


def merge_part(tiles: Tiles, a: tuple[Integer, Integer], b: tuple[Integer, Integer], before: Integer, longest: int, count: int) -> list[Item]:
    """The ``count`` items behind the first ``before`` of two runs (begin, end) merged; neither is longer than ``longest``."""
    ints = tiles.ints
    taken = split(ints, tiles.get, a, b, before, longest)
    at = ints.value(ints.add(a[0], taken))
    both = ints.add(ints.add(a[0], b[0]), before)  # the places in both runs, added

    def load(place: Integer, end: Integer) -> Item:
        """The item; behind a run's end one that is behind all.  Items that are the same as that one may be taken for it, and places go on."""
        item = tiles.get(ints.min(place, end))
        return choose(ints.less(place, end), item, tuple(arith.constant(x.type, -1) for x in item))

    next_a, next_b = load(at, a[1]), load(ints.sub(both, at), b[1])
    found = []
    for i in range(count):
        takes = less(next_a, next_b)
        found.append(choose(takes, next_a, next_b))
        if i + 1 < count:
            onwards = ints.value(ints.add(at, 1))
            other = ints.value(ints.sub(ints.add(both, i + 1), at))
            item = load(arith.select(takes, onwards, other), arith.select(takes, ints.value(a[1]), ints.value(b[1])))
            next_a, next_b = choose(takes, item, next_a), choose(takes, next_b, item)
            at = arith.select(takes, onwards, at)
    return found


def split(ints: Integers, get: Callable[[Integer], Item], a: tuple[Integer, Integer], b: tuple[Integer, Integer], before: Integer, longest: int) -> Integer:
    """How many items of run ``a`` are among the first ``before`` of it and ``b`` merged.  ``get`` may be asked for the item behind a run's end."""
    least = ints.sub(before, ints.min(before, ints.sub(b[1], b[0])))
    most = ints.min(before, ints.sub(a[1], a[0]))
    taken, both = least, ints.add(b[0], before)
    one = ints.value(1)
    for step in (1 << i for i in reversed(range(longest.bit_length()))):
        more = ints.min(ints.add(taken, step), most)
        last = ints.sub(arith.maxui(ints.value(more), one), 1)
        taken = arith.select(less(get(ints.add(a[0], last)), get(ints.sub(both, more))), ints.value(more), ints.value(taken))
    return taken


def _gap(items: int) -> int:
    return max(8, items)
