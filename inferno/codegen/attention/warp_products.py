"""Products of attention in float32 by mma.sync, of a warp that has keys of its own.

A number is the sum of two TF32 numbers, the nearest one and what that leaves, and a product of two numbers is three of these (Ootomo, Yokota, "Recovering
single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022): what is left out is as small as float32's
rounding.  The tensor core multiplies 16 rows; of 8 both parts are these, whose products with both parts of the other factor are two.  Keys and values are
cut in registers, where each of them is once, and queries and weights, the lhs, in front.

Terms and columns have any order that both factors agree on.  A thread has of a key the 16 bytes of which four lanes have 64 neighbours' places apart, and of
a value those of four neighbouring columns; so that eight lanes read 128 bytes from different banks.
"""

from collections.abc import Sequence
from typing import NamedTuple

from inferno.codegen.attention.frame import Frame
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.mma_tile import Multiplier
from inferno.codegen.nvvm.builder import integer_type, load_shared, shared_pointer, store
from inferno.codegen.nvvm.mbarriers import Position
from inferno.mlir import arith, ir
from inferno.passes.generics import float32
from inferno.schedule.attention.schedule import WARPS, lines
from inferno.symbolic import ceildiv

_HALF, _HIGH = 1 << 12, ~((1 << 13) - 1)  # of the last bit that a TF32 number has, and all that it has


class Cut(NamedTuple):
    """The bits of both TF32 numbers of one; of the low one the tensor core does not look at the last bits."""

    high: ir.Value
    low: ir.Value


def cut(x: ir.Value) -> Cut:
    i32 = integer_type(32)
    bits = arith.addi(arith.bitcast(i32, x), arith.constant(i32, _HALF))
    high = arith.andi(bits, arith.constant(i32, _HIGH))
    return Cut(high, arith.bitcast(i32, arith.subf(x, arith.bitcast(x.type, high))))


