"""Whole rows of threads by way of shared memory: a warp copies its threads' rows as they lie, each thread takes its own there, and results go back likewise, so
that accesses to memory are coalesced however long a row is.

Nobody but a warp's own threads looks at its part, so that they wait for each other alone.
"""

from itertools import accumulate
from math import ceil

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, from_memory, join, lanes_of, store, store_vector, to_memory
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.integers import Integer, resize
from inferno.codegen.nvvm.async_copies import await_copies, commit_copies, start_copy
from inferno.codegen.nvvm.builder import Words, load_shared, shared_pointer
from inferno.codegen.nvvm.builder import store as store_shared
from inferno.element_sizes import element_bytes
from inferno.mlir import arith, ir, memref, nvvm
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.packed_rows import PIECE, arrays, packed_reads, slot
from inferno.target import WARP



class StagedRows:
    """What an emitter of ``columns`` does with them.  ``parts`` has the shared address of a warp's part of each access."""

    def begin_staging(self, block: Integer, base: ir.Value) -> None:
        """Start to copy what threads read, to shared address ``base`` and on."""
        ints, c, s, self.words = self.ints, self.c, self.s, Words()
        self.in_warp, warp = ints.rem(self.thread, WARP), ints.div(self.thread, WARP)
        self.in_front = ints.mul(ints.add(ints.mul(block, s.threads), ints.mul(warp, WARP)), s.vector * c.width)  # points of other warps
        found, places = arrays(c)
        begins = list(accumulate((s.threads * self._slot(a)[1] for a in found), initial=0))
        words, number = self.words, resize(ints.value(warp), 32)
        self.parts = {a: words.add(words.add(base, words.mul(number, WARP * self._slot(a)[1])), begins[i]) for a, i in places.items()}
        for at in packed_reads(c):
            self._copy(at)
        commit_copies()

    def end_staging(self) -> None:
        """All of it is there."""
        await_copies(0)
        nvvm.SyncWarpOp(self.words.value(-1))

    def take_staged(self, at: Access) -> list[ir.Value]:
        """The points of a thread's rows."""
        length, width = self._slot(at)[0], self._width(at)
        stored, own, step = stored_type(at.element), self._own(at), element_bytes(at.element)
        parts = [load_shared(self.words, self.words.add(own, i), stored, width // step) for i in range(0, length, width)]
        return [x for p in parts for x in lanes_of(from_memory(p, at.element))]

    def write_staged(self, written: list[tuple[Access, list[ir.Value]]]) -> None:
        """Write all points of a thread's rows, once all that threads read was taken."""
        for at in packed_reads(self.c):
            self.read(at, 0)
        for at, points in written:
            step, width, own = element_bytes(at.element), self._width(at), self._own(at)
            each = width // step
            for i in range(0, len(points), each):
                value = to_memory(join(points[i:i + each]) if each > 1 else points[i])
                store_shared(value, shared_pointer(self.words, self.words.add(own, i * step)), width)
        nvvm.SyncWarpOp(self.words.value(-1))
        for at, _ in written:
            self._copy_back(at)

    # What warps copy: pieces, of which each thread has every 32nd.

    def _copy(self, at: Access) -> None:
        ints, i64, step = self.ints, ir.IntegerType.get_signless(64), element_bytes(at.element)
        per, total = PIECE // step, self.c.count * self.c.width
        source = arith.index_cast(i64, memref.ExtractAlignedPointerAsIndexOp(self.buffers[at.argument]).result)
        for number, conditions in self._pieces(at):
            point = ints.add(self.in_front, ints.mul(number, per))
            if self.full is not None or self.mine is not None:
                conditions = [*conditions, ints.less(point, total)]

            with only_if(*conditions):
                given = None
                if total % per:
                    given = resize(ints.value(ints.mul(ints.min(ints.sub(total, point), per), step)), 32)
                wide = resize(ints.value(ints.add(point, at.offset)), 64)
                start_copy(self.parts[at], self._place(at, number), source, arith.muli(wide, arith.constant(i64, step)), PIECE, given)

    def _copy_back(self, at: Access) -> None:
        ints, buffer, words, step = self.ints, self.buffers[at.argument], self.words, element_bytes(at.element)
        per, total, stored = PIECE // step, self.c.count * self.c.width, stored_type(at.element)
        for number, conditions in self._pieces(at):
            point = ints.add(self.in_front, ints.mul(number, per))
            if self.full is not None or self.mine is not None:
                conditions = [*conditions, ints.less(point, total - per + 1)]

            with only_if(*conditions):
                piece = load_shared(words, words.add(self.parts[at], self._place(at, number)), stored, per)
                store_vector(ints, as_vector(piece, per), buffer, ints.add(point, at.offset), per)
        if total % per:  # the last ones are no piece, of the warp that has them
            point = ints.add(self.in_warp, total - total % per)
            own = ints.sub(point, self.in_front)  # huge where these are behind it

            with only_if(ints.less(self.in_warp, total % per), ints.less(own, WARP * self.s.vector * self.c.width)):
                piece, inside = ints.div(own, per), ints.mul(ints.rem(own, per), step)
                address = words.add(words.add(self.parts[at], self._place(at, piece)), resize(ints.value(inside), 32))
                store(ints, load_shared(words, address, stored, 1), buffer, ints.add(point, at.offset))

    def _pieces(self, at: Access) -> list[tuple[Integer, list[ir.Value]]]:
        """The numbers of a thread's pieces, and under which conditions they are any of its warp's."""
        pieces, found = WARP * self._slot(at)[0] // PIECE, []
        for i in range(ceil(pieces / WARP)):
            number = self.ints.add(self.in_warp, i * WARP)
            found.append((number, [self.ints.less(number, pieces)] if (i + 1) * WARP > pieces else []))
        return found

    def _place(self, at: Access, number: Integer) -> ir.Value:
        """Where a piece lies in the warp's part."""
        (length, step), ints = self._slot(at), self.ints
        place = ints.mul(number, PIECE)
        if step > length:
            place = ints.add(place, ints.mul(ints.div(number, length // PIECE), step - length))
        return resize(ints.value(place), 32)

    def _own(self, at: Access) -> ir.Value:
        """The address of what a thread has."""
        return self.words.add(self.parts[at], self.words.mul(resize(self.ints.value(self.in_warp), 32), self._slot(at)[1]))

    def _width(self, at: Access) -> int:
        """Bytes of the accesses to it."""
        length = self._slot(at)[0]
        return min(PIECE, length & -length)

    def _slot(self, at: Access) -> tuple[int, int]:
        return slot(at, self.s.vector * self.c.width)
