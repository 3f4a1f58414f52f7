"""How the running values of a reduction are combined: sums, extrema and their indices, or a maximum and exponentials below it, on scalars or vectors."""

from dataclasses import dataclass, replace

from inferno.codegen.builders.elements import as_vector, convert, tree
from inferno.codegen.reductions.joined_exponentials import join_exponentials
from inferno.mlir import arith, ir
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.reductions.extrema import Extremum
from inferno.schedule.reductions.kernel import ReductionKernel

Values = list[ir.Value]


@dataclass(frozen=True)
class Joining:
    """How running values of ``c`` meet, on scalars or vectors; places of extrema are numbers of ``width`` bits."""

    c: ReductionKernel
    width: int

    @property
    def extremum(self) -> Extremum | None:
        found = self.c.extremum
        return None if found is None else replace(found, place=ir.IntegerType.get_signless(self.width))

    @property
    def combiners(self) -> tuple[Combiner, ...]:
        return self.c.combiners if self.extremum is None else self.extremum.combiners

    def identities(self, lanes: int = 1) -> Values:
        return [as_vector(k.identity(k.total), lanes) if lanes > 1 else k.identity(k.total) for k in self.combiners]

    def totals(self, a: Values, b: Values) -> Values:
        if self.extremum is not None:
            return self.extremum.combine(a, b)
        if self.c.exponentials is not None:
            return join_exponentials(self.combiners, a, b)
        return [k.combine(x, y) for k, x, y in zip(self.combiners, a, b)]

    def tree(self, parts: list[Values]) -> Values:
        return tree(self.totals, parts)

    def results(self, totals: Values) -> Values:
        """Scalars as they go to memory, with what results begin with."""
        starts = []
        for k, own, start in zip(self.combiners, self.c.combiners, self.c.starts):
            value = arith.constant(own.narrow, start)
            starts.append(convert(value, k.total))
        found = self.totals(starts, totals)
        return [convert(v, own.narrow) for v, own in zip(found, self.c.combiners)]
