"""Sums and scans of rows that a thread has alone.  A few points are added up in float32, and their sums in float64: every float32 addition rounds, and a
conversion to float64 takes as long as eight of them."""

from inferno.codegen.builders.elements import as_vector, convert, tree
from inferno.mlir import arith, ir
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.row_steps import RowStep

_TOGETHER = 4  # points


class ColumnScans:
    """What an emitter of ``columns`` does with them."""

    def joined(self, k: Combiner, terms: list[ir.Value]) -> ir.Value:
        """All terms of a row."""
        if k.type == k.total:
            return tree(k.combine, terms)
        parts = [tree(k.combine, terms[i:i + _TOGETHER]) for i in range(0, len(terms), _TOGETHER)]
        return tree(k.combine, [convert(x, k.total) for x in parts])

    def scan(self, steps: list[RowStep]) -> None:
        """The running values of all points, a lane a row, and extrema of rows with their places."""
        for step in steps:
            if step.extremum is not None:
                self.find(step)
                continue
            k, (source,), (result,) = step.scans, step.sources, step.results
            front = inner = total = None
            for u in range(self.c.width):
                value = self.value(source, u) if isinstance(source, int) else self.read(source, u)
                term = convert(as_vector(value, self.s.vector), k.type)
                inner = term if inner is None else k.combine(inner, term)
                found = inner if front is None else k.combine(front, inner)
                self._points[result, u] = convert(found, k.narrow)
                if k.type == k.total:
                    continue
                if (u + 1) % _TOGETHER == 0:
                    part = convert(inner, k.total)
                    total = part if total is None else k.combine(total, part)
                    front, inner = convert(total, k.type), None

    def find(self, step: RowStep) -> None:
        """A row's largest or smallest value, and where it is."""
        vector, kinds = self.s.vector, step.extremum.combiners
        candidates = [[as_vector(x, vector) for x in self.body(step, u)] for u in range(self.c.width)]
        types = [x.type.element_type for x in candidates[0]]
        start = [as_vector(convert(arith.constant(k.narrow, value), type_), vector) for k, value, type_ in zip(kinds, step.starts, types)]
        best = tree(step.extremum.combine, [start, *candidates])
        self._rows.update({n: convert(x, k.narrow) for n, x, k in zip(step.results, best, kinds) if n is not None})