class WarpProducts:
    """A thread is of ``group`` 0 to 7, which are rows, keys and neighbouring columns, and ``quad`` 0 to 3."""

    def __init__(self, frame: Frame, warp: Integer, lane: Integer) -> None:
        self.frame, self.words, self.warp, self.lane = frame, frame.words, warp, lane
        s, words = frame.schedule, frame.words
        self.halves = len([half for half in (0, 1) if 8 * half < s.warp_rows])
        self.quad, self.group = words.mask(lane, 3), words.shr(lane, 2)
        self.first = words.mul(warp, s.warp_keys)
        self.depth, self.width = (lines(axis.size, s.line) for axis in (frame.tiling.depth, frame.tiling.width))
        self.multiplier = Multiplier(("tf32", "tf32"), ir.F32Type.get(), False)
        self.chunk = words.xor(words.shl(self.quad, 1), self.group)  # of a line, where rows are those of groups or columns are
        self.factors = words.add(words.add(frame.shared, frame.layout.factors), words.shl(lane, 4))

    @property
    def sums(self) -> int:
        """Numbers that a thread has of the sums of values: of each line four groups of 8 columns, of 8 rows two columns each."""
        return self.width * 4 * 2 * self.halves

    # The lhs of scores.

    def prepare(self) -> None:
        """The tile's queries as factors, by all warps; a barrier is to follow."""
        words, count = self.words, 2 * self.depth
        for turn in range(ceildiv(count, WARPS)):
            chunk = words.add(self.warp, WARPS * turn)
            if WARPS * (turn + 1) <= count:
                self.prepare_chunk(chunk)
            else:
                with only_if(words.less(chunk, count)):
                    self.prepare_chunk(chunk)

    def prepare_chunk(self, chunk: Integer) -> None:
        """Of two products with 8 terms: half of a line."""
        words, rows = self.words, self.frame.schedule.warp_rows
        line = words.add(self.frame.shared, words.mul(words.shr(chunk, 1), rows * 128))
        at = words.add(line, words.shl(words.xor(self.chunk, words.mask(chunk, 1)), 4))
        found = [self.load(at, self.group, half) for half in range(self.halves)]
        for i in range(2):
            product = words.add(words.shl(chunk, 1), i)
            for n, registers in enumerate(self.lhs([cut(of_row[2 * i + e]) for e in range(2) for of_row in found])):
                to = words.add(self.factors, words.add(words.mul(product, 512 * self.halves), 512 * n))
                store(join(registers), shared_pointer(words, to), 16)

    def lhs(self, parts: Sequence[Cut]) -> list[list[ir.Value]]:
        """The registers of numbers of each row and two terms, those of a term one behind the other: of high parts and of low ones, or both together."""
        high, low = ([getattr(p, name) for p in parts] for name in ("high", "low"))
        return [high, low] if self.halves == 2 else [[high[0], low[0], high[1], low[1]]]

    def queries(self, product: int) -> list[list[ir.Value]]:
        """The lhs of one product."""
        words, at = self.words, 512 * self.halves * product
        return [lanes_of(load_shared(words, words.add(self.factors, at + 512 * n), words.type, 4)) for n in range(self.halves)]

    # Products.

    def scores(self, at: Position) -> list[ir.Value]:
        """The tile's queries times this warp's keys of a slot.  Small products are sums of their own, and large ones two of each line, since what the tensor
        core cuts off of sums adds up: 128 columns in two chains of 8 have twice the error (a model says 2.0e-7 of a score, and 1.2e-7)."""
        f, words, keys = self.frame, self.words, self.frame.schedule.keys
        slot = words.add(f.place(f.layout.keys, f.k_bytes, at.slot), words.shl(words.add(self.first, self.group), 7))
        places = [words.add(slot, words.shl(words.xor(self.chunk, half), 4)) for half in range(2)]
        tiles = range(f.schedule.warp_keys // 8)
        small = [[self.zeros() for _ in range(2)] for _ in tiles]
        totals = [None for _ in tiles]
        for line in range(self.depth):
            large = [[self.zeros() for _ in range(2)] for _ in tiles]
            for half in range(2):
                factors = [self.queries(4 * line + 2 * half + i) for i in range(2)]
                for tile in tiles:
                    numbers = [cut(x) for x in self.load(words.add(places[half], line * keys * 128), 0, tile)]
                    for i, lhs in enumerate(factors):
                        high, low = zip(*numbers[2 * i:2 * i + 2])
                        for chain, (of_queries, of_keys) in enumerate([(lhs[0], low)] if self.halves == 1 else [(lhs[0], low), (lhs[1], high)], i):
                            small[tile][chain % 2] = self.multiplier.multiply(small[tile][chain % 2], of_queries, of_keys)
                        large[tile][i] = self.multiplier.multiply(large[tile][i], lhs[0], high)
            for tile in tiles:
                made = list(map(arith.addf, *large[tile]))
                totals[tile] = made if line == 0 else list(map(arith.addf, totals[tile], made))
        found = []
        for tile in tiles:
            sums = list(map(arith.addf, totals[tile], map(arith.addf, *small[tile])))
            found += sums if self.halves == 2 else [*self.both(sums), float32(0.0), float32(0.0)]
        return found

    @staticmethod
    def both(sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Of 8 rows, whose low parts are 8 others."""
        return [arith.addf(sums[2 + i], sums[i]) for i in range(2)]

    def values(self, at: Position, weights: Sequence[ir.Value]) -> list[ir.Value]:
        """The weights times the slot's values."""
        words, parts = self.words, [cut(w) for w in weights]
        tiles, found = range(len(weights) // 4), []
        order, products = ((0, 2, 1, 3), ((0, 1), (1, 0), (0, 0))) if self.halves == 2 else ((0, 1), ((0, 1), (0, 0)))
        lhs = [self.lhs([parts[4 * tile + i] for i in order]) for tile in tiles]
        places = self.value_places(at, words.shl(self.quad, 1))
        for line in range(self.width):
            rows = [[[cut(x) for x in self.load(place, line * self.frame.schedule.keys, tile)] for place in places] for tile in tiles]
            for column in range(4):
                sums = self.zeros()
                for of_weights, of_values in products:
                    for tile in tiles:
                        sums = self.multiplier.multiply(sums, lhs[tile][of_weights], tuple(row[column][of_values] for row in rows[tile]))
                found += sums if self.halves == 2 else self.both(sums)
        return found

    def value_places(self, at: Position, row: Integer) -> list[Integer]:
        """Where two rows of this warp's values of a slot have this thread's columns, the first of which, even, is ``row`` behind the warp's first."""
        f, words = self.frame, self.words
        slot = words.add(f.place(f.layout.values, f.v_bytes, at.slot), words.shl(words.add(self.first, row), 7))
        chunk = words.xor(row, self.group)
        return [words.add(slot, words.add(128 * odd, words.shl(words.xor(chunk, odd), 4))) for odd in range(2)]

    def load(self, at: Integer, row: Integer, tile: int) -> list[ir.Value]:
        """Four numbers, so many rows and groups of 8 behind a place."""
        words = self.words
        return lanes_of(load_shared(words, words.add(words.add(at, words.shl(row, 7)), 1024 * tile), ir.F32Type.get(), 4))

    @staticmethod
    def zeros() -> list[ir.Value]:
        return [float32(0.0)] * 4
