"""Tiles of items that a block sorts: each thread sorts some in registers, then runs of twice the length are merged through shared memory.

Every thread finds by a search how many items of either run go before its own part of the merged run, and merges its part alone.
"""

from dataclasses import dataclass

from inferno.codegen.integers import Integer, Integers
from inferno.codegen.sort_keys import Item, choose, in_order, less, network
from inferno.mlir import arith, gpu, ir, memref, scf


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
            items = self.merge(items, run)
            run *= 2
        return items

    def put_all(self, items: list[Item]) -> None:
        first = self.ints.mul(self.thread, self.items)
        for i, item in enumerate(items):
            self.put(self.ints.add(first, i), item)
        gpu.barrier()

    def merge(self, items: list[Item], run: int) -> list[Item]:
        """Merge neighbouring runs of ``run`` items."""
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
    at_a, at_b = ints.add(a[0], taken), ints.sub(ints.add(b[0], before), taken)
    next_a, next_b = tiles.get(at_a), tiles.get(at_b)
    found = []
    for i in range(count):
        takes = arith.andi(ints.less(at_a, a[1]), arith.ori(less(next_a, next_b), not_(ints.less(at_b, b[1]))))
        found.append(choose(takes, next_a, next_b))
        if i + 1 < count:
            at_a, at_b = (arith.addi(ints.value(x), arith.extui(ints.type, c)) for x, c in ((at_a, takes), (at_b, not_(takes))))
            loaded = tiles.get(arith.select(takes, at_a, at_b))
            next_a, next_b = choose(takes, loaded, next_a), choose(takes, next_b, loaded)
    return found


def split(ints: Integers, get, a: tuple[Integer, Integer], b: tuple[Integer, Integer], before: Integer, longest: int) -> ir.Value:
    """How many items of run ``a`` are among the first ``before`` of it and ``b`` merged."""
    size_a, size_b = ints.sub(a[1], a[0]), ints.sub(b[1], b[0])
    low = ints.sub(before, ints.min(before, size_b))
    high = ints.min(before, size_a)
    op = scf.ForOp(ints.value(0), ints.value(longest.bit_length()), ints.value(1), [ints.value(low), ints.value(high)])
    with ir.InsertionPoint(op.body):
        low, high = op.inner_iter_args
        middle = ints.div(ints.add(low, high), 2)
        open_ = ints.less(low, high)
        # Of a closed interval the items are not used, and may be the neighbours of a run.
        yes = less(get(ints.add(a[0], middle)), get(ints.sub(ints.add(b[0], before), ints.add(middle, 1))))
        scf.yield_([
            arith.select(arith.andi(open_, yes), ints.value(ints.add(middle, 1)), low), arith.select(arith.andi(open_, not_(yes)), ints.value(middle), high),
        ])
    return op.results[0]


def not_(condition: ir.Value) -> ir.Value:
    return arith.xori(condition, arith.constant(ir.IntegerType.get_signless(1), 1))


def _gap(items: int) -> int:
    return max(8, items)
