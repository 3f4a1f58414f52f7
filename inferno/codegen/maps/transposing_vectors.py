"""Elementwise kernels that transpose by vectors of 16 bytes, or what of these is aligned: read along the one loop, written along the other.

As in ``transposing``, a tile goes through shared memory.  There it is in words of at least 4 bytes, of which each holds neighbours along
``across``; a thread reads the words of as many rows as a vector has elements, and has a vector along the last loop of each neighbour.
Both ways a warp's accesses of global memory are whole lines of 128 bytes, and those of shared memory go to different banks.
"""

from dataclasses import dataclass

from inferno.codegen.builders.elements import as_vector, from_memory, join, lanes_of, load, load_vector, store, store_vector
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.maps.transposing import Transposing, loop_indices
from inferno.element_sizes import element_bytes
from inferno.mlir import gpu, ir, vector, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.maps.pointwise import Pointwise, aligned
from inferno.schedule.maps.transposed import LINE


@dataclass(frozen=True)
class _Lines:
    """Where the words of a tile of ``width`` elements a row are in shared memory."""

    element: ir.Type
    vector: int
    width: int

    @property
    def packed(self) -> int:
        """Elements of a word."""
        return max(1, 4 // element_bytes(self.element))

    @property
    def word(self) -> ir.Type:
        return stored_type(self.element) if self.packed == 1 else ir.IntegerType.get_signless(32)

    @property
    def vectors(self) -> int:
        """Those that are a line of memory."""
        return LINE // (element_bytes(self.element) * self.vector)

    @property
    def rows(self) -> int:
        """Of which a warp has a line each."""
        return 32 // self.vectors

    @property
    def pitch(self) -> int:
        return self.width // self.packed + 1

    @property
    def group(self) -> int:
        """Words from the first row of a vector's rows to the next vector's: those of a line begin an access's columns apart in the banks."""
        banks = LINE // (element_bytes(self.element) * self.packed)
        return self.vector * self.pitch + (banks // self.vectors - self.vector * self.pitch) % banks

    def count(self, rows: int) -> int:
        return rows // self.vector * self.group


@dataclass
class VectorTransposing(Transposing):
    """``shared``: one array for each transposed input."""

    def emit(self) -> None:
        ints, s = self.ints, self.schedule
        (width, height), last = s.sides, len(self.point.runs) - 1
        thread = ints.thread(s.threads)
        block = ints.block()
        if self.schedule.backwards:
            block = ints.sub(self.blocks() - 1, block)
        sides = {self.across: width, last: height}
        first = [ints.mul(c, sides.get(r, 1)) for r, c in enumerate(ints.split(block, self.grid()))]
        lane, warp, warps = ints.rem(thread, 32), ints.div(thread, 32), s.threads // 32
        lines = self.lines(self.point.sources[self.transposed[0]])
        slow, fast = ints.div(lane, lines.vectors), ints.rem(lane, lines.vectors)

        def at(i: Integer, j: Integer, wide: int) -> list[Integer]:
            """Coordinates of a tile's vector along the run ``wide``, clamped into the box."""
            found = list(first)
            for run, x in ((self.across, i), (last, j)):
                found[run] = ints.add(found[run], x)
                if self.point.run_sizes[run] % sides[run] != 0:
                    found[run] = ints.min(found[run], self.point.run_sizes[run] - (s.vector if run == wide else 1))
            return found

        # A warp reads a line of each of four rows at a time, and writes one of each of four columns; fewer by narrower vectors.
        rows = [
            (ints.add(ints.mul(ints.div(warp, s.across), lines.rows), ints.add(slow, lines.rows * turn)),
             ints.mul(ints.add(ints.mul(ints.rem(warp, s.across), lines.vectors), fast), s.vector))
            for turn in range(0, height // lines.rows, warps // s.across)
        ]
        loaded = [
            (array, j, i, self.vector_at(self.point.sources[n], at(i, j, self.across)))
            for n, array in zip(self.transposed, self.shared) for j, i in rows
        ]
        for array, j, i, value in loaded:
            begin = ints.add(self.row(lines, j), ints.div(i, lines.packed))
            words = lanes_of(value if lines.packed == 1 else vector.bitcast(ir.VectorType.get([s.vector // lines.packed], lines.word), value))
            for k, word in enumerate(words):
                store(ints, word, array, ints.add(begin, k))
        gpu.barrier()
        for turn in range(0, width // lines.packed // lines.rows, warps // s.unroll):
            group = ints.add(ints.mul(ints.rem(warp, s.unroll), lines.vectors), fast)
            column = ints.add(ints.mul(ints.div(warp, s.unroll), lines.rows), ints.add(slow, lines.rows * turn))
            self.columns(lines, group, column, first, at)

    def lines(self, source: Access) -> _Lines:
        return _Lines(source.element, self.schedule.vector, self.schedule.sides[0])

    def row(self, lines: _Lines, j: Integer) -> Integer:
        """Where row ``j`` begins."""
        ints = self.ints
        return ints.add(ints.mul(ints.div(j, lines.vector), lines.group), ints.mul(ints.rem(j, lines.vector), lines.pitch))

    def vector_at(self, source: Access, where: list[Integer]) -> ir.Value:
        """A vector of a transposed input as it is in memory."""
        stored = stored_type(source.element)
        offset = self.ints.dot(where, self.point.run_strides(source), source.offset)
        return load_vector(self.ints, self.buffers[source.argument], offset, stored, self.schedule.vector, self.schedule.vector)

    def columns(self, lines: _Lines, group: Integer, column: Integer, first: list[Integer], at) -> None:
        """The points of the rows of ``group`` and of the columns that a word holds."""
        ints, last, lanes = self.ints, len(self.point.runs) - 1, self.schedule.vector
        begin, held = ints.add(ints.mul(group, lines.group), column), {}
        for n, array in zip(self.transposed, self.shared):
            words = [load(ints, array, begin, lines.word, r * lines.pitch) for r in range(lanes)]
            if lines.packed == 1:
                held[n] = [words]
                continue
            parts = [lanes_of(vector.bitcast(ir.VectorType.get([lines.packed], stored_type(lines.element)), join([w]))) for w in words]
            held[n] = [list(each) for each in zip(*parts)]
        j = ints.mul(group, lanes)
        for e in range(lines.packed):
            i = ints.add(ints.mul(column, lines.packed), e)
            where = at(i, j, last)
            values = [
                from_memory(join(held[n][e]), s.element) if n in held else self.operand_vector(s, where) for n, s in enumerate(self.point.sources)
            ]
            results = inline_body(self.point.block, values, self.index_vectors(where), lanes, outside=self.point.outside(self.buffers))
            self.write([as_vector(r, lanes) for r in results], where, ints.add(first[self.across], i), ints.add(first[last], j))

    def operand_vector(self, source: Access | None, where: list[Integer]) -> ir.Value:
        """What the lanes read of an input that is not transposed."""
        if source is None:
            return super().operand(-1, None, 0, 0, where)
        strides, lanes = self.point.run_strides(source), self.schedule.vector
        offset, buffer = self.ints.dot(where, strides, source.offset), self.buffers[source.argument]
        if strides[-1] == 0:
            return load(self.ints, buffer, offset, source.element)
        if strides[-1] == 1:
            return load_vector(self.ints, buffer, offset, source.element, lanes, aligned(self.point, source, len(strides) - 1, lanes))
        return join([load(self.ints, buffer, self.ints.add(offset, self.ints.mul(strides[-1], k)), source.element) for k in range(lanes)])

    def index_vectors(self, where: list[Integer]) -> list[ir.Value]:
        if not walk(self.point.generic, "linalg.index"):
            return []
        lanes = [loop_indices(self.point, self.ints, [*where[:-1], self.ints.add(where[-1], k)]) for k in range(self.schedule.vector)]
        inner = self.point.runs[-1]
        return [join([x[d] for x in lanes]) if d in inner else lanes[0][d] for d in range(len(self.point.sizes))]

    def store(self, results: list[ir.Value], where: list[Integer]) -> None:
        ints, lanes = self.ints, self.schedule.vector
        for destination, value in zip(self.point.destinations, results):
            strides, buffer = self.point.run_strides(destination), self.buffers[destination.argument]
            offset = ints.dot(where, strides, destination.offset)
            if strides[-1] == 1:
                store_vector(ints, value, buffer, offset, aligned(self.point, destination, len(strides) - 1, lanes))
                continue
            for k, x in enumerate(lanes_of(value)):
                store(ints, x, buffer, ints.add(offset, ints.mul(strides[-1], k)))


def shared_words(point: Pointwise, transposed: tuple[int, ...], schedule: Elementwise) -> list[tuple[int, ir.Type]]:
    """Count and type of the array that each transposed input needs."""
    width, height = schedule.sides
    lines = [_Lines(point.sources[n].element, schedule.vector, width) for n in transposed]
    return [(one.count(height), one.word) for one in lines]
