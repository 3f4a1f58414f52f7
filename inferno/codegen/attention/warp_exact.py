"""The products of ``warp_products`` once more, number by number, where one of them is not finite.

What the nearest TF32 number leaves of an infinite one, or of one that is nearly as large, is no finite number, nor is then any product of it.  So where a
product is no number, which is rare, a block's are multiplied as float32: infinities and NaN come out where float32 products have them.
"""

from collections.abc import Sequence
from functools import reduce

from inferno.codegen.attention.softmax import fma
from inferno.codegen.attention.warp_products import WarpProducts
from inferno.codegen.builders.elements import lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import integer_type, load_shared, loop, operation
from inferno.codegen.nvvm.mbarriers import Position
from inferno.mlir import arith, ir, scf
from inferno.passes.generics import float32


class ExactProducts:
    """Of the same thread."""

    def __init__(self, products: WarpProducts) -> None:
        self.products, self.frame, self.words = products, products.frame, products.words

    def where_needed(self, scores: Sequence[ir.Value], keys: Position | None, sums: Sequence[ir.Value], values: Position | None, weights: Sequence[ir.Value]):
        """The scores of a slot of keys and the sums of one of values: those that were multiplied, or where a thread of the warp has something that is no
        number, those of float32."""
        numbers, halves = [*scores, *sums], self.products.halves
        # Of values a row tells, since what is no number is none with any weight.
        looked_at = [*scores, *(x for i in range(0, len(sums), 2 * halves) for x in sums[i:i + 2])]
        pairs = [arith.cmpf(arith.CmpFPredicate.UNO, x, y) for x, y in zip(looked_at[::2], looked_at[1::2])]
        some = operation(
            "nvvm.vote.sync", [integer_type(1)], [self.words.value(-1), reduce(arith.ori, pairs)], kind="#nvvm<vote_sync_kind any>",
        )
        op = scf.IfOp(some, [x.type for x in numbers], has_else=True)
        with ir.InsertionPoint(op.then_block):
            made = [] if keys is None else self.scores(keys, len(scores))
            scf.yield_([*made, *([] if values is None else self.sums(values, weights))])
        with ir.InsertionPoint(op.else_block):
            scf.yield_(numbers)
        found = list(op.results)
        return found[:len(scores)], found[len(scores):]

    def scores(self, at: Position, count: int) -> list[ir.Value]:
        p, f, words, keys = self.products, self.frame, self.words, self.frame.schedule.keys
        tiles, rows = range(count // 4), f.schedule.warp_rows
        even = words.shl(p.quad, 1)
        slot = words.add(f.place(f.layout.keys, f.k_bytes, at.slot), words.shl(words.add(p.first, even), 7))

        def step(chunk: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            line, inside, sums = words.shr(chunk, 3), words.mask(chunk, 7), list(sums)
            of_queries = words.add(f.shared, words.add(words.mul(line, rows * 128), words.shl(words.xor(inside, p.group), 4)))
            queries = [p.load(of_queries, p.group, half) for half in range(p.halves)]
            place = words.add(slot, words.mul(line, keys * 128))
            for tile in tiles:
                for odd in range(2):
                    at = words.add(place, words.add(128 * odd, words.shl(words.xor(words.xor(inside, even), odd), 4)))
                    for half, of_row in enumerate(queries):
                        i = 4 * tile + 2 * half + odd
                        sums[i] = reduce(lambda total, xy: fma(*xy, total), zip(of_row, p.load(at, 0, tile)), sums[i])
            return sums

        return loop(words, 0, 8 * p.depth, 1, [float32(0.0)] * count, step)

    def sums(self, at: Position, weights: Sequence[ir.Value]) -> list[ir.Value]:
        """A thread has the weights of two keys of each 8; the others' come from the threads of its rows."""
        p, words = self.products, self.words
        sums = [float32(0.0)] * p.sums
        for tile in range(len(weights) // 4):
            own = weights[4 * tile:4 * tile + 4]

            def step(source: ir.Value, *sums: ir.Value, tile: int = tile, own: Sequence[ir.Value] = own) -> list[ir.Value]:
                sums = list(sums)
                lane = words.add(words.mask(p.lane, 28), source)
                place = self.rows_of(at, source, tile)
                for odd in range(2):
                    given = [self.of_lane(own[2 * half + odd], lane) for half in range(p.halves)]
                    for line in range(p.width):
                        for pair in range(2):
                            found = lanes_of(load_shared(words, place(line, odd, pair), ir.F32Type.get(), 4))
                            for column, x in enumerate(found):
                                for half, w in enumerate(given):
                                    i = ((4 * line + column) * p.halves + half) * 2 + pair
                                    sums[i] = fma(w, x, sums[i])
                return sums

            sums = loop(words, 0, 4, 1, sums, step)
        return sums

    def rows_of(self, at: Position, source: ir.Value, tile: int):
        """Where this thread's columns are, of lines and of the two rows whose weights a lane has: groups ``2 * quad`` and the next one's."""
        p, f, words = self.products, self.frame, self.words
        row = words.shl(source, 1)
        slot = words.add(f.place(f.layout.values, f.v_bytes, at.slot), words.shl(words.add(p.first, row), 7))
        chunk = words.xor(row, words.shl(p.quad, 1))

        def place(line: int, odd: int, pair: int) -> Integer:
            inside = words.shl(words.xor(chunk, odd ^ pair), 4)
            return words.add(words.add(slot, inside), line * f.schedule.keys * 128 + 128 * odd + 1024 * tile)

        return place

    def of_lane(self, value: ir.Value, lane: ir.Value) -> ir.Value:
        words = self.words
        bits = arith.bitcast(words.type, value)
        found = operation("nvvm.shfl.sync", [words.type], [words.value(-1), bits, lane, words.value(31)], kind="#nvvm<shfl_kind idx>")
        return arith.bitcast(value.type, found)
