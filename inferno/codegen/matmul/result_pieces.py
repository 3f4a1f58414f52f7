"""Results of which a tile has whole lines that are neighbours in memory: what a consumer has of a tile is one piece of it.

It is put together in shared memory as it lies in memory, without a swizzle, and one copy writes it.  Of lines that are no multiple of 64 bytes the copy
engine's boxes would be cut, or have columns twice, and of lines that begin anywhere, as those of 7x7 pixels do, it has no map at all.
"""

from collections.abc import Sequence

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import operation, shared_pointer, store
from inferno.codegen.nvvm.tensor_core import store_matrices
from inferno.mlir import arith, ir
from inferno.symbolic import ceildiv


class ResultPieces:
    """What the end of a tile does with them (see ``Epilogue``)."""

    def stage_piece(self, block: int, begin: int, pairs: Sequence[Sequence[ir.Value]]) -> None:
        """64 rows of some columns from ``begin`` on, at their places among this consumer's rows."""
        words, group, line = self.words, self.group, self.schedule.line
        size, columns = line // self.tiling.n.size, self.tiling.n.size - begin
        base = words.add(self.piece, 64 * block * line + begin * size)
        if size == 2 and line % 16 == 0 and columns >= 8 * len(pairs):
            row = words.add(words.shl(group.warp, 4), words.mask(group.lane, 15))
            at = words.add(words.add(base, words.mul(row, line)), words.shl(words.shr(group.lane, 4), 4))
            for j in range(0, len(pairs), 2):
                registers = [operation("llvm.bitcast", [words.type], [each[half]]) for each in pairs[j:j + 2] for half in range(2)]
                store_matrices(words, words.add(at, 16 * j), registers)
            return
        row, pair = words.add(words.shl(group.warp, 4), words.shr(group.lane, 2)), words.mask(group.lane, 3)
        at = words.add(words.add(base, words.mul(row, line)), words.mul(pair, 2 * size))
        together = 1 if line % (2 * size) else 2  # a pair of an odd line begins anywhere
        for j, each in enumerate(pairs[:ceildiv(columns, 8)]):
            for lane in range(0, 2, together):
                with only_if(words.less(pair, (columns - 8 * j - lane + 1) // 2) if columns < 8 * (j + 1) else None):
                    for half, value in enumerate(each):
                        target = shared_pointer(words, words.add(at, 8 * half * line + (8 * j + lane) * size))
                        store(value if together == 2 else lanes_of(value)[lane], target, together * size)

    def await_piece(self) -> None:
        """Until this tile's buffer has been read, which one or two tiles before it had."""
        with only_if(self.words.equal(self.group.thread, 0)):
            tma.await_stores(self.schedule.buffers - 1, read=True)
        self.barrier()

    def write_piece(self) -> None:
        """What has been staged, but for rows that there are not."""
        words, rows, m = self.words, self.schedule.rows, self.tiling.m.size
        tma.fence_shared()
        self.barrier()
        first = words.equal(self.group.thread, 0)
        if not self.hangs_over:
            with only_if(first):
                self._write_rows(rows)
            return
        with only_if(arith.andi(first, words.less(self.m0, m))):
            self._write_rows(words.min(words.sub(m, self.m0), rows))

    def _write_rows(self, rows: Integer) -> None:
        access = self.contraction.destinations[0].access
        target = self.tensor(access).pointer(self.offset(access, self.m0))
        tma.store_piece(self.words, target, self.piece, self.words.mul(rows, self.schedule.line))
