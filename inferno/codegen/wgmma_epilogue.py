"""The end of a tile on the tensor core: the epilogue on the sums in registers, and the results' way to memory.

Results go through shared memory and the copy engine where a tensor map can describe the destination, so that they are
written in whole lines while the next tile is multiplied; otherwise each thread stores its pairs itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from inferno.codegen import tma
from inferno.codegen.elements import join
from inferno.codegen.gpu_function import element_bytes
from inferno.codegen.integers import Integer
from inferno.codegen.nvvm_builder import only_if, operation, shared_pointer, store
from inferno.codegen.pair_epilogue import PairEpilogue
from inferno.codegen.tensor_core import store_matrices
from inferno.mlir import ir, nvvm
from inferno.schedule.contraction import Contraction, Destination
from inferno.schedule.tiling import Axis, Tiling
from inferno.schedule.wgmma import ROW, Wgmma
from inferno.symbolic import Int, bounds, ceildiv, is_multiple, reach


@dataclass(frozen=True)
class StoreMap:
    """The tensor map of a destination: ``axes`` innermost first, ``strides`` in elements."""

    axes: tuple[Axis, ...]
    strides: tuple[Int, ...]


def store_maps(c: Contraction, tiling: Tiling, schedule: Wgmma) -> dict[int, StoreMap]:
    """The maps of the destinations that are staged, by number: a tile has to consist of lines that a swizzle knows."""
    found = {i: m for i, m in ((i, _store_map(d, tiling, schedule.swapped)) for i, d in enumerate(c.destinations)) if m is not None}
    if schedule.swapped:
        return found if columns_together(c, tiling, schedule) % 16 == 0 else {}
    sizes = {i: element_bytes(c.destinations[i].access.element) for i in found}
    widest = max(sizes.values(), default=2)
    together = gcd(schedule.tile_n, ROW // widest)
    fits = together == schedule.tile_n or together * widest >= 64  # shorter parts would be too many
    return {i: m for i, m in found.items() if fits and together * sizes[i] in (32, 64, 128)}


def _store_map(destination: Destination, tiling: Tiling, swapped: bool) -> StoreMap | None:
    """How the copy engine writes a destination, whose lines are a tile's columns if ``swapped``; None if it cannot."""
    access, (inner, outer) = destination.access, (tiling.m, tiling.n) if swapped else (tiling.n, tiling.m)
    size = element_bytes(access.element)
    if str(access.element) not in (("bf16", "f16") if swapped else ("bf16", "f16", "f32")):
        return None  # (stmatrix turns 16 bits; threads with neighbouring rows write whole sectors of float32 as they are)
    if access.offset != 0 or (inner.stride(access) != 1 and inner.size != 1):
        return None
    found = (inner, outer, *(a for a in tiling.grid if a.size != 1))
    line = ceildiv(inner.size * size, 16) * 16 // size
    strides = (1, *(a.stride(access) if a.stride(access) != 0 else line for a in found[1:]))
    if len(found) > 5 or any(not is_multiple(s * size, 16) or reach(s) * size >= 2**40 for s in strides[1:]):
        return None
    return StoreMap(found, strides)


