"""Which weights of a consumer's block dropout keeps: random numbers in registers, in the layout in which the tensor core leaves the scores.

A block of Philox has the numbers of eight scores (``philox.score``), which one thread has where rows are queries: each block is computed once.  Where rows are
keys two threads share eight such blocks' scores; each computes one of two, and tells the other one what half of it is.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inferno.codegen.attention.softmax import HALVES
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.row_epilogue import exchange
from inferno.codegen.nvvm.builder import Words, integer_type, opaque, operation
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, ir, llvm
from inferno.passes.draw_numbers import IrWords
from inferno.passes.generics import float32
from inferno.philox import score_words
from inferno.schedule.attention.dropout import Dropout
from inferno.schedule.tiles.tiling import Axis


class Drops:
    """Of scores at positions of ``grid``; ``transposed``: rows are keys and columns queries."""

    def __init__(self, words: Words, dropout: Dropout, grid: Sequence[Axis], tensors: Mapping[int, Elements], transposed: bool = False) -> None:
        self.words, self.dropout, self.grid, self.transposed = words, dropout, grid, transposed
        self.seed = _Words().split(tensors[dropout.seed.argument].read(0))

    def kept(self, grid: Sequence[Integer], row: Integer, column: Integer, count: int) -> list[ir.Value]:
        """Of ``count`` scores whether each is kept.  The thread's first one is at ``row`` and ``column``, whose blocks begin with multiples of 16."""
        words, head = self.words, self.dropout.head
        of_head = words.value(words.dot(list(grid), [a.stride(head) for a in self.grid], head.offset))
        query, key = (column, row) if self.transposed else (row, column)
        tile, pair = words.mul(words.shr(query, 4), 8), words.add(words.mul(words.shr(key, 4), 4), words.shr(words.mask(key, 7), 1))
        first = words.add(tile, words.mask(query, 7))
        seed = [opaque(words, x, words.value(column)) for x in self.seed]  # what keys of rounds follow from it takes no registers from block to block
        found: list[Any] = [None] * count
        for at in range(count // 8):
            if self.transposed:
                drawn = self.shared(seed, of_head, words.add(first, 8 * at), pair, key)
            else:
                drawn = score_words(_Words(), seed, of_head, words.value(first), words.value(words.add(pair, 4 * at)))
            for i, word in enumerate(drawn):
                odd, second = divmod(i, 2)
                for upper in HALVES:
                    column_half, row_half, lane = (second, upper, odd) if self.transposed else (upper, second, odd)
                    found[4 * (2 * at + column_half) + 2 * row_half + lane] = self.is_kept(word, upper)
        return found

    def shared(self, seed: Sequence[ir.Value], head: ir.Value, first: Integer, pair: Integer, key: Integer) -> list[ir.Value]:
        """The words of the thread's own key, and 8 more: of the first query, that and 8 more, and of the second one.  The thread of the other key of the pair
        has the block of the one and this one that of the other."""
        words = self.words
        odd = words.equal(words.mask(key, 1), 1)
        row = words.add(first, words.mask(key, 1))
        drawn = score_words(_Words(), seed, head, words.value(row), words.value(pair))
        others = [exchange(words, arith.select(odd, drawn[i], drawn[2 + i]), 4) for i in HALVES]
        return [*(arith.select(odd, others[i], drawn[i]) for i in HALVES), *(arith.select(odd, drawn[2 + i], others[i]) for i in HALVES)]

    def is_kept(self, word: ir.Value, upper: int) -> ir.Value:
        words, limit = self.words, self.dropout.limit
        return words.less(word if upper else words.shl(word, 16), (limit << 16) - (1 << 32 if limit >= 1 << 15 else 0))

    def signed(self, weights: Sequence[ir.Value], kept: Sequence[ir.Value]) -> list[ir.Value]:
        """Weights, of which those that are dropped are negative: so both are in one register.  What is made of them is multiplied and added, which an H200 does
        at twice the rate at which it compares and selects."""
        return [arith.select(k, w, arith.negf(w)) for k, w in zip(kept, weights)]

    def doubled(self, signed: Sequence[ir.Value]) -> list[ir.Value]:
        """Twice the weights that are kept, and 0."""
        return [arith.addf(s, magnitude(s)) for s in signed]

    def scaled(self, signed: Sequence[ir.Value], values: Sequence[ir.Value]) -> list[ir.Value]:
        """The values of weights that are kept, scaled, and 0; 0 where a weight is, too."""
        f32, most, scale = ir.F32Type.get(), float32(2.0**126), float32(self.dropout.scale)
        ones = [llvm.inline_asm(f32, [s, most], "mul.sat.f32 $0, $1, $2;", "=f,f,f") for s in signed]
        return [arith.mulf(v, arith.mulf(one, scale)) for one, v in zip(ones, values)]


def magnitude(x: ir.Value) -> ir.Value:
    """A float without its sign."""
    return operation("math.absf", [x.type], [x])


class _Words(IrWords):
    """With products of two words as one instruction."""

    def multiply(self, a: ir.Value, by: int) -> tuple[ir.Value, ir.Value]:
        factor = arith.constant(integer_type(32), by - (1 << 32 if by >= 1 << 31 else 0))
        product = llvm.inline_asm(integer_type(64), [a, factor], "mul.wide.u32 $0, $1, $2;", "=l,r,r")
        low, high = self.split(product)
        return high, low
