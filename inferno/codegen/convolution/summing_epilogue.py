"""Epilogues of ``wgmma`` and of ``halo`` that also sum the columns of what a warp writes (see ``channel_sums``)."""

import functools
from collections.abc import Sequence

from inferno.codegen.builders.elements import lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.convolution.halo_consumer import HaloEpilogue
from inferno.codegen.matmul.wgmma_epilogue import Epilogue
from inferno.codegen.nvvm.builder import load_shared, shared_pointer, store
from inferno.codegen.nvvm.shuffles import exchange
from inferno.mlir import arith, ir
from inferno.schedule.convolution.summed_columns import Summed


class _Sums:
    """What an epilogue does with them."""

    def sum_columns(self, found: Summed, base: Integer) -> None:
        """``base``: where this thread's are in shared memory."""
        self.summed, self.squares, self.base = found.source, found.squares, base
        self._open: dict[int, list[ir.Value]] = {}  # of some columns the sums of this thread's rows

    def apply_pairs(self, block: int, j: int, values: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """As everywhere; and adds the results to those of the other rows of these columns that are on their way."""
        results = super().apply_pairs(block, j, values)
        inside = [self.is_inside(block, half) for half in self.halves]
        pairs = [_wide(results[half][self.summed]) for half in self.halves]
        pairs = [pair if condition is None else arith.select(condition, pair, _zero(pair.type)) for pair, condition in zip(pairs, inside)]
        terms = [[arith.mulf(pair, pair) if square else pair for square in self.squares] for pair in pairs]
        self._open[j] = [functools.reduce(arith.addf, each) for each in zip(*terms)]
        return results

    def is_inside(self, block: int, half: int) -> ir.Value | None:
        """Whether a row is one of the result's; None where all are."""
        if not self.hangs_over:
            return None
        return self.words.less(self.words.add(self.row, self.down(block, half)), self.tiling.m.size)

    def stage(self, number: int, block: int, begin: int, pairs: Sequence[Sequence[ir.Value]], buffer: int, pending: int) -> None:
        super().stage(number, block, begin, pairs, buffer, pending)
        if number == self.summed:
            self.add_up(begin)

    def add_up(self, begin: int) -> None:
        """What there is of the columns from ``begin`` on: of 8 threads with the same columns each has an eighth of the totals in the end."""
        words, wide = self.words, ir.F64Type.get()
        columns = [self._open[j] for j in sorted(self._open)]
        values = [x for i in range(len(self.squares)) for each in columns for x in lanes_of(each[i])]
        for bit in (2, 3, 4):
            low, high = values[:len(values) // 2], values[len(values) // 2:]
            given = [exchange(arith.select(self.has(bit), a, b), 1 << bit) for a, b in zip(low, high)]
            values = [arith.addf(arith.select(self.has(bit), b, a), x) for a, b, x in zip(low, high, given)]
        for i, value in enumerate(values):
            at = words.add(self.base, 8 * 32 * (len(self.squares) * begin // 32 + i))
            store(arith.addf(load_shared(words, at, wide, 1), arith.extf(wide, value)), shared_pointer(words, at), 8)
        self._open = {}

    def has(self, bit: int) -> ir.Value:
        """Whether this lane's number has it."""
        words = self.words
        return words.equal(words.mask(words.shr(self.group.lane, bit), 1), 1)


def _wide(pair: ir.Value) -> ir.Value:
    wide = ir.VectorType.get([2], ir.F32Type.get())
    return pair if pair.type == wide else arith.extf(wide, pair)


def _zero(type_: ir.Type) -> ir.Value:
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(ir.F32Type.get(), 0.0)))


class SummingEpilogue(_Sums, Epilogue):
    pass


class SummingHaloEpilogue(_Sums, HaloEpilogue):
    def is_inside(self, block: int, half: int) -> ir.Value | None:
        words, patch = self.words, self.patch
        if not self.hangs_over:
            return None
        (down, across), (further, beside) = patch.place(block), divmod(self.apart * half, patch.width)
        first, (*_, y, x) = words.shl(self.group.warp, 4), self.place_in_image
        row = words.add(words.add(y, words.div(first, patch.width)), down + further)
        column = words.add(words.add(words.add(x, words.rem(first, patch.width)), words.shr(self.group.lane, 2)), across + beside)
        rows, columns = patch.window.counts[-2:]
        return arith.andi(words.less(row, rows), words.less(column, columns))
