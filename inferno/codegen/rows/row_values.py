"""What a thread of a row computes of its points: the operations' bodies for a chunk of neighbouring points, each once, and the terms of reductions."""

from inferno.codegen.builders.elements import as_vector, branch_together, join, lanes_of, splat
from inferno.codegen.builders.gathered_values import gather
from inferno.codegen.builders.inline import inline_body, size_values
from inferno.codegen.builders.lane_patterns import Pattern
from inferno.mlir import arith, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.row_steps import RowStep


class RowValues:
    """What an emitter of ``rows`` does with a chunk: ``s.vector`` neighbouring points of a row, the lanes of a vector."""

    def terms(
        self, reducing: list[RowStep], running: list[tuple[int, Combiner]], chunk: object, before: list[list[ir.Value]] | None,
    ) -> list[list[ir.Value]]:
        """Running values, a lane each, with a chunk's terms."""
        found = []
        inside = self._chunk[chunk][1]
        for step in reducing:
            results = self.body(step, chunk)
            for result, combiner in zip(results, step.combiners):
                if combiner is None:
                    continue
                terms = [combiner.widen(x) for x in lanes_of(as_vector(result, self.s.vector) if self.s.vector > 1 else result)]
                if self.exact:
                    terms = [combiner.to_total(x) for x in terms]
                if inside is not None:
                    each = inside if isinstance(inside, list) else [inside] * len(terms)
                    terms = [arith.select(i, t, combiner.identity(t.type)) for i, t in zip(each, terms)]
                found.append(terms)
        if before is None:
            return found
        return [[k.combine(a, b) for a, b in zip(old, new)] for (_, k), old, new in zip(running, before, found)]

    def body(self, step: RowStep, chunk: object) -> list[ir.Value]:
        return self.inlined(step, chunk, self.indices(step, chunk), self.s.vector if self.s.vector > 1 else 0)

    def inlined(self, step: RowStep, chunk: object, indices: list[ir.Value], lanes: int) -> list[ir.Value]:
        arguments = [self.argument(step, i, chunk) for i in range(len(step.sources))] + [unused() for _ in step.results]
        branch = (lambda op, condition, inline: branch_together(op, condition, lanes, inline)) if step.chooses else None  # (vectors lie on one side)
        custom, sizes = {"tensor.extract": self.extract}, size_values(step, self.ints)
        return inline_body(step.block, arguments, indices, lanes, custom=custom, outside=sizes, branch=branch)

    def extract(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        return gather(self.ints, self.buffers, self.numbers, op, operands)

    def argument(self, step: RowStep, number: int, chunk: object) -> ir.Value:
        source = step.sources[number]
        if source is None:
            return unused()
        if isinstance(source, Access):
            return self.read(source, chunk)
        return self._rows[source] if self.c.values[source].per_row else self.value(source, chunk)

    def value(self, number: int, chunk: object) -> ir.Value:
        """A value of points, computed where it is not known."""
        key = number, chunk
        if key not in self._points:
            step = self._makers.get(number) or self.c.maker(number)
            results = self.body(step, chunk) if step.scans is None else self.scanned(step, chunk)
            self._points.update({(n, chunk): r for n, r in zip(step.results, results) if n is not None})
        return self._points[key]

    def indices(self, step: RowStep, chunk: object) -> list[ir.Value]:
        """For ``linalg.index``: the coordinates of a step's own loops, vectors where lanes differ."""
        if not any(d is not None for d in step.indices):
            return [zero() for _ in step.indices]
        ints, c = self.ints, self.c
        first = self._chunk[chunk][0]
        sizes = [c.sizes[d] for d in c.columns]
        lanes = [dict(zip(c.columns, ints.split(ints.add(first, i), sizes))) for i in range(self.s.vector)]
        found = []
        for d in step.indices:
            if d is None:
                found.append(zero())
            elif d in self.row:
                found.append(ints.index(self.row[d]))
            else:
                each = [ints.index(lane[d]) for lane in lanes]
                found.append(each[0] if len(each) == 1 else join(each))
                if len(each) > 1 and d == c.columns[-1] and not self.s.ragged and c.sizes[d] % len(each) == 0:
                    self.numbers.known[found[-1]] = Pattern(len(each), tuple(range(len(each))))
        return found


def unused() -> ir.Value:
    """Stands for an argument that the body does not read."""
    return splat(ir.IntegerType.get_signless(1), 0)


def zero() -> ir.Value:
    """The index of a loop that an operation does not have."""
    return arith.constant(ir.IndexType.get(), 0)
