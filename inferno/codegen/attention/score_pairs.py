"""What functions of scores read of tensors whose places are no multiples of a query's and a key's number: a bias for each row of an image beside one for each
column of it, as SAM and MViT have them, or for each frame of a video beside those.

A key's number is cut into numbers of loops.  Where the innermost one goes over a multiple of 8, the eight keys whose scores four threads have of a row differ
in that alone; and where a block of keys has all of it, once or several times, so has each block, and what is read for it is the same for all blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders.elements import join
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.pair_epilogue import PairEpilogue
from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access
from inferno.symbolic import is_multiple

_TOGETHER = 8  # keys of the columns of a product


@dataclass
class ScorePairs(PairEpilogue):
    """``broken``: the tensors that have several strides along queries or keys, whose numbers are known."""

    broken: Sequence[Access] = ()

    def place_keys(self, block: Integer, first: Integer, pair: Integer) -> None:
        """At a block of keys, of which this thread's warp begins with the ``first``, and it with a ``pair`` of the first 8."""
        self.block, self.begin, self.pair = block, self.words.add(self.words.mul(block, self.schedule.tile_n), first), pair
        self.aligned = isinstance(first, int) and first == 0

    def read(self, source: Access, down: int, j: int) -> ir.Value:
        if source not in self.broken:
            return super().read(source, down, j)
        key = ("broken", source, down, j)
        if key not in self._seen:
            self._seen[key] = self._read(source, down, j)
        return self._seen[key]

    def _read(self, source: Access, down: int, j: int) -> ir.Value:
        tensor, row, sizes, strides = self.tensor(source), self._row(source, down), *self._steps(source)
        together = bool(sizes) and sizes[-1] % 2 == 0  # a thread's two keys differ in the last number alone
        if not any(strides):
            return tensor.read(row)
        if together and strides[-1] == 0:
            return tensor.read(self.words.add(row, self._column(source, j, 0, 2)))
        if together and strides[-1] == 1 and all(is_multiple(s, 2) for s in (source.offset, *source.strides) if s != 1):
            return tensor.read(self.words.add(row, self._column(source, j, 0, 2)), 0, 2, 2)
        return join([tensor.read(self.words.add(row, self._column(source, j, lane, 2 if together else 1))) for lane in range(2)])

    def _steps(self, source: Access) -> tuple[list[int], list[int]]:
        """Of the loops that keys are, their sizes, and the tensor's strides."""
        dims = self.tiling.n.dims
        return [self.contraction.sizes[d] for d in dims], [source.strides[d] for d in dims]

    def _row(self, source: Access, down: int) -> Integer:
        """The offset of a query's first element."""
        words, m = self.words, self.tiling.m
        row = words.add(self.row, down)
        row = words.min(row, m.size - 1) if self.hangs_over else row
        numbers = words.split(row, [self.contraction.sizes[d] for d in m.dims])
        strides = [*(a.stride(source) for a in self.tiling.grid), *(source.strides[d] for d in m.dims)]
        return words.dot([*self.grid, *numbers], strides, source.offset)

    def _column(self, source: Access, j: int, lane: int, count: int) -> Integer:
        """What a key adds to that; behind the last key what the last ``count`` ones have, or the last ones of their loops."""
        words, n, (sizes, strides) = self.words, self.tiling.n, self._steps(source)
        whole, inner = n.size % self.schedule.tile_n == 0, sizes[-1]
        if inner % _TOGETHER:
            column = words.add(self.column, _TOGETHER * j + lane)
            column = column if whole else words.min(column, n.size - count + lane % count)
            return words.dot(words.split(column, sizes), strides)
        if self.aligned and self.schedule.tile_n % inner == 0:
            plus, last = divmod(_TOGETHER * j, inner)
            outer = words.add(words.mul(self.block, self.schedule.tile_n // inner), plus)
            outer = outer if whole else words.min(outer, n.size // inner - 1)
        else:
            first = words.add(self.begin, _TOGETHER * j)
            first = first if whole else words.min(first, n.size - _TOGETHER)
            outer, last = words.div(first, inner), words.rem(first, inner)
        last = words.add(words.add(last, lane), self.pair)
        return words.dot([*words.split(outer, sizes[:-1]), last], strides)
