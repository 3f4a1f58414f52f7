"""The epilogue on the tensor core's sums in registers, and how results get to memory.

Results go through shared memory and the copy engine where a tensor map can describe the destination, so that they are
written in whole lines while the next tile is multiplied; otherwise warps write lines (``result_lines``), or each thread stores its pairs itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, to_memory
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.pair_epilogue import PairEpilogue
from inferno.codegen.matmul.result_lines import ResultLines
from inferno.codegen.matmul.result_pieces import ResultPieces
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import Words, operation, shared_pointer, store
from inferno.codegen.nvvm.tensor_core import store_matrices
from inferno.element_sizes import element_bytes
from inferno.mlir import ir, nvvm
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.tiles.result_parts import ROW, columns_together, tile_parts
from inferno.symbolic import bounds

_OTHERS = 80  # registers of a thread that neither its sums nor what its epilogue reads has (an estimate)


@dataclass(frozen=True)
class Warpgroup:
    """A consumer: its number, this thread's number in it, warp and lane, and where its staging buffers are."""

    number: Integer
    thread: ir.Value
    warp: ir.Value
    lane: ir.Value
    staging: Integer


@dataclass
class Epilogue(PairEpilogue, ResultLines, ResultPieces):
    """Of a consumer's tile.  ``maps`` has a tensor map for each destination that is staged; ``lines`` are those that warps write.  ``piece``: where this
    tile's results are staged if they are one piece of memory; ``quads``: threads write sectors of 32 bytes together."""

    apart: ClassVar[int] = 8

    group: Warpgroup
    maps: dict[int, ir.Value]
    brought: Any = None  # ``BroughtParts``: what comes to shared memory of what the epilogue reads
    lines: frozenset[int] = frozenset()
    piece: Integer | None = None
    quads: bool = False
    _begun: bool = field(default=False, init=False)

    def begin_early(self, grid: Sequence[Integer], m0: Integer, n0: Integer, registers: int) -> None:
        """``begin``, in front of the tile's products: of few rows the last one hides nothing of what comes from memory, which is busy (H200, with
        GELU, 4x768x50257: 22.5 us, 31.0 otherwise; 4x8192x8192 35.5 and 36.3).  What it reads is held in ``registers``, which a thread has beside
        its sums, as far as they go; the rest is read where it usually is.  Which columns are this block's own where blocks share a tile's is not known yet."""
        few = 0 < self.schedule.lhs_rows < 64 or bounds(self.tiling.m.size)[1] <= 64
        if not few or self.schedule.spread or self.brought is not None or type(self).emit is not Epilogue.emit:
            return
        self.begin(grid, m0, n0)
        self._begun = True
        for begin, block in tile_parts(self.schedule.tile_n, self.width, 1, whole=bool(self.maps) and not self.schedule.swapped):
            registers -= self.held(min(self.width, self.schedule.tile_n - begin) // 8)
            if registers < _OTHERS:
                return
            self.load_part(begin, block)

    def held(self, columns: int) -> int:
        """Registers of a thread for what it reads of 8 times so many columns of its rows."""
        halves = {True: len(self.halves), False: 1}
        return sum(
            columns * halves[self.tiling.m.stride(a) != 0] * (1 if element_bytes(a.element) == 2 and self.paired(a) else 2)
            for a in self.loaded if self.tiling.n.stride(a) != 0
        )

    def begin(self, grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """For the rows from ``m0`` and the columns from ``n0``: addresses, and the loads for the first part of the tile.

        To be called before the last products are awaited, which hides the loads' latency.
        """
        if self._begun:  # early
            self._begun = False
            return
        words = self.words
        self.m0, self.n0 = m0, n0
        self.place_thread(grid, words.add(m0, self.first_row()), words.add(n0, words.shl(words.mask(self.group.lane, 3), 1)))
        self.width = columns_together(self.contraction, self.tiling, self.schedule)
        self.load_part(0, 0)

    def first_row(self) -> Integer:
        """This thread's first one of 64 rows; its other one is ``apart`` behind it."""
        return self.words.add(self.words.shl(self.group.warp, 4), self.words.shr(self.group.lane, 2))

    def load_part(self, begin: int, block: int) -> None:
        """Read what the epilogue needs for some columns of 64 rows."""
        end = min(begin + self.width, self.schedule.tile_n)
        self.load([self.down(block, half) for half in self.halves], range(begin // 8, end // 8))

    def down(self, block: int, half: int = 0) -> int:
        """How far behind this thread's first row its row of a block of 64 is, or its other one there."""
        return 64 * block + self.apart * half

    def emit(self, sums: Sequence[Sequence[ir.Value]]) -> None:
        """``sums`` as ``Multiplier.finish`` gives them.  A part's loads are under way while the one before is computed."""
        parts = tile_parts(self.schedule.tile_n, self.width, len(sums), whole=bool(self.maps) and not self.schedule.swapped)
        turn, turns, written = 0, len(parts) * len(self.maps), 0
        done: dict[tuple[int, int], list[list[ir.Value]]] = {}  # the last part may have some columns of the one before again
        for (begin, block), following in zip(parts, [*parts[1:], None]):
            if following is not None:
                self.load_part(*following)
            end = min(begin + self.width, self.schedule.tile_n)
            self.take_brought(begin, block, (end - begin) // 8)
            columns = range(begin // 8, end // 8)
            results = [done.get((block, j)) or self.apply_pairs(block, j, sums[block]) for j in columns]
            done.update(((block, j), result) for j, result in zip(columns, results))
            for number, destination in enumerate(self.contraction.destinations):
                pairs = [[r[number] for r in each] for each in results]
                if number in self.maps:
                    self.stage(number, block, begin, pairs, *self.buffer(turn, turns))
                    turn += 1
                elif number in self.lines:
                    self.write_lines(destination.access, block, begin, pairs, written)
                    written += 1
                elif self.piece is not None:
                    if (begin, block) == (0, 0):
                        self.await_piece()
                    self.stage_piece(block, begin, pairs)
                else:
                    self.write_halves(destination.access, self.down(block), begin // 8, pairs)
            if self.brought is not None:
                if not self.maps:  # otherwise they have, for what is staged
                    tma.fence_shared()
                    self.barrier()
                self.brought.release()
        if self.piece is not None:
            self.write_piece()

    @property
    def loaded(self) -> Sequence[Access]:
        """What ``load`` reads: not what is brought."""
        extras = self.contraction.extras
        return extras if self.brought is None else [a for a in extras if a not in self.brought.accesses]

    def take_brought(self, begin: int, block: int, pairs: int) -> None:
        if self.brought is not None:
            for (access, half, j), value in self.brought.take(pairs).items():
                self._seen[access, self.down(block, half), begin // 8 + j] = value

    def write_halves(self, access: Access, down: int, first: int, pairs: Sequence[Sequence[ir.Value]]) -> None:
        """Both rows' pairs of 64 rows, from ``8 first`` columns on."""
        quads = self.quads and self.in_quads(access)
        for half in self.halves:
            row, values = down + self.apart * half, [each[half] for each in pairs]
            if quads:
                self.write_quads(access, row, first, values, self.words.mask(self.group.lane, 3))
            else:
                self.write(access, row, first, values)

    @property
    def halves(self) -> Sequence[int]:
        """Which of a thread's two rows of 16 there are: of up to 8 rows only the first."""
        rows = getattr(self.schedule, "lhs_rows", 0)
        return range(1) if 0 < rows <= self.apart else range(2)

    def apply_pairs(self, block: int, j: int, values: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """The results of both halves of 64 rows at columns ``8 j``; those of rows that there are not stand for others."""
        found = [self.apply_half(block, j, half, values) for half in self.halves]
        return [found[0], found[-1]]

    def apply_half(self, block: int, j: int, half: int, values: Sequence[ir.Value]) -> list[ir.Value]:
        return self.apply(self.down(block, half), j, neighbours(values, j, half))

    # Their way to memory.

    def buffer(self, turn: int, turns: int) -> tuple[int, int]:
        """The staging buffer of a tile's ``turn``, and how many stores may be under way when it is written again: those since
        its last one, which may have been the previous tile's."""
        count = self.schedule.buffers
        last = turn - count if turn >= count else max(u for u in range(turns) if u % count == turn % count) - turns
        return turn % count, turn - last - 1

    def stage(
        self, number: int, block: int, begin: int, pairs: Sequence[Sequence[ir.Value]], buffer: int, pending: int,
    ) -> None:
        """64 rows of some columns through a staging buffer, once the buffer's last store has read it."""
        words, group = self.words, self.group
        element = self.contraction.destinations[number].access.element
        size = element_bytes(element)
        span = 8 * len(pairs) * size
        base = words.add(group.staging, buffer * 64 * ROW)
        with only_if(words.equal(group.thread, 0)):
            tma.await_stores(pending, read=True)
        self.barrier()
        if self.schedule.swapped:
            self.stage_transposed(base, pairs)
        elif size == 2:
            self.stage_matrices(base, span, pairs)
        else:
            self.stage_pairs(base, span, [[to_memory(value) for value in each] for each in pairs], size)
        tma.fence_shared()
        self.barrier()
        with only_if(words.equal(group.thread, 0)):
            tma.store_box(words, self.maps[number], self.box_place(begin, block), base)

    def box_place(self, begin: int, block: int) -> list[Integer]:
        """Where in a destination's map the copy engine writes 64 rows of the columns from ``begin`` on."""
        words = self.words
        inner = [words.add(self.n0, begin), words.add(self.m0, 64 * block)]
        outer = [at for axis, at in zip(self.tiling.grid, self.grid) if axis.size != 1]
        return [*(inner[::-1] if self.schedule.swapped else inner), *outer]

    def stage_matrices(self, base: Integer, span: int, pairs: Sequence[Sequence[ir.Value]]) -> None:
        """Four matrices of 8 x 8 at a time: 16 rows of a warp x 16 columns."""
        words, lane = self.words, self.group.lane
        row = words.add(words.shl(self.group.warp, 4), words.mask(lane, 15))
        line = words.add(base, words.mul(row, span))
        first = tma.swizzled(words, lane, words.shr(lane, 4), span)
        for j in range(0, len(pairs), 2):
            registers = [operation("llvm.bitcast", [words.type], [pairs[j + q][half]]) for q in range(2) for half in range(2)]
            store_matrices(words, words.add(line, words.shl(words.xor(first, j), 4)), registers)

    def stage_transposed(self, base: Integer, pairs: Sequence[Sequence[ir.Value]]) -> None:
        """The same, to lines of 64 rows for each column."""
        packed = [operation("llvm.bitcast", [self.words.type], [value]) for each in pairs for value in each]
        store_transposed(self.words, self.group.warp, self.group.lane, base, packed)

    def stage_pairs(self, base: Integer, span: int, pairs: Sequence[Sequence[ir.Value]], size: int) -> None:
        """Pairs of elements of so many bytes, 4 or 1."""
        words, lane = self.words, self.group.lane
        low = words.shr(lane, 2)
        for j, each in enumerate(pairs):
            chunk, inside = divmod(8 * size * j, 16)
            if size == 4:
                chunk, own = words.add(words.shr(words.mask(lane, 3), 1), chunk), words.shl(words.mask(lane, 1), 3)
            else:
                own = words.shl(words.mask(lane, 3), 1)
            at = words.add(words.add(words.shl(tma.swizzled(words, low, chunk, span), 4), own), inside)
            for half, value in enumerate(each):
                row = words.add(words.add(words.shl(self.group.warp, 4), low), 8 * half)
                store(value, shared_pointer(words, words.add(words.add(base, words.mul(row, span)), at)), 2 * size)

    def barrier(self) -> None:
        """All threads of this consumer."""
        words = self.words
        nvvm.BarrierOp(barrierId=words.value(words.add(self.group.number, 1)), numberOfThreads=words.value(128))


def neighbours(values: Sequence[ir.Value], j: int, half: int) -> ir.Value:
    """The pair of sums at columns ``8 j`` in one half of the rows."""
    return join([values[4 * j + 2 * half], values[4 * j + 2 * half + 1]])


def store_transposed(words: Words, warp: Integer, lane: Integer, base: Integer, packed: Sequence[ir.Value]) -> None:
    """A consumer's 64 rows of columns of 16 bits to lines of 64 rows for each column.  ``packed`` are pairs of neighbouring columns, those 8 rows
    further behind them; a lane has the address of a column of one of the matrices, in 16 bytes of its line."""
    inside = words.mask(lane, 7)
    chunk = words.add(words.shl(warp, 1), words.mask(words.shr(lane, 3), 1))
    line = words.add(words.shl(words.shr(lane, 4), 3), inside)
    first = words.add(words.add(base, words.mul(line, ROW)), words.shl(tma.swizzled(words, inside, chunk, ROW), 4))
    for at in range(0, len(packed), 4):
        store_matrices(words, words.add(first, 4 * at * ROW), packed[at:at + 4], transposed=True)
