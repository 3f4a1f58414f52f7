"""Rows that are contiguous, which a thread reads and writes together by vectors; the last thread may have fewer."""

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, load, load_vector, store, store_vector
from inferno.codegen.builders.integers import Integer
from inferno.mlir import ir, scf
from inferno.schedule.analysis.accesses import Access


class PackedVectors:
    """What an emitter of ``columns`` does with them.  ``full``: whether a thread has as many rows as others, None if all have."""

    def take_apart(self, at: Access) -> dict[tuple[Access, int], ir.Value]:
        """The points of a thread's rows, which it reads together."""
        vector, width = self.s.vector, self.c.width
        points = self.take_staged(at) if self.s.whole else lanes_of(self.neighbours(at, vector * width, self.aligned_rows(at)))
        return {(at, u): join([points[i * width + u] for i in range(vector)]) for u in range(width)}

    def neighbours(self, at: Access, count: int, aligned: int) -> ir.Value:
        """So many elements from a vector's first row on, of which the last thread has fewer: those that are there."""
        ints, buffer, begin = self.ints, self.buffers[at.argument], self.row_offset(at)
        if self.full is None:
            return load_vector(ints, buffer, begin, at.element, count, aligned)
        last = at.offset + (self.c.count - 1) * at.strides[self.c.rows[-1]] + count // self.s.vector - 1
        type_ = ir.VectorType.get([count], at.element)
        return if_else(
            self.full, [type_],
            lambda: [as_vector(load_vector(ints, buffer, begin, at.element, count, aligned), count)],
            lambda: [join([load(ints, buffer, ints.min(ints.add(begin, i), last), at.element) for i in range(count)])],
        )[0]

    def store_neighbours(self, at: Access, value: ir.Value, begin: Integer, aligned: int) -> None:
        """Write what ``neighbours`` would read."""
        ints, buffer, count = self.ints, self.buffers[at.argument], ir.VectorType(value.type).shape[0]
        if self.full is None:
            store_vector(ints, value, buffer, begin, aligned)
            return
        last = at.offset + (self.c.count - 1) * at.strides[self.c.rows[-1]] + count // self.s.vector - 1
        op = scf.IfOp(self.full, has_else=True)
        with ir.InsertionPoint(op.then_block):
            store_vector(ints, value, buffer, begin, aligned)
            scf.yield_([])
        with ir.InsertionPoint(op.else_block):
            for i, x in enumerate(lanes_of(value)):
                place = ints.add(begin, i)
                with only_if(ints.less(place, last + 1)):
                    store(ints, x, buffer, place)
            scf.yield_([])

    def aligned_rows(self, at: Access) -> int:
        """Neighbouring points of a thread's rows that are aligned together."""
        aligned, strides = 1, [at.strides[d] for d in self.row if d != self.c.rows[-1]]
        while all(x % (2 * aligned) == 0 for x in (self.s.vector * self.c.width, at.offset, *strides)):
            aligned *= 2
        return aligned
