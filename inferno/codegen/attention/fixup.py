"""Combine what two neighbouring blocks have of the sums of a tile in memory: the second one to arrive adds up, and nobody waits."""

from collections.abc import Callable, Sequence

from inferno.codegen.attention.cluster_shares import load_floats
from inferno.codegen.attention.even_shares import EvenTiles
from inferno.codegen.attention.softmax import HALVES, Softmax, fma, maximum
from inferno.codegen.attention.split_keys import arrives_last, begin_count
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import integer_type, store, widen_pointer
from inferno.mlir import arith, ir, scf


class Meeting:
    """Of consumer ``number`` with that of the neighbour who has the rest of a tile.  ``scratch``: where both leave what they have in registers, thread by
    thread, and counters of those who have; one of each for every two neighbours."""

    def __init__(self, tiles: EvenTiles, softmax: Softmax, scratch: Sequence[ir.Value], consumers: int, number: Integer, member: Integer) -> None:
        self.tiles, self.words, self.softmax = tiles, tiles.words, softmax
        self.sums, self.counters = scratch
        self.consumers, self.number, self.member = consumers, number, member

    @staticmethod
    def numbers(width: int) -> int:
        """Of a thread: its sums and for two rows the largest score and the sum of weights."""
        return width // 2 + 4

    def begin(self) -> None:
        """By the thread that counts."""
        for neighbour in (0, 1):
            begin_count(self.counter(self.words.add(self.tiles.worker, neighbour)))

    def meet(
        self, begin: Integer, end: Integer, state: Sequence[ir.Value], flag: Integer, barrier: Callable[[], None],
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Whether this one is to store a tile, and ``state`` of all of its keys: sums, and of both rows the largest scores and the sums of weights.
        ``flag``: a word of shared memory."""
        words = self.words
        i1, f32 = integer_type(1), ir.F32Type.get()
        alone = words.equal(words.sub(end, begin), self.tiles.blocks)
        op = scf.IfOp(alone, [i1] + [f32] * len(state), has_else=True)
        with ir.InsertionPoint(op.then_block):
            scf.yield_([arith.constant(i1, 1), *state])
        with ir.InsertionPoint(op.else_block):
            first = words.equal(begin, 0)  # this worker has the tile's first blocks, and the next one the others
            bound = words.select(first, words.add(self.tiles.worker, 1), self.tiles.worker)
            own = words.select(first, 0, 1)
            at = [self.pointers(bound, part, len(state)) for part in (own, 0, 1)]
            for i, pointer in enumerate(at[0]):
                store(join(state[4 * i:4 * i + 4]), pointer, 16)
            last = arrives_last(words, self.counter(bound), 1, self.member, flag, barrier)
            parts = [[x for pointer in each for x in lanes_of(load_floats(pointer, 4))] for each in at[1:]]
            scf.yield_([last, *self.merge(parts)])
        stores, *found = op.results
        return stores, list(found)

    def merge(self, parts: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
        """Always in the same order: the same bits whichever is last."""
        count, factors, largest = len(parts[0]) - 4, [], []
        for half in HALVES:
            both = [p[count + half] for p in parts]
            largest.append(maximum(*both))
            base = self.softmax.base(largest[half])
            factors.append([self.softmax.decay(x, base) for x in both])

        def add(i: int, half: int) -> ir.Value:
            one, other = factors[half]
            return fma(parts[1][i], other, arith.mulf(parts[0][i], one))

        return [*(add(i, i >> 1 & 1) for i in range(count)), *largest, *(add(count + 2 + half, half) for half in HALVES)]

    def counter(self, bound: Integer) -> ir.Value:
        words = self.words
        return widen_pointer(words, self.counters, words.add(words.mul(bound, self.consumers), self.number), 0, integer_type(64))

    def pointers(self, bound: Integer, part: Integer, count: int) -> list[ir.Value]:
        """Where this thread's numbers are, by fours: beside those of its neighbours."""
        words = self.words
        place = words.add(words.shl(words.add(words.mul(bound, self.consumers), self.number), 1), part)
        first = words.add(words.mul(place, 128 * count), words.shl(self.member, 2))
        return [widen_pointer(words, self.sums, first, 16 * 128 * i, ir.F32Type.get()) for i in range(count // 4)]
