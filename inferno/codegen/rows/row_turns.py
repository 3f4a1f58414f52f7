"""How a thread goes over its part of a row: all chunks at once, which stay in registers, or by a loop that keeps only totals."""

from itertools import pairwise

from inferno.codegen.builders.elements import opaque_vector, tree
from inferno.codegen.builders.integers import Integer
from inferno.codegen.rows.online_sums import bound, scaled
from inferno.mlir import ir, scf
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.row_steps import RowStep

# Points of a row of float32 that are all added in float64.  Means of 36 numbers whose lanes were added in float32 had 1.5 units' error, eager's
# have 0.7.  Numbers that were read in 16 bits have bits to spare, and small kernels took 0.3 us longer on an H200.
SHORT = 64


class RowTurns:
    """What an emitter of ``rows`` does in a phase; a turn is a round of the loop, of ``s.unroll`` chunks, ``self._chunk`` where its chunks are."""

    def all_turns(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        """The totals of a thread with what it writes."""
        return self.held(reducing, running, stored) if self.s.held else self.again(reducing, running, stored)

    def held(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        """The totals of a thread, all of whose chunks are kept."""
        values: list[list[ir.Value]] | None = None
        chunks = range(self.s.chunks(self.c))
        if self.s.packed:
            self._points = {key: opaque_vector(v) for key, v in self._points.items() if isinstance(key[0], Access)}
        for chunk in chunks:
            self.place(chunk, self.ints.add(self.first, chunk * self.stride), self.scanned_number if self.c.scans else chunk)
        for chunk in chunks:  # all that is of this row alone is read first; what rows have in common, and caches have, would take registers
            for source in self.reads:
                if any(source.strides[d] != 0 for d in self.c.rows) or not self.s.packed:
                    self.read(source, chunk)
        for chunk in chunks:
            values = self.terms(reducing, running, chunk, values)
            self.write(stored, chunk)
        return [self.total(k, lanes) for (_, k), lanes in zip(running, values or [])]

    def again(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        """The totals of a thread, by a loop that keeps nothing else."""
        online = self.online.get(self.now, [])
        totals = self.segments(self.identities(running), reducing, running, stored)
        places = [n for n, _ in running]
        self._taken = {x.result: (total, bound(x, totals[places.index(x.largest)])) for x, total in zip(online, totals[len(places):])}
        return totals[:len(places)]

    def segments(self, totals: list[ir.Value], reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        """The totals with all rounds."""
        s, rounds, kept = self.s, self.s.rounds(self.c), self.kept_rounds
        # Turns in which rows may begin or end are apart, so that the others have no conditions.
        cuts = {0, kept, rounds} | ({1, rounds - 1} if s.ragged else {s.vectors(self.c) // (self.stride * s.unroll)})
        turns = list(pairwise(sorted(cuts)))
        if s.persistent:  # what is not kept is read first, while copies come, and where caches still have it
            turns.sort(key=lambda t: t[0] < kept)
        for begin, end in turns:
            if self.kept is not None and begin == 0 and kept:
                self.kept.begin(self.thread)
            totals = self.turns(begin, end, totals, reducing, running, stored)
            if kept and end == kept:
                self.kept.end(self.reads)
        return totals

    def identities(self, running: list[tuple[int, Combiner]]) -> list[ir.Value]:
        """What this phase's totals begin with."""
        return [k.identity(k.total) for k in (*(k for _, k in running), *(x.combiner for x in self.online.get(self.now, [])))]

    def total(self, combiner: Combiner, lanes: list[ir.Value]) -> ir.Value:
        """Of a thread's lanes, in the type of totals, so that how many threads and turns there are adds no error to sums; lanes of rows that are not
        short are added before, for a conversion to float64 takes as long as eight additions."""
        return combiner.to_total(tree(combiner.combine, lanes))

    def turns(
        self, begin: int, end: int, totals: list[ir.Value], reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list,
    ) -> list[ir.Value]:
        """The totals with some rounds more."""
        ints, s = self.ints, self.s
        op = scf.ForOp(ints.value(begin), ints.value(end), ints.value(1), totals)
        with ir.InsertionPoint(op.body):
            found = self.turn(op.induction_variable, begin, end, list(op.inner_iter_args), reducing, running, stored)
            if s.persistent:
                self.after_turn(op.induction_variable, begin, end)
            scf.yield_(found)
        return list(op.results)

    def turn(
        self, number: ir.Value, begin: int, end: int, before: list[ir.Value], reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list,
    ) -> list[ir.Value]:
        """The totals with one round more, of those from ``begin`` to ``end``."""
        self._points, kept = {}, self._points
        if self.kept is not None:
            self.kept.turn(number)
        self.place_turn(number, begin, end)
        if self.s.persistent:
            self.before_turn()
        for u in range(self.s.unroll):  # all that is read first
            for source in self.reads:
                self.read(source, u)
        parts = [self.total(k, value) for (_, k), value in zip(running, self.parts_of_turn(reducing, running, stored))]
        after = [k.combine(a, b) for (_, k), a, b in zip(running, before, parts)]
        found = [*after, *self.take_online(running, before, after)]
        self._points = kept
        return found

    def parts_of_turn(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list:
        """What a turn's points have of running values; the points are written."""
        values = None
        for u in range(self.s.unroll):
            values = self.terms(reducing, running, u, values)
            self.write(stored, u)
        return values or []

    def place_turn(self, turn: Integer, begin: int, end: int) -> None:
        """Where the chunks of a turn are, one of those from ``begin`` to ``end``."""
        ints, s = self.ints, self.s
        vectors, step = s.vectors(self.c), self.stride * s.unroll
        base = ints.add(ints.mul(turn, step), self.first)
        for u in range(s.unroll):
            at = ints.add(base, u * self.stride)
            if s.ragged:
                self.place_ragged(u, at, begin == 0, end * step >= vectors - 1)
            else:
                self.place(u, at, None if end * step > vectors else -1)

    @property
    def exact(self) -> bool:
        """Whether this phase's sums are rounded once."""
        return self.c.width <= SHORT and any(self.c.wide(a) and isinstance(a.element, ir.F32Type) for a in self.reads)

    @property
    def kept_rounds(self) -> int:
        """Turns that keep what they read."""
        return min(self.s.kept, self.s.rounds(self.c)) if self.kept is not None else 0

    def take_online(self, running: list[tuple[int, Combiner]], before: list[ir.Value], after: list[ir.Value]) -> list[ir.Value]:
        """The sums that are taken with this phase's maxima, behind a turn: the totals ``before`` and ``after`` it are the maxima's."""
        found, places = [], [n for n, _ in running]
        for x, total in zip(self.online.get(self.now, []), before[len(places):]):
            old, new = (bound(x, values[places.index(x.largest)]) for values in (before, after))
            self._rows[x.base], lanes = new, None
            self._makers = self.copies
            for u in range(self.s.unroll):
                lanes = self.terms([x.step], [(x.result, x.combiner)], u, lanes)
                self._points.pop((x.exponential, u), None)  # of another base
            del self._rows[x.base]
            self._makers = {}
            found.append(x.combiner.combine(scaled(x, total, old, new), self.total(x.combiner, lanes[0])))
        return found

    def place(self, chunk: object, vector: Integer, number: int | None) -> None:
        """Where a chunk is: (its first point, whether it is the row's; None where it is)."""
        if self.s.ragged:
            self.place_ragged(chunk, vector, number in (None, 0), number is None or (number + 1) * self.stride >= self.s.vectors(self.c) - 1)
            return
        vectors = self.c.width // self.s.vector
        inside = None
        if number is None or (number >= 0 and (number + 1) * self.stride > vectors):
            inside = self.ints.less(vector, vectors)
            vector = self.ints.min(vector, vectors - 1)
        self._chunk[chunk] = (self.ints.mul(vector, self.s.vector), inside)
