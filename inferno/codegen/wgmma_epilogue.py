"""The end of a tile on the tensor core: the epilogue on the sums in registers, and the results' way to memory.

Results go through shared memory and the copy engine where a tensor map can describe the destination, so that they are
written in whole lines while the next tile is multiplied; otherwise each thread stores its pairs itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.codegen import tma
from inferno.codegen.elements import as_vector, join, lanes_of
from inferno.codegen.global_memory import Elements
from inferno.codegen.gpu_function import element_bytes
from inferno.codegen.inline import inline_body
from inferno.codegen.integers import Integer
from inferno.codegen.nvvm_builder import Words, integer_type, only_if, operation, shared_pointer, store
from inferno.codegen.tensor_core import store_matrices
from inferno.mlir import arith, ir, nvvm, walk
from inferno.schedule.accesses import Access
from inferno.schedule.contraction import Contraction, Destination
from inferno.schedule.tiling import Axis, Tiling
from inferno.schedule.wgmma import ROW, Wgmma
from inferno.symbolic import Int, ceildiv, is_multiple, reach


@dataclass(frozen=True)
class StoreMap:
    """The tensor map of a destination: ``axes`` innermost first, ``strides`` in elements."""

    axes: tuple[Axis, ...]
    strides: tuple[Int, ...]


def store_map(destination: Destination, tiling: Tiling) -> StoreMap | None:
    """How the copy engine writes a destination; None if it cannot."""
    access = destination.access
    size = element_bytes(access.element)
    if str(access.element) not in ("bf16", "f16", "f32") or access.offset != 0 or (tiling.n.stride(access) != 1 and tiling.n.size != 1):
        return None
    found = (tiling.n, tiling.m, *(a for a in tiling.grid if a.size != 1))
    line = ceildiv(tiling.n.size * size, 16) * 16 // size
    strides = (1, *(a.stride(access) if a.stride(access) != 0 else line for a in found[1:]))
    if len(found) > 5 or any(not is_multiple(s * size, 16) or reach(s) * size >= 2**40 for s in strides[1:]):
        return None
    return StoreMap(found, strides)


def columns_together(c: Contraction, tiling: Tiling, schedule: Wgmma) -> int:
    """Columns that are computed and staged at a time: as many as a line of shared memory has for the widest result."""
    staged = [element_bytes(d.access.element) for d in c.destinations if store_map(d, tiling) is not None]
    return min(schedule.tile_n, ROW // max(staged, default=2))


@dataclass(frozen=True)
class Warpgroup:
    """A consumer: its number, this thread's number in it, warp and lane, and where its staging buffers are."""

    number: Integer
    thread: ir.Value
    warp: ir.Value
    lane: ir.Value
    staging: Integer


