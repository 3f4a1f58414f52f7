"""A thread's own values in shared memory, used as further registers: no other thread reads them, so no barrier is needed.

Rows that are too long for the registers of a cluster's threads are read once if they fit this.  A vector's pieces of 16 bytes lie each among those of
all threads, so that a warp's accesses are whole lines.
"""

from dataclasses import dataclass, field

from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.async_copies import start_copy
from inferno.codegen.nvvm.builder import Words, integer_type, load_shared, shared_pointer, store
from inferno.mlir import arith, ir, memref
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.row_schedule import Rows


@dataclass
class KeptVectors:
    """Keeps what ``accesses`` read in the first ``schedule.kept`` turns of loops, from shared address ``base`` on."""

    accesses: list[Access]
    schedule: Rows
    base: ir.Value
    words: Words = field(default_factory=Words)
    known: set[Access] = field(default_factory=set)
    own: ir.Value | None = None  # a thread's address of the first piece; None outside of turns that keep
    at: Integer = 0  # and of this turn's

    def begin(self, thread: ir.Value) -> None:
        """Turns that keep, or read what was kept, begin."""
        self.own = self.words.add(self.base, self.words.shl(self._word(thread), 4))

    def end(self, read: list[Access]) -> None:
        """They have ended, and ``read`` is kept."""
        self.own = None
        self.known |= {a for a in read if a in self.accesses}

    def turn(self, number: ir.Value) -> None:
        if self.own is not None:
            self.at = self.words.add(self.own, self.words.mul(self._word(number), self._each()))

    def has(self, at: Access) -> bool:
        return self.own is not None and at in self.known

    def load(self, at: Access, chunk: int) -> ir.Value:
        """What was read of a turn's chunk."""
        width, _ = self._pieces(at)
        parts = [load_shared(self.words, self.words.add(self.at, p), at.element, width) for p in self._places(at, chunk)]
        return parts[0] if len(parts) == 1 else join([x for p in parts for x in lanes_of(p)])

    def store(self, at: Access, chunk: int, value: ir.Value) -> None:
        """Keep what was read, if it is to be."""
        if self.own is None or at not in self.accesses:
            return
        width, pieces = self._pieces(at)
        lanes = lanes_of(value) if pieces > 1 or width == 1 else []
        for i, place in enumerate(self._places(at, chunk)):
            part = value if pieces == 1 and width > 1 else lanes[i] if width == 1 else join(lanes[i * width:(i + 1) * width])
            store(part, shared_pointer(self.words, self.words.add(self.at, place)), width * at.element.width // 8)

    def bring(self, at: Access, chunk: int, ints: Integers, buffer: ir.Value, offset: Integer, partial: bool) -> None:
        """Start to copy a vector from ``offset`` elements of a buffer on to where a turn's chunk is kept; ``partial``: it may reach beyond the buffer."""
        each, i64 = at.element.width // 8, integer_type(64)
        width, _ = self._pieces(at)
        count = ir.MemRefType(buffer.type).shape[0]
        source = arith.index_cast(i64, memref.ExtractAlignedPointerAsIndexOp(buffer).result)
        for i, place in enumerate(self._places(at, chunk)):
            begin, given = ints.add(offset, i * width), None
            if partial:
                begin = ints.min(begin, (count - 1) // width * width)
                given = self._word(ints.value(ints.mul(ints.min(ints.sub(count, begin), width), each)))
            wide = ints.value(begin)
            wide = wide if wide.type == i64 else arith.extui(i64, wide)
            start_copy(self.words.value(self.at), self.words.value(place), source, arith.muli(wide, arith.constant(i64, each)), width * each, given)

    def _word(self, number: ir.Value) -> ir.Value:
        return number if number.type == self.words.type else arith.trunci(self.words.type, number)

    def _pieces(self, at: Access) -> tuple[int, int]:
        """Elements of a piece, and pieces of a vector."""
        width = min(self.schedule.vector, 128 // at.element.width)
        return width, self.schedule.vector // width

    def _each(self) -> int:
        """Bytes of a turn."""
        return sum(self.schedule.unroll * self._pieces(a)[1] for a in self.accesses) * 16 * self.schedule.threads

    def _places(self, at: Access, chunk: int) -> list[int]:
        before = sum(self.schedule.unroll * self._pieces(a)[1] for a in self.accesses[: self.accesses.index(at)])
        pieces = self._pieces(at)[1]
        return [16 * self.schedule.threads * (before + chunk * pieces + i) for i in range(pieces)]
