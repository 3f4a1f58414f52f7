"""Sums of the columns of rows that are read as if several were one (``inferno.schedule.reductions.joined_rows``).

A thread has the same vector of each turn of ``rows`` rows: its lanes' columns, and their rows in a turn, do not change.  What all rows have in common is
read once; what a row's columns have in common is read for the few rows that a vector touches, and each lane takes its own.  What a block's lanes have
lies in shared memory as the rows do: a column's values are as far apart as there are columns, and are added up in the same order each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import as_vector, element_type, from_memory, join, lanes_of, load, load_vector, store, store_vector, to_memory
from inferno.codegen.builders.integers import Integer, resize
from inferno.codegen.reductions.joining import Values
from inferno.codegen.reductions.reductions import Emitter
from inferno.mlir import arith, gpu, ir, memref, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.reductions.joined_rows import is_joined
from inferno.schedule.reductions.reduction_schedule import TOGETHER
from inferno.symbolic import floordiv

Places = dict[tuple[int, ...], Integer]
"""Coordinates of the runs other than the columns'; of rows that of a turn's first one."""


@dataclass
class JoinedRows(Emitter):
    """A thread's vector begins at ``flat`` in a turn; its lanes are in ``rows`` of it, and in ``columns``.  ``kept`` is what is read once; ``ragged``: of the
    turn there may be the first rows alone."""

    flat: Integer = 0
    rows: list[Integer] = field(default_factory=list)
    columns: list[Integer] = field(default_factory=list)
    kept: dict[tuple, ir.Value] = field(default_factory=dict)
    ragged: bool = False

    @property
    def row(self) -> tuple[int, ...]:
        return self.c.terms[-1]

    @property
    def column(self) -> tuple[int, ...]:
        return self.c.points[-1]

    def place(self, tile: Integer, column: Integer) -> None:
        ints, c, s = self.ints, self.c, self.s
        self.flat = ints.mul(column, s.vector)
        lanes = [ints.add(self.flat, i) for i in range(s.vector)]
        self.rows, self.columns = [ints.div(x, c.inner) for x in lanes], [ints.rem(x, c.inner) for x in lanes]
        self.base = ints.mul(tile, c.inner)
        self.at = dict(zip(c.points[:-1], ints.split(tile, [c.size(run) for run in c.points[:-1]])))
        for a in c.sources:
            if a is not None and not any(a.strides[run[-1]] for run in c.terms):
                self.kept[_key(a)] = self.load(a, self.at)

    def coordinates(self, unit: Integer) -> Places:
        ints, c, s = self.ints, self.c, self.s
        *outer, last = [c.size(run) for run in c.terms]
        *terms, turn = ints.split(unit, [*outer, floordiv(last, s.rows)])
        return {**self.at, **dict(zip(c.terms, [*terms, ints.mul(turn, s.rows)]))}

    # What is read, and written beside the sums.

    def load(self, at: Access, places: Places) -> ir.Value:
        ints, s = self.ints, self.s
        if _key(at) in self.kept:
            return self.kept[_key(at)]
        buffer, of_row, of_column = self.buffers[at.argument], at.strides[self.row[-1]], at.strides[self.column[-1]]
        begin = self.offset(at, places)
        if is_joined(at, self.c):
            if not self.ragged:
                return load_vector(ints, buffer, ints.add(begin, self.flat), at.element, s.vector, self.alignment(at, places))
            return join([load(ints, buffer, x, at.element) for x in self.each(at, places)])
        if of_column:
            return join([load(ints, buffer, ints.add(begin, ints.mul(x, of_column)), at.element) for x in self.columns])
        return self.of_rows(at, places, begin, of_row) if of_row else load(ints, buffer, begin, at.element)

    def offset(self, at: Access, places: Places) -> Integer:
        return self.ints.dot(list(places.values()), [at.strides[run[-1]] for run in places], at.offset)

    def alignment(self, at: Access, places: Places) -> int:
        strides = {run: at.strides[run[-1]] * (self.s.rows if run == self.row else 1) for run in places}
        return self.aligned(at, strides, self.column)

    def there(self, places: Places) -> Integer:
        """Rows from a turn's first one on."""
        return self.ints.sub(self.c.size(self.row), places[self.row])

    def known_rows(self, places: Places) -> list[Integer]:
        """The lanes' rows in a turn, of those that are not there the last one that is."""
        if not self.ragged:
            return self.rows
        last = self.ints.sub(self.there(places), 1)
        return [self.ints.min(r, last) for r in self.rows]

    def each(self, at: Access, places: Places) -> list[Integer]:
        """Where each lane's element is."""
        begin = self.offset(at, places)
        return [self.ints.add(begin, self.ints.dot([r, x], [self.c.inner, 1])) for r, x in zip(self.known_rows(places), self.columns)]

    def of_rows(self, at: Access, places: Places, begin: Integer, step: int) -> ir.Value:
        """What each lane's row has: one number where no vector touches two."""
        ints, c, s, buffer = self.ints, self.c, self.s, self.buffers[at.argument]
        furthest = c.inner - gcd(s.vector, c.inner)  # the column at which a vector may begin
        rows = self.known_rows(places)
        touched = [ints.min(ints.add(rows[0], j), rows[-1]) if j else rows[0] for j in range((furthest + s.vector - 1) // c.inner + 1)]
        read = [load(ints, buffer, ints.add(begin, ints.mul(r, step)), at.element) for r in touched]
        if len(read) == 1:
            return read[0]
        lanes = []
        for i, row in enumerate(self.rows):
            value = read[0]
            for j in range(1, (furthest + i) // c.inner + 1):
                value = arith.select(ints.less(row, ints.add(self.rows[0], j)), value, read[j])
            lanes.append(value)
        return join(lanes)

    def indices(self, places: Places) -> Values:
        ints, c = self.ints, self.c
        found = [arith.constant(ir.IndexType.get(), 0)] * len(c.sizes)
        if not walk(c.generic, "linalg.index"):
            return found
        lanes = {self.row: [ints.add(places[self.row], r) for r in self.known_rows(places)], self.column: self.columns}
        for run in (*c.points, *c.terms):
            sizes = [c.sizes[d] for d in run]
            each = [[ints.index(x) for x in ints.split(x, sizes)] for x in lanes.get(run, [places[run]] if run in places else [])]
            for j, d in enumerate(run):
                found[d] = join([x[j] for x in each]) if run in lanes else each[0][j]
        return found

    def terms(self, read: Sequence[Sequence[ir.Value | None]], where: Sequence[Places]) -> list[tuple[Values, Values]]:
        found = super().terms(read, where)
        return [(self.of_rows_there(terms, places), points) for (terms, points), places in zip(found, where)] if self.ragged else found

    def of_rows_there(self, terms: Values, places: Places) -> Values:
        """Nothing in lanes of rows behind the last."""
        left = self.there(places)
        here = join([self.ints.less(r, left) for r in self.rows])
        return [arith.select(here, t, self.same(k.identity(element_type(t)), t)) for k, t in zip(self.c.combiners, terms)]

    def write(self, points: Values, place: Places, here: ir.Value | None) -> None:
        ints = self.ints
        for value, at in zip(points, self.c.stored):
            buffer = self.buffers[at.argument]
            if not self.ragged:
                with only_if(here):
                    store_vector(ints, value, buffer, ints.add(self.offset(at, place), self.flat), self.alignment(at, place))
                continue
            for x, row, to in zip(lanes_of(value), self.rows, self.each(at, place)):
                with only_if(ints.less(row, self.there(place))):
                    store(ints, x, buffer, to)

    # The last rows, and where lanes meet.

    def reduce_rest(self, running: Values, chunk: Integer, lane: Integer) -> Values:
        """The same with the rows behind the last whole turn, which the last chunk's first threads have."""
        ints, c, s = self.ints, self.c, self.s
        turns = s.units(c)
        mine = arith.andi(ints.equal(lane, 0), ints.equal(chunk, s.chunks - 1))
        if not isinstance(turns, int):  # there may be none
            mine = arith.andi(mine, ints.less(turns * s.rows, c.length))
        return if_else(mine, [v.type for v in running], lambda: replace(self, ragged=True).some(turns, None, running, 1), lambda: running)

    def number(self, unit: Integer, lane: int = 0) -> ir.Value:
        """The place of a turn's first row."""
        return super().number(self.ints.mul(unit, self.s.rows), lane)

    def meet_across(self, values: Values, thread: Integer, lane: Integer, column: Integer, chunk: Integer) -> None:
        ints, c, s, joining = self.ints, self.c, self.s, self.joining
        if c.extremum is not None:
            values = [values[0], self.places_of_lanes(values[1])]
        types = [k.total for k in joining.combiners]
        for value, array in zip(values, self.shared):
            for i, x in enumerate(lanes_of(value)):
                memref.store(to_memory(x), array, [ints.index(ints.add(thread, i * s.pitch))])
        gpu.barrier()

        def place(number: Integer) -> ir.Value:
            return ints.index(ints.add(ints.mul(ints.rem(number, s.vector), s.pitch), ints.div(number, s.vector)))

        def get(number: Integer) -> Values:
            at = place(number)
            return [from_memory(memref.load(a, [at]), t) for a, t in zip(self.shared, types)]

        def get_if(number: Integer, count: int) -> Values:
            inside = ints.less(number, count)
            return [arith.select(inside, v, i) for v, i in zip(get(ints.min(number, count - 1)), joining.identities())]

        rows = s.along * s.rows
        while rows > TOGETHER:
            left = -(-rows // TOGETHER)
            for number, condition in self.numbers(thread, left * c.inner):
                with only_if(*condition):
                    numbers = [ints.add(number, i * left * c.inner) for i in range(-(-rows // left))]
                    found = joining.tree([get(x) if (i + 1) * left <= rows else get_if(x, rows * c.inner) for i, x in enumerate(numbers)])
                    for value, array in zip(found, self.shared):
                        memref.store(to_memory(value), array, [place(number)])
            gpu.barrier()
            rows = left
        for number, condition in self.numbers(thread, c.inner):
            with only_if(*condition):
                self.put(joining.tree([get(ints.add(number, i * c.inner)) for i in range(rows)]), ints.add(self.base, number), chunk)

    def places_of_lanes(self, places: ir.Value) -> ir.Value:
        """Those of lanes' own rows, of places of turns; that of nothing stays."""
        width = self.joining.width
        none = as_vector(self.joining.identities()[1], self.s.vector)
        rows = join([resize(self.ints.value(r), width) for r in self.rows])
        return arith.select(arith.cmpi(arith.CmpIPredicate.eq, places, none), places, arith.addi(places, rows))


def _key(at: Access) -> tuple:
    return at.argument, at.strides, at.offset
