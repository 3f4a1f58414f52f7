"""Kernels that go over rows side by side, some tensors of which have the rows one behind the other: these go through tiles in shared memory.

A tile has a point's rows together, as threads take them; a warp moves pieces of lines between it and memory.  So that neighbouring points of a row, which
threads of a warp take apart or put together, lie in different banks, the pieces of 16 bytes of each 128 are exchanged by the number of the point's piece.
"""

from math import ceil

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, from_memory, join, lanes_of, load_vector, store_vector, to_memory
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.integers import Integer, resize
from inferno.codegen.nvvm.async_copies import await_copies, commit_copies
from inferno.codegen.nvvm.builder import Words, load_shared, shared_pointer
from inferno.codegen.nvvm.builder import store as store_shared
from inferno.codegen.rows.columns import ColumnsEmitter, write_kernel
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import func, gpu, ir, scf
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.column_schedule import kept_accesses
from inferno.schedule.rows.transposed_rows import LINE, PIECE, TransposedRows, most_at_once, parse, tiles, transposed
from inferno.symbolic import alignment
from inferno.target import WARP, Target


def generate(kernel: func.FuncOp, schedule: TransposedRows, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that goes over such rows, and make ``kernel`` its launcher."""
    c = parse(kernel, target)
    if c is None:
        raise CompileError(f"@{kernel.name.value} does not go over rows of which some lie side by side and others one behind the other")
    if not schedule.fits(c):
        raise CompileError(f"@{kernel.name.value}: {schedule} does not fit {c.count} rows of {c.width}")
    write_kernel(kernel, c, schedule, _TransposedEmitter)


class _TransposedEmitter(ColumnsEmitter):
    """``addresses``: those of tiles in shared memory, by what they have; ``_local``: the numbers of chunks among a row's points that the block has."""

    def go(self, group: Integer) -> None:
        c, s, ints = self.c, self.s, self.ints
        self.words, self.addresses, self._local = Words(), {}, {}
        self.front = ints.mul(group, s.side())  # rows of other blocks
        begin, begins = s.kept_bytes(c), {}
        for at, number in tiles(c).items():
            if number not in begins:
                begins[number], begin = begin, begin + s.tile_bytes(c, at)
            self.addresses[at] = self.words.add(self.dynamic, begins[number])
        written = {d.access for d in c.destinations}
        if s.held:  # what is read as it lies is on its way with the rest
            self.begin_phase(0)
            self.place_turn(0, 0, 1)
            for u in range(s.unroll):
                for source in (a for a in self.reads if a not in self.addresses):
                    self.read(source, u)
        if s.brought:
            self._bring()
        read = [at for at in transposed(c) if at not in written]
        for at in read:
            self._move(at, self._fill)
        if s.brought:
            await_copies(0)
        if read:
            gpu.barrier()
        super().go(group)
        if wrote := [at for at in transposed(c) if at in written]:
            gpu.barrier()
            for at in wrote:
                self._move(at, self._drain)

    def _bring(self) -> None:
        """Start to copy what is kept, of all turns: each vector to the place of the thread that reads it."""
        s, ints = self.s, self.ints
        accesses = kept_accesses(self.c)
        self.kept.begin(self.thread)
        op = scf.ForOp(ints.value(0), ints.value(s.rounds(self.c)), ints.value(1), [])
        with ir.InsertionPoint(op.body):
            self.kept.turn(op.induction_variable)
            self.place_turn(op.induction_variable, 0, s.rounds(self.c))
            for u in range(s.unroll):
                for at in accesses:
                    self.kept.bring(at, u, ints, self.buffers[at.argument], self.offset(at, self._chunk[u][0]), partial=False)
            scf.yield_([])
        commit_copies()
        self.kept.end(accesses)

    def place_turn(self, turn: Integer, begin: int, end: int) -> None:
        super().place_turn(turn, begin, end)
        ints, s = self.ints, self.s
        first = ints.add(ints.mul(turn, s.unroll * s.along), ints.div(self.thread, s.across))
        self._local = {u: ints.add(first, u * s.along) for u in range(s.unroll)}

    def read(self, at: Access, chunk: object) -> ir.Value:
        if at not in self.addresses or (at, chunk) in self._points:
            return super().read(at, chunk)
        stored, each, count = stored_type(at.element), element_bytes(at.element), self.s.vector
        wide = min(count, PIECE // each)
        parts = [load_shared(self.words, self._place(at, self._local[chunk], self._rows_place(at, i)), stored, wide) for i in range(0, count, wide)]
        lanes = [x for p in parts for x in (lanes_of(p) if wide > 1 else [p])]
        self._points[at, chunk] = as_vector(from_memory(parts[0] if len(parts) == 1 else join(lanes), at.element), count)
        return self._points[at, chunk]

    def write(self, stored: list, chunk: int) -> None:
        here = [d for d in stored if d.access in self.addresses]
        super().write([d for d in stored if d.access not in self.addresses], chunk)
        for d in here:
            each, count = element_bytes(d.access.element), self.s.vector
            lanes, wide = lanes_of(as_vector(self.value(d.source, chunk), count)), min(count, PIECE // each)
            for i in range(0, count, wide):
                value = to_memory(join(lanes[i:i + wide]) if wide > 1 else lanes[i])
                place = self._place(d.access, self._local[chunk], self._rows_place(d.access, i))
                store_shared(value, shared_pointer(self.words, place), wide * each)

    # Tiles.

    def _rows_place(self, at: Access, plus: int) -> Integer:
        """Bytes in front of a thread's row in what a tile has of a point."""
        return self.ints.mul(self.ints.add(self.ints.mul(self.column, self.s.vector), plus), element_bytes(at.element))

    def _place(self, at: Access, point: Integer, inside: Integer) -> ir.Value:
        """The shared address of ``inside`` bytes behind the first row's at one of the block's points."""
        words, units = self.words, self.s.side() * element_bytes(at.element) // PIECE
        point, inside = self._word(point), self._word(inside)
        turns = words.mask(words.div(point, max(self.s.piece(self.c, at), LINE // PIECE // units)), LINE // PIECE - 1)
        unit = words.xor(words.add(words.mul(point, units), words.div(inside, PIECE)), turns)
        return words.add(self.addresses[at], words.add(words.mul(unit, PIECE), words.rem(inside, PIECE)))

    def _places(self, at: Access, row: Integer, point: Integer) -> list[ir.Value]:
        """Those of a piece of a row's points: as its first one is that of a piece, the others' numbers are other bits alone."""
        words, units, line = self.words, self.s.side() * element_bytes(at.element) // PIECE, LINE // PIECE
        first = words.sub(self._place(at, point, self.ints.mul(row, element_bytes(at.element))), self.addresses[at])
        begins = {n: words.add(self.addresses[at], words.xor(first, n * PIECE)) for n in {i * units % line for i in range(self.s.piece(self.c, at))}}
        return [words.add(begins[i * units % line], i * units // line * LINE) for i in range(self.s.piece(self.c, at))]

    def _word(self, number: Integer) -> Integer:
        return number if isinstance(number, int) else resize(number, 32)

    def _move(self, at: Access, move) -> None:
        """Go over the pieces of a tile, a thread each time as many as are moved at once."""
        c, s, ints = self.c, self.s, self.ints
        along = s.together(c, at)
        per_row, groups = s.local(c) // s.piece(c, at) // along, s.side() * along // WARP
        total, warps = per_row * groups, s.threads // WARP
        turns = ceil(total / warps)
        at_once = min(turns, most_at_once(s.piece(c, at) * element_bytes(at.element)))
        warp, lane = ints.div(self.thread, WARP), ints.rem(self.thread, WARP)

        def pieces(first: Integer, count: int) -> list[tuple[Integer, Integer, list[ir.Value]]]:
            found = []
            for i in range(count):
                number = ints.add(ints.mul(ints.add(first, i), warps), warp)
                there = []
                if turns * warps > total:
                    there, number = [ints.less(number, total)], ints.min(number, total - 1)
                row = ints.add(ints.mul(ints.rem(number, groups), WARP // along), ints.div(lane, along))
                point = ints.mul(ints.add(ints.mul(ints.div(number, groups), along), ints.rem(lane, along)), s.piece(c, at))
                found.append((row, point, there))
            return found

        if turns < 2 * at_once:
            move(at, pieces(0, at_once))
        else:
            op = scf.ForOp(ints.value(0), ints.value(turns // at_once), ints.value(1), [])
            with ir.InsertionPoint(op.body):
                move(at, pieces(ints.mul(op.induction_variable, at_once), at_once))
                scf.yield_([])
        if left := turns % at_once:
            move(at, pieces(turns - left, left))

    def _fill(self, at: Access, pieces: list[tuple[Integer, Integer, list[ir.Value]]]) -> None:
        each, stored = element_bytes(at.element), stored_type(at.element)
        width = self.s.piece(self.c, at)
        values = [load_vector(self.ints, self.buffers[at.argument], self._offset(at, row, point), stored, width, self._aligned(at)) for row, point, _ in pieces]
        for (row, point, there), value in zip(pieces, values):
            with only_if(*there):
                for x, place in zip(lanes_of(as_vector(value, width)), self._places(at, row, point)):
                    store_shared(x, shared_pointer(self.words, place), each)

    def _drain(self, at: Access, pieces: list[tuple[Integer, Integer, list[ir.Value]]]) -> None:
        ints, c, s, stored = self.ints, self.c, self.s, stored_type(at.element)
        width = s.piece(c, at)
        values = []
        for row, point, _ in pieces:
            lanes = [load_shared(self.words, place, stored, 1) for place in self._places(at, row, point)]
            values.append(as_vector(from_memory(join(lanes), at.element), width))
        for (row, point, there), value in zip(pieces, values):
            inside = list(there)
            if c.count % s.side():
                inside.append(ints.less(ints.add(self.front, row), c.count))
            if s.local(c) * s.cluster > c.width:
                inside.append(ints.less(self._point(point), c.width))

            with only_if(*inside):
                store_vector(ints, value, self.buffers[at.argument], self._offset(at, row, point), self._aligned(at))

    def _point(self, local: Integer) -> Integer:
        """The number in its row of one of the points that the block has: its threads' neighbours, then those of the cluster's others."""
        ints, s = self.ints, self.s
        if s.cluster == 1:
            return local
        turn = ints.add(ints.mul(ints.div(local, s.along), s.cluster), self.rank)
        return ints.add(ints.mul(turn, s.along), ints.rem(local, s.along))

    def _offset(self, at: Access, row: Integer, local: Integer) -> Integer:
        """Where a piece lies in memory, or the last one of the last row where there is none."""
        ints, c, s = self.ints, self.c, self.s
        number, point = ints.add(self.front, row), self._point(local)
        if c.count % s.side():
            number = ints.min(number, c.count - 1)
        if s.local(c) * s.cluster > c.width:
            point = ints.min(point, c.width - s.piece(c, at))
        places = ints.split(number, [c.sizes[d] for d in c.rows])
        begin = ints.dot(places, [at.strides[d] for d in c.rows], at.offset)
        return ints.add(begin, ints.dot(ints.split(point, c.run_sizes), [at.strides[run[-1]] for run in c.runs]))

    def _aligned(self, at: Access) -> int:
        strides = [at.strides[d] for d in self.c.rows] + [at.strides[run[-1]] for run in self.c.runs[:-1]]
        return alignment((at.offset, *strides), self.s.piece(self.c, at))
