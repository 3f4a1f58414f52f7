"""What kernels that add up rows have of each: what it begins as, what is added to it, and what it is in the end."""

from collections.abc import Callable
from dataclasses import dataclass

from inferno.codegen.builders.elements import as_vector, join, lanes_of, load_vector, splat, store_vector
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.maps.elementwise import Emitter
from inferno.mlir import arith, ir, memref, scf
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.scatters.added_rows import AddedRows
from inferno.schedule.scatters.matched_rows import MatchedRows
from inferno.schedule.scatters.sorted_rows import SortedRows


@dataclass
class RowValues:
    """A thread has ``schedule.lanes`` neighbours; ``buffers`` are the kernel's arguments, and others behind them."""

    c: AddedRows
    schedule: SortedRows | MatchedRows
    ints: Integers
    buffers: list[ir.Value]

    def begin(self, row: Integer, column: Integer) -> list[ir.Value]:
        """What the elements of a row from ``column`` on begin as."""
        c, ints, lanes = self.c, self.ints, self.schedule.lanes
        if not isinstance(c.start, int):
            return [splat(c.element, c.start.value)] * lanes
        return lanes_of(load_vector(ints, self.buffers[c.start], ints.add(ints.mul(row, c.columns), column), c.element, lanes, lanes))

    def apart(self) -> ir.Value | None:
        """Whether the result is in another place than what it begins as; None where it begins as a value."""
        if not isinstance(self.c.start, int):
            return None
        source, target = (memref.ExtractAlignedPointerAsIndexOp(self.buffers[n]).result for n in (self.c.start, self.c.target))
        return arith.cmpi(arith.CmpIPredicate.ne, source, target)

    def term(self, number: Integer, column: Integer) -> list[ir.Value]:
        """The elements from ``column`` on of what is added, by its number."""
        c, s, ints = self.c, self.schedule, self.ints
        (found,) = Emitter(c.updates, Elementwise(s.threads, s.lanes), ints, self.buffers).compute(
            ints.add(ints.mul(number, c.columns), column), s.lanes if s.lanes > 1 else 0)
        return [c.combiner.widen(x) for x in lanes_of(as_vector(found, s.lanes) if s.lanes > 1 else found)]

    def total(self, count: Integer, ahead: int, terms: Callable[[Integer], list[ir.Value]], begin: list[ir.Value] | None = None) -> list[ir.Value]:
        """The sums of the lanes of ``terms(k)`` of all k below ``count``, of which ``ahead`` are on their way at a time, and of what is there to begin with."""
        ints, combiner = self.ints, self.c.combiner
        begin = [combiner.identity()] * self.schedule.lanes if begin is None else begin
        loop = scf.ForOp(ints.value(0), ints.value(count), ints.value(ahead), begin)
        with ir.InsertionPoint(loop.body):
            sums, first = list(loop.inner_iter_args), loop.induction_variable
            at = [ints.add(first, u) for u in range(ahead)]
            found = [terms(k if not u else ints.min(k, ints.sub(count, 1))) for u, k in enumerate(at)]
            for u, (k, row) in enumerate(zip(at, found)):
                added = [combiner.combine(a, b) for a, b in zip(sums, row)]
                inside = ints.less(k, count) if u else None
                sums = added if inside is None else [arith.select(inside, a, b) for a, b in zip(added, sums)]
            scf.yield_(sums)
        return list(loop.results)

    def end(self, sums: list[ir.Value], start: list[ir.Value], row: Integer, column: Integer) -> None:
        """Write these elements, of what is added to them."""
        c, ints = self.c, self.ints
        result = [c.combiner.round(c.combiner.combine(c.combiner.widen(a), b)) for a, b in zip(start, sums)]
        store_vector(ints, join(result), self.buffers[c.target], ints.add(ints.mul(row, c.columns), column), self.schedule.lanes)