@dataclass
class Epilogue:
    """Emits what follows the last product of a tile.  ``maps`` has a tensor map for each destination that is staged,
    ``tensors`` the other tensors that are read or written, by argument."""

    words: Words
    contraction: Contraction
    tiling: Tiling
    schedule: Wgmma
    group: Warpgroup
    maps: dict[int, ir.Value]
    tensors: dict[int, Elements]
    _seen: dict = field(default_factory=dict)

    def begin(self, grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """For the rows from ``m0`` and the columns from ``n0``: addresses, and the loads for the first part of the tile.

        To be called before the last products are awaited, which hides the loads' latency.
        """
        words = self.words
        self._seen = {}
        self.grid, self.m0, self.n0 = grid, m0, n0
        self.row = words.add(m0, words.add(words.shl(self.group.warp, 4), words.shr(self.group.lane, 2)))
        self.column = words.add(n0, words.shl(words.mask(self.group.lane, 3), 1))
        self.width = columns_together(self.contraction, self.tiling, self.schedule)
        self.load(0, 0)

    def load(self, begin: int, block: int) -> None:
        """Read what the epilogue needs for some columns of 64 rows."""
        for j in range(self.width // 8):
            for half in range(2):
                for source in self.contraction.extras:
                    self.read(source, block, half, begin // 8 + j)

    def emit(self, sums: Sequence[Sequence[ir.Value]]) -> None:
        """``sums`` as ``Multiplier.finish`` gives them.  A part's loads are under way while the one before is computed."""
        parts = [(begin, block) for begin in range(0, self.schedule.tile_n, self.width) for block in range(len(sums))]
        turn, turns = 0, len(parts) * len(self.maps)
        for (begin, block), following in zip(parts, [*parts[1:], None]):
            if following is not None:
                self.load(*following)
            results = [
                [self.apply(block, half, begin // 8 + j, sums[block]) for half in range(2)] for j in range(self.width // 8)
            ]
            for number, destination in enumerate(self.contraction.destinations):
                pairs = [[r[number] for r in each] for each in results]
                if number in self.maps:
                    self.stage(number, block, begin, pairs, *self.buffer(turn, turns))
                    turn += 1
                else:
                    self.write(destination.access, block, begin, pairs)

    # The values.

    def apply(self, block: int, half: int, j: int, values: Sequence[ir.Value]) -> list[ir.Value]:
        """For each destination the pair of results at row ``64 block + 8 half`` and column ``8 j`` of this thread."""
        c, sums = self.contraction, join([values[4 * j + 2 * half], values[4 * j + 2 * half + 1]])
        results: list[ir.Value] = []
        if c.epilogue is not None:
            arguments = []
            for i, source in enumerate(c.epilogue.sources):
                if i in c.epilogue.accumulators:
                    arguments.append(sums)
                elif source is None:
                    arguments.append(arith.constant(integer_type(1), 0))
                else:
                    arguments.append(self.read(source, block, half, j))
            results = inline_body(c.epilogue.block, arguments, self.indices(block, half, j), 2)
        return [sums if d.source is None else as_vector(results[d.source], 2) for d in c.destinations]

    def read(self, source: Access, block: int, half: int, j: int) -> ir.Value:
        """What an epilogue's argument is there: a pair, or a scalar where both are the same."""
        m, n = self.tiling.m.stride(source), self.tiling.n.stride(source)
        key = (source, (block, half) if m != 0 else None, j if n != 0 else None)
        if key not in self._seen:
            tensor = self.tensors[source.argument]
            if n == 0:
                self._seen[key] = tensor.read(self.place(source, block, half, None))
            elif self.paired(source):
                offset, plus = self.at_column(source, block, half, j, 2)
                self._seen[key] = tensor.read(offset, plus, 2, 2)
            else:
                each = [self.at_column(source, block, half, j, 1, lane) for lane in range(2)]
                self._seen[key] = join([tensor.read(*at) for at in each])
        return self._seen[key]

    def paired(self, access: Access) -> bool:
        """Whether a thread's two columns are one aligned pair in memory."""
        tiling = self.tiling
        others = [a.stride(access) for a in (*tiling.grid, tiling.m)]
        return tiling.n.stride(access) == 1 and tiling.n.size % 2 == 0 and all(is_multiple(x, 2) for x in (access.offset, *others))

    def place(self, access: Access, block: int, half: int, column: Integer | None) -> Integer:
        """The offset at this thread's row of a block and half, clamped to the tensor, and at ``column`` if there is one."""
        words, tiling = self.words, self.tiling
        key = (access, block, half) if tiling.m.stride(access) != 0 else access
        if key not in self._seen:
            row = words.add(self.row, 64 * block + 8 * half)
            if tiling.m.size % self.schedule.tile_m != 0:
                row = words.min(row, tiling.m.size - 1)
            strides = [a.stride(access) for a in (*tiling.grid, tiling.m)]
            self._seen[key] = words.dot([*self.grid, row], strides, access.offset)
        if column is None:
            return self._seen[key]
        return words.add(self._seen[key], words.mul(column, tiling.n.stride(access)))

    def at_column(self, access: Access, block: int, half: int, j: int, count: int, lane: int = 0) -> tuple[Integer, int]:
        """Offset and constant for ``count`` elements at column ``8 j + lane`` of this thread, clamped to the tensor."""
        words, n = self.words, self.tiling.n
        if n.size % self.schedule.tile_n != 0:
            column = words.min(words.add(self.column, 8 * j + lane), n.size - count)
            return self.place(access, block, half, column), 0
        key = ("row", access, (block, half) if self.tiling.m.stride(access) != 0 else None)
        if key not in self._seen:
            self._seen[key] = self.place(access, block, half, self.column)
        return self._seen[key], (8 * j + lane) * n.stride(access)

    def indices(self, block: int, half: int, j: int) -> list[ir.Value]:
        """For ``linalg.index`` in the epilogue."""
        c, words, tiling = self.contraction, self.words, self.tiling
        if not walk(c.epilogue.generic, "linalg.index"):
            return []
        lanes = []
        for lane in range(2):
            row, column = words.add(self.row, 64 * block + 8 * half), words.add(self.column, 8 * j + lane)
            known: dict[int | None, Integer] = {None: 0}
            for axis, at in zip((*tiling.grid, tiling.m, tiling.n), (*self.grid, row, column)):
                known.update(zip(axis.dims, words.split(at, [c.sizes[d] for d in axis.dims])))
            lanes.append([words.index(known.get(d, 0)) for d in c.epilogue.indices])
        return [join([lane[i] for lane in lanes]) for i in range(len(lanes[0]))]

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
        if size == 2:
            self.stage_matrices(base, span, pairs)
        else:
            self.stage_pairs(base, span, pairs)
        tma.fence_shared()
        self.barrier()
        with only_if(words.equal(group.thread, 0)):
            inner = [words.add(self.n0, begin), words.add(self.m0, 64 * block)]
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

    def write(self, access: Access, block: int, begin: int, pairs: Sequence[Sequence[ir.Value]]) -> None:
        """Each thread's pairs, element by element where they are not aligned or the tile hangs over the edge."""
        words, tiling, schedule = self.words, self.tiling, self.schedule
        tensor, step = self.tensors[access.argument], tiling.n.stride(access)
        paired = self.paired(access)
        for half in range(2):
            row = words.add(self.row, 64 * block + 8 * half)
            offset = words.dot(
                [*self.grid, row, self.column], [a.stride(access) for a in (*tiling.grid, tiling.m, tiling.n)], access.offset,
            )
            inside = [words.less(row, tiling.m.size)] if tiling.m.size % schedule.tile_m != 0 else []
            # Where N varies, the columns that are left are one register, and what it is compared with are constants.
            left = None if isinstance(tiling.n.size, int) else words.sub(words.value(tiling.n.size), self.column)
            for j, each in enumerate(pairs):
                column = begin + 8 * j
                parts = [(each[half], 0)] if paired else [(x, i) for i, x in enumerate(lanes_of(each[half]))]
                for value, lane in parts:
                    conditions = list(inside)
                    if left is not None:
                        conditions.append(arith.cmpi(arith.CmpIPredicate.sgt, left, words.value(column + lane)))
                    elif tiling.n.size % schedule.tile_n != 0:
                        conditions.append(words.less(words.add(self.column, column + lane), tiling.n.size))
                    self.write_if(conditions, tensor, value, offset, (column + lane) * step)

    def write_if(self, conditions: list[ir.Value], tensor: Elements, value: ir.Value, offset: Integer, plus: int) -> None:
        if not conditions:
            tensor.write(value, offset, plus, aligned=2)
            return
        with only_if(conditions[0] if len(conditions) == 1 else arith.andi(*conditions)):
            tensor.write(value, offset, plus, aligned=2)
