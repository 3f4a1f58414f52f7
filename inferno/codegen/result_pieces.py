"""Results of which a tile has whole lines that are neighbours in memory: what a consumer has of a tile is one piece of it.

It is put together in shared memory as it lies in memory, without a swizzle, and one copy writes it.  Of lines that are no multiple of 64 bytes the copy
engine's boxes would be cut, or have columns twice.
"""

from collections.abc import Sequence

from inferno.codegen import tma
from inferno.codegen.integers import Integer
from inferno.codegen.nvvm_builder import only_if, operation, shared_pointer, store
from inferno.codegen.tensor_core import store_matrices
from inferno.mlir import arith, ir


class ResultPieces:
    """What the end of a tile does with them (see ``Epilogue``)."""

    def stage_piece(self, block: int, begin: int, pairs: Sequence[Sequence[ir.Value]]) -> None:
        """64 rows of some columns from ``begin`` on, at their places among this consumer's rows."""
        words, group, line = self.words, self.group, self.schedule.line
        size = line // self.tiling.n.size
        base = words.add(self.piece, 64 * block * line + begin * size)
        if size == 2:
            row = words.add(words.shl(group.warp, 4), words.mask(group.lane, 15))
            at = words.add(words.add(base, words.mul(row, line)), words.shl(words.shr(group.lane, 4), 4))
            for j in range(0, len(pairs), 2):
                registers = [operation("llvm.bitcast", [words.type], [each[half]]) for each in pairs[j:j + 2] for half in range(2)]
                store_matrices(words, words.add(at, 16 * j), registers)
            return
        row = words.add(words.shl(group.warp, 4), words.shr(group.lane, 2))
        at = words.add(words.add(base, words.mul(row, line)), words.shl(words.mask(group.lane, 3), 3))
        for j, each in enumerate(pairs):
            for half, value in enumerate(each):
                store(value, shared_pointer(words, words.add(at, 8 * half * line + 32 * j)), 8)

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
