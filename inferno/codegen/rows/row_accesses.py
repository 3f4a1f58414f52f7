"""Where the points of rows lie in memory, and how a thread reads and writes a chunk of them, in vectors where they are neighbours."""

from collections.abc import Sequence

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, load, load_vector, store, store_vector
from inferno.codegen.builders.integers import Integer
from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access, Joined
from inferno.schedule.matmul.contraction import Destination
from inferno.schedule.rows.kernel import Part
from inferno.symbolic import alignment


class RowAccesses:
    """What an emitter of ``rows`` does with tensors."""

    def row_offset(self, at: Access) -> Integer:
        return self.ints.dot(list(self.row.values()), [at.strides[d] for d in self.row], at.offset)

    def flat(self, at: Access) -> bool:
        """Whether a row's points are neighbours."""
        return self.c.flat(at)

    def together(self) -> bool:
        """Whether the lanes of a vector differ in the innermost coordinate only."""
        return len(self.c.runs) == 1 or self.c.run_sizes[-1] % self.s.vector == 0

    def offset(self, at: Access, point: Integer) -> Integer:
        base = self.row_offset(at)
        if self.flat(at):
            return self.ints.add(base, point)
        return self.ints.add(base, self.ints.dot(self.ints.split(point, self.c.run_sizes), [at.strides[run[-1]] for run in self.c.runs]))

    def alignment(self, at: Access) -> int:
        """Neighbouring elements that are aligned together."""
        strides = [at.strides[d] for d in self.row]
        if not self.flat(at):
            strides += [at.strides[run[-1]] for run in self.c.runs[:-1]]
        return alignment((at.offset, *strides), self.s.vector)

    def read(self, at: Access, chunk: object) -> ir.Value:
        buffer = self.buffers[at.argument]
        if at in self._rows:
            return self._rows[at]
        key = at, chunk
        if key not in self._points and self.kept is not None and self.kept.has(at):
            self._points[key] = self.kept.load(at, chunk)
        if key not in self._points:
            point, vector = self._chunk[chunk][0], self.s.vector
            inner = at.strides[self.c.runs[-1][-1]]
            if isinstance(at, Joined):
                value = self.read_joined(at.pieces, point)
            elif self.s.ragged:
                value = self.read_ragged(at, point, self._chunk[chunk][1])
            elif vector == 1 or (self.together() and inner == 0 and not self.flat(at)):
                value = load(self.ints, buffer, self.offset(at, point), at.element)
            elif self.flat(at) or (self.together() and inner == 1):
                value = load_vector(self.ints, buffer, self.offset(at, point), at.element, vector, self.alignment(at))
            else:
                value = join([load(self.ints, buffer, self.offset(at, self.ints.add(point, i)), at.element) for i in range(vector)])
            if self.kept is not None:
                self.kept.store(at, chunk, value)
            self._points[key] = value
        return self._points[key]

    def read_joined(self, pieces: Sequence[tuple[int, Access]], point: Integer) -> ir.Value:
        """A vector of one of several pieces, none of which begins inside of one."""
        (_, at), vector = pieces[0], self.s.vector
        if len(pieces) == 1:
            offset, buffer = self.offset(at, point), self.buffers[at.argument]
            if vector > 1 and self.flat(at):
                return load_vector(self.ints, buffer, offset, at.element, vector, self.alignment(at))
            value = load(self.ints, buffer, offset, at.element)
            return value if vector == 1 else as_vector(value, vector)
        half = len(pieces) // 2
        type_ = at.element if vector == 1 else ir.VectorType.get([vector], at.element)
        first = self.ints.less(point, pieces[half][0])
        return if_else(first, [type_], lambda: [self.read_joined(pieces[:half], point)], lambda: [self.read_joined(pieces[half:], point)])[0]

    def write(self, stored: list, chunk: object) -> None:
        if not stored:
            return
        if self.s.ragged:
            self.write_ragged(stored, chunk)
            return
        point, inside = self._chunk[chunk]
        values = [self.value(d.source, chunk) for d in stored]

        def put_one(at: Access, value: ir.Value) -> None:
            vector = self.s.vector
            buffer = self.buffers[at.argument]
            if at in self.gathered:
                self.gather(at, point, value)
            elif vector == 1:
                store(self.ints, value, buffer, self.offset(at, point))
            elif not self.flat(at) and not (self.together() and at.strides[self.c.runs[-1][-1]] == 1):
                for i, lane in enumerate(lanes_of(as_vector(value, vector))):
                    store(self.ints, lane, buffer, self.offset(at, self.ints.add(point, i)))
            else:
                store_vector(self.ints, as_vector(value, vector), buffer, self.offset(at, point), self.alignment(at))

        with only_if(inside, self.mine):
            for destination, value in zip(stored, values):
                with only_if(*self.within(destination, point)):
                    put_one(destination.access, value)

    def within(self, destination: Destination, point: Integer) -> list[ir.Value]:
        """Conditions under which a vector's points are a part of the result: all are, or none."""
        found = []
        for d, begin, end in destination.inside if isinstance(destination, Part) else ():
            place, times = (self.row[d], 1) if d in self.row else self.column(d, point)
            found += [self.ints.less(place, end * times)] if end < self.c.sizes[d] else []
            found += [self.ints.less(begin * times - 1, place)] if begin else []
        return found

    def column(self, d: int, point: Integer) -> tuple[Integer, int]:
        """Where a row's point is in a loop, and by how much that is counted for each of its iterations."""
        run, first, times = self.c.in_run(d)
        place = self.ints.split(point, self.c.run_sizes)[run]
        return (place if first else self.ints.rem(place, self.c.sizes[d] * times)), times

    def write_rows(self, phase: int) -> None:
        """The values of rows that are known since the last phase, by one of a row's threads."""
        found = [d for d in self.c.destinations if self.c.values[d.source].per_row and self.c.computed(d.source) == phase]
        if not found:
            return

        with only_if(self.ints.equal(self.first, 0), self.mine):
            for d in found:
                self.put_row(d.access, self._rows[d.source])

    def put_row(self, at: Access, value: ir.Value) -> None:
        """Write what is known of the row."""
        store(self.ints, value, self.buffers[at.argument], self.row_offset(at))
