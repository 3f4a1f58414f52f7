"""The sum of a row's points, and of their squared distances from its mean, in one pass.

Of the points that a thread has in a turn it takes the mean, and sums of distances from it and of their squares, in float32; the sums of points and of their
squares follow in float64, in which they meet.  What the difference of the two loses there is as much as the mean is larger than the deviation, squared,
of 2^-53.
"""

from inferno.codegen.builders.elements import as_vector, convert, join, lanes_of, splat, tree
from inferno.codegen.builders.widened_pairs import widened
from inferno.codegen.rows.column_totals import MEAN
from inferno.mlir import arith, ir, math, vector
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.moments import Moments, met
from inferno.schedule.rows.row_steps import RowStep


class ColumnMoments:
    """What an emitter of ``columns`` does with them; ``moments`` are None where each sum is taken by itself."""

    moments: Moments | None

    def reductions(self, phase: int) -> tuple[list[RowStep], list[tuple[int, Combiner]]]:
        return super().reductions(phase)[0], met(self.c, phase, self.moments)

    def is_taken(self, phase: int) -> bool:
        """Whether what a phase reduces is known of an earlier one."""
        return self.moments is not None and phase == self.moments.squares.phase

    def phase(self, phase: int) -> None:
        if not self.is_taken(phase):
            super().phase(phase)
            return
        self.begin_phase(phase)
        for step in self.c.steps:
            if step.per_row and step.phase == phase:
                self.per_row(step)
        self.write_rows(phase)
        self.take_distances()

    def parts_of_turn(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list:
        if self.moments is None or self.now != self.moments.sums.phase:
            return super().parts_of_turn(reducing, running, stored)
        parts = self.take_moments()
        for u in range(self.s.unroll):
            self.write(stored, u)
        return parts

    def take_moments(self) -> list[ir.Value]:
        """The sums of a turn's points and of their squares, a lane a row."""
        m, s, f32, f64 = self.moments, self.s, ir.F32Type.get(), ir.F64Type.get()
        number, inside = m.sums.sources.index(m.point), [self._chunk[u][1] for u in range(s.unroll)]

        def known(values: list[ir.Value]) -> list[ir.Value]:
            return [x if here is None else arith.select(here, x, splat(x.type, 0)) for x, here in zip(values, inside)]

        points = [as_vector(self.argument(m.sums, number, u), s.vector) for u in range(s.unroll)]
        count: ir.Value = arith.constant(f32, float(s.unroll))
        if any(here is not None for here in inside):
            one, none = arith.constant(f32, 1.0), arith.constant(f32, 0.0)
            count = tree(arith.addf, [one if here is None else arith.select(here, one, none) for here in inside])
            share = arith.divf(one, arith.maximumf(count, one))
        else:
            share = arith.constant(f32, 1 / s.unroll)
        count, lanes = convert(count, f64), 2 if s.vector % 2 == 0 else 1

        def of_lanes(first: int) -> tuple[ir.Value, ir.Value]:
            values = [widened(vector.shuffle(x, x, list(range(first, first + lanes))), f32) for x in points]
            mean = arith.mulf(tree(arith.addf, known(values)), as_vector(share, lanes))
            distances = known([arith.subf(x, mean) for x in values])
            squares = arith.mulf(distances[0], distances[0])
            for x in distances[1:]:
                squares = math.fma(x, x, squares)
            mean, distance, squares = (convert(x, f64) for x in (mean, tree(arith.addf, distances), squares))
            total = math.fma(mean, as_vector(count, lanes), distance)
            return total, math.fma(mean, arith.addf(distance, total), squares)

        # A word's lanes after another's: all at once they are more than registers.
        found = [of_lanes(first) for first in range(0, s.vector, lanes)]
        return [join([x for pair in each for x in lanes_of(pair)]) for each in zip(*found)]

    def results(self, reducing: list[RowStep], totals: dict[int, ir.Value]) -> dict[int, ir.Value]:
        """With the sums, rows' means and sums of squared distances from them."""
        found, m = super().results(reducing, totals), self.moments
        if m is None or self.now != m.sums.phase:
            return found
        total, squares = (totals[x.results[0]] for x in (m.sums, m.squares))
        mean = arith.mulf(total, splat(total.type, 1 / self.points))
        squares = convert(math.fma(arith.negf(total), mean, squares), ir.F32Type.get())
        return {**found, m.squares.results[0]: arith.maximumf(squares, splat(squares.type, 0)), MEAN: convert(mean, ir.F32Type.get())}

    def result_types(self, reducing: list[RowStep]) -> dict[int, ir.Type]:
        found, m, f32 = super().result_types(reducing), self.moments, ir.F32Type.get()
        return found if m is None or self.now != m.sums.phase else {**found, m.squares.results[0]: f32, MEAN: f32}

    @property
    def points(self) -> int:
        """How many a sum is of."""
        return self.c.width * self.c.together

    def take_distances(self) -> None:
        """The sum of squared distances from what may be another center than the mean, or is rounded otherwise."""
        squares = self.moments.squares.results[0]
        apart = arith.subf(self._rows[self.moments.center], self._rows[MEAN])
        self._rows[squares] = math.fma(arith.mulf(apart, splat(apart.type, self.points)), apart, self._rows[squares])