def columns_together(c: Contraction, tiling: Tiling, schedule: Wgmma) -> int:
    """Columns that are computed and staged at a time: as many as a line of shared memory has for the widest result, or if ``swapped`` as many
    lines as a staging buffer has, where what the last ones have too much lies outside of the tensor."""
    if schedule.swapped:
        return min(schedule.tile_n, 64) if bounds(tiling.n.size)[1] <= schedule.tile_n else gcd(schedule.tile_n, 64)
    staged = [element_bytes(c.destinations[i].access.element) for i in store_maps(c, tiling, schedule)]
    return gcd(schedule.tile_n, ROW // max(staged)) if staged else min(schedule.tile_n, ROW // 2)


@dataclass(frozen=True)
class Warpgroup:
    """A consumer: its number, this thread's number in it, warp and lane, and where its staging buffers are."""

    number: Integer
    thread: ir.Value
    warp: ir.Value
    lane: ir.Value
    staging: Integer


@dataclass
class Epilogue(PairEpilogue):
    """Of a consumer's tile.  ``maps`` has a tensor map for each destination that is staged."""

    group: Warpgroup
    maps: dict[int, ir.Value]

    def begin(self, grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """For the rows from ``m0`` and the columns from ``n0``: addresses, and the loads for the first part of the tile.

        To be called before the last products are awaited, which hides the loads' latency.
        """
        words = self.words
        self.m0, self.n0 = m0, n0
        row = words.add(m0, words.add(words.shl(self.group.warp, 4), words.shr(self.group.lane, 2)))
        self.place_thread(grid, row, words.add(n0, words.shl(words.mask(self.group.lane, 3), 1)))
        self.width = columns_together(self.contraction, self.tiling, self.schedule)
        self.load_part(0, 0)

    def load_part(self, begin: int, block: int) -> None:
        """Read what the epilogue needs for some columns of 64 rows."""
        end = min(begin + self.width, self.schedule.tile_n)
        self.load([64 * block + 8 * half for half in range(2)], range(begin // 8, end // 8))

    def emit(self, sums: Sequence[Sequence[ir.Value]]) -> None:
        """``sums`` as ``Multiplier.finish`` gives them.  A part's loads are under way while the one before is computed."""
        parts = [(begin, block) for begin in range(0, self.schedule.tile_n, self.width) for block in range(len(sums))]
        turn, turns = 0, len(parts) * len(self.maps)
        for (begin, block), following in zip(parts, [*parts[1:], None]):
            if following is not None:
                self.load_part(*following)
            end = min(begin + self.width, self.schedule.tile_n)
            results = [self.apply_pairs(block, j, sums[block]) for j in range(begin // 8, end // 8)]
            for number, destination in enumerate(self.contraction.destinations):
                pairs = [[r[number] for r in each] for each in results]
                if number in self.maps:
                    self.stage(number, block, begin, pairs, *self.buffer(turn, turns))
                    turn += 1
                else:
                    for half in range(2):
                        self.write(destination.access, 64 * block + 8 * half, begin // 8, [each[half] for each in pairs])

    def apply_pairs(self, block: int, j: int, values: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """The results of both halves of 64 rows at columns ``8 j``."""
        return [self.apply(64 * block + 8 * half, j, neighbours(values, j, half)) for half in range(2)]

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
            self.stage_turned(base, pairs)
        elif size == 2:
            self.stage_matrices(base, span, pairs)
        else:
            self.stage_pairs(base, span, pairs)
        tma.fence_shared()
        self.barrier()
        with only_if(words.equal(group.thread, 0)):
            inner = [words.add(self.n0, begin), words.add(self.m0, 64 * block)]
            inner = inner[::-1] if self.schedule.swapped else inner
            outer = [at for axis, at in zip(self.tiling.grid, self.grid) if axis.size != 1]
            tma.store_box(words, self.maps[number], [*inner, *outer], base)

    def stage_matrices(self, base: Integer, span: int, pairs: Sequence[Sequence[ir.Value]]) -> None:
        """Four matrices of 8 x 8 at a time: 16 rows of a warp x 16 columns."""
        words, lane = self.words, self.group.lane
        row = words.add(words.shl(self.group.warp, 4), words.mask(lane, 15))
        line = words.add(base, words.mul(row, span))
        first = tma.swizzled(words, lane, words.shr(lane, 4), span)
        for j in range(0, len(pairs), 2):
            registers = [operation("llvm.bitcast", [words.type], [pairs[j + q][half]]) for q in range(2) for half in range(2)]
            store_matrices(words, words.add(line, words.shl(words.xor(first, j), 4)), registers)

    def stage_turned(self, base: Integer, pairs: Sequence[Sequence[ir.Value]]) -> None:
        """The same, to lines of 64 rows for each column: a lane has the address of a column of one of the matrices, in 16 bytes of its line."""
        words, lane = self.words, self.group.lane
        inside = words.mask(lane, 7)
        chunk = words.add(words.shl(self.group.warp, 1), words.mask(words.shr(lane, 3), 1))
        line = words.add(words.shl(words.shr(lane, 4), 3), inside)
        first = words.add(words.add(base, words.mul(line, ROW)), words.shl(tma.swizzled(words, inside, chunk, ROW), 4))
        for j in range(0, len(pairs), 2):
            registers = [operation("llvm.bitcast", [words.type], [pairs[j + q][half]]) for q in range(2) for half in range(2)]
            store_matrices(words, words.add(first, 8 * j * ROW), registers, turned=True)

    def stage_pairs(self, base: Integer, span: int, pairs: Sequence[Sequence[ir.Value]]) -> None:
        """Pairs of 32-bit elements, 8 bytes each."""
        words, lane = self.words, self.group.lane
        low = words.shr(lane, 2)
        for j, each in enumerate(pairs):
            chunk = words.add(words.shr(words.mask(lane, 3), 1), 2 * j)
            at = words.add(words.shl(tma.swizzled(words, low, chunk, span), 4), words.shl(words.mask(lane, 1), 3))
            for half, value in enumerate(each):
                row = words.add(words.add(words.shl(self.group.warp, 4), low), 8 * half)
                store(value, shared_pointer(words, words.add(words.add(base, words.mul(row, span)), at)), 8)

    def barrier(self) -> None:
        """All threads of this consumer."""
        words = self.words
        nvvm.BarrierOp(barrierId=words.value(words.add(self.group.number, 1)), numberOfThreads=words.value(128))


def neighbours(values: Sequence[ir.Value], j: int, half: int) -> ir.Value:
    """The pair of sums at columns ``8 j`` in one half of the rows."""
    return join([values[4 * j + 2 * half], values[4 * j + 2 * half + 1]])
