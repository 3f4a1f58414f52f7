"""What a kernel computes that goes over the rows of tensors: maps, and reductions and scans of whole rows, one after the other, all of the same rows
(``parser.py`` reads it off the IR).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access, Joined
from inferno.schedule.matmul.contraction import Destination
from inferno.schedule.rows.row_steps import RowStep, RowValue
from inferno.symbolic import Int, hint, product


@dataclass(frozen=True)
class Part(Destination):
    """One that has only those points of rows whose loops, by their numbers, are at places from one up to another.  ``access`` is as if it had all."""

    inside: tuple[tuple[int, int, int], ...] = ()

    def share(self, sizes: Sequence[Int]) -> float:
        """Of the points of loops of these sizes, those that it has."""
        return prod((end - begin) / sizes[d] for d, begin, end in self.inside)


@dataclass(frozen=True)
class RowKernel:
    """A nest of loops of ``sizes``, in the order of memory, of which ``rows`` are those of rows.  A destination's ``source`` is the number of a
    value.  The sizes of rows may vary, and how far apart rows are; of what ``parse_sized_rows`` reads their length, too.

    Every loop has more than one iteration, as far as that is known.  ``runs`` are the loops of columns, merged where every tensor walks them with one stride.
    So many neighbouring rows as ``together`` says share their reductions.  ``once``: each value is computed once, for it is compared with what it came to.
    """

    sizes: tuple[Int, ...]
    rows: tuple[int, ...]
    runs: tuple[tuple[int, ...], ...]
    values: tuple[RowValue, ...]
    steps: tuple[RowStep, ...]
    destinations: tuple[Destination, ...]
    kernel: ir.Module = field(repr=False)  # a copy of all of it, which the steps' operations are in
    together: int = 1
    once: bool = False

    @property
    def count(self) -> Int:
        """Rows."""
        return product(self.sizes[d] for d in self.rows)

    @property
    def varies(self) -> bool:
        """Whether the number of rows does, or their length."""
        return not isinstance(self.count * self.width, int)

    def in_example(self) -> "RowKernel":
        """The same of the example's sizes: for costs, never for what has to be right."""
        return self.of_sizes(hint)

    def of_sizes(self, size: Callable[[Int], int]) -> "RowKernel":
        """The same of sizes that are known."""
        if not self.varies:
            return self

        def known(a: Access) -> Access:
            return replace(a, strides=tuple(map(size, a.strides)), offset=size(a.offset), shape=tuple(map(size, a.shape)))

        steps = tuple(replace(s, sources=tuple(known(x) if isinstance(x, Access) else x for x in s.sources)) for s in self.steps)
        destinations = tuple(replace(d, access=known(d.access)) for d in self.destinations)
        return replace(self, sizes=tuple(max(1, size(s)) for s in self.sizes), steps=steps, destinations=destinations)

    @cached_property
    def width(self) -> Int:
        """Points of a row."""
        return product(self.sizes[d] for d in self.columns)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The loops of a row's points."""
        return tuple(d for d in range(len(self.sizes)) if d not in self.rows)

    @property
    def run_sizes(self) -> tuple[Int, ...]:
        return tuple(product(self.sizes[d] for d in run) for run in self.runs)

    def in_run(self, d: int) -> tuple[int, bool, int]:
        """Of a loop of columns the number of its run, whether that begins with it, and how many iterations the run's loops behind it have."""
        number, run = next((n, run) for n, run in enumerate(self.runs) if d in run)
        return number, run[0] == d, product(self.sizes[e] for e in run[run.index(d) + 1:])

    @cached_property
    def phases(self) -> int:
        """How many reductions and scans follow each other, and what is behind the last one."""
        return max(s.phase + s.meets for s in self.steps) + 1

    @property
    def scans(self) -> tuple[RowStep, ...]:
        return tuple(s for s in self.steps if s.scans is not None)

    def maker(self, value: int) -> RowStep:
        return next(s for s in self.steps if value in s.results)

    def computed(self, value: int) -> int:
        """The phase in which a value becomes known."""
        step = self.maker(value)
        return step.phase + step.meets

    def wide(self, access: Access) -> bool:
        """Whether an access differs between the points of a row."""
        return any(access.strides[d] for d in self.columns)

    def flat(self, access: Access) -> bool:
        """Whether a row's points are neighbours."""
        wanted: Int = 1
        for run, size in zip(reversed(self.runs), reversed(self.run_sizes)):
            if access.strides[run[-1]] != wanted:
                return False
            wanted = wanted * size
        return True

    def needed(self, phase: int) -> tuple[set[Access], set[int]]:
        """What a phase takes of each point if every phase computes anew what it needs: what it reads, and the values."""
        values = {d.source for d in self.destinations if not self.values[d.source].per_row and self.computed(d.source) == phase}
        values |= {v for s in self.steps if s.meets and s.phase == phase for v in s.results if v is not None}
        pending, seen, reads = list(values), set(), set()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            step = self.maker(value)
            if step.per_row or (step.reduces and step.phase != phase):
                continue
            reads.update(a for a in step.extras if self.wide(a))
            pending += [n for n in step.sources if isinstance(n, int) and not self.values[n].per_row]
        return reads, seen

    def repeated(self) -> list[Access]:
        """What several phases read of each point.  Booleans, which are few, and what neighbours share are read again."""
        each = [self.needed(p)[0] for p in range(self.phases)]
        accesses = dict.fromkeys(a for step in self.steps for a in step.extras if self.wide(a))
        own = [a for a in accesses if a.element.width >= 8 and a.strides[self.runs[-1][-1]] != 0]
        return [a for a in own if sum(a in reads for reads in each) > 1]

    def common(self) -> list[Access]:
        """What is read of each point but once, and is the same for all rows, as weights are."""
        accesses, repeated = dict.fromkeys(a for step in self.steps for a in step.extras if self.wide(a)), self.repeated()
        own = [a for a in accesses if a not in repeated and not any(a.strides[d] != 0 for d in self.rows)]
        return [a for a in own if a.element.width >= 8 and a.strides[self.runs[-1][-1]] != 0]

    @property
    def joined(self) -> list[Joined]:
        """Concatenations that are read in place."""
        return [a for a in dict.fromkeys(a for step in self.steps for a in step.extras) if isinstance(a, Joined)]

    @property
    def choosing(self) -> list[RowStep]:
        """The steps that choose what they read by where a point lies: other concatenations, padded tensors, shifts."""
        return [s for s in self.steps if s.chooses]

    @property
    def parts(self) -> list[Part]:
        """Parts of results: of a concatenation, or of what rows have."""
        return [d for d in self.destinations if isinstance(d, Part)]

    @property
    def in_pieces(self) -> bool:
        """Whether pieces of concatenations are read in place."""
        return bool(self.joined or self.choosing)

    @property
    def scanned_bits(self) -> int:
        """Bits a vector that scans take besides: what is in front of it."""
        return sum(s.scans.total.width for s in self.scans)

    def held_bits(self) -> int:
        """Bits a point that lie in registers from one phase to the next, where they are most: of what is read and computed once."""
        first: dict[Access | int, int] = {}
        last: dict[Access | int, int] = {}
        for step in self.steps:
            if step.per_row:
                continue
            points = [
                n for n in step.sources if n is not None and (self.wide(n) if isinstance(n, Access) else not self.values[n].per_row)
            ]
            for n in points:
                first.setdefault(n, step.phase if isinstance(n, Access) else self.computed(n))
                last[n] = max(last.get(n, 0), step.phase)
            if step.scans is not None:  # which is computed of it once more
                last[points[0]] = max(last[points[0]], step.phase + 1)
        width = {n: (n.element if isinstance(n, Access) else self.values[n].element).width for n in first}
        # (Of 16 bits, and less, it stays as it is, see ``codegen/rows/row_scans.py``; of more its running values in a vector may be what stays.)
        width |= {n: max(width[n], s.scans.type.width) for s in self.scans for n in s.sources if width[n] > 16}
        return max((sum(max(8, width[n]) for n in first if first[n] < p <= last[n]) for p in range(1, self.phases)), default=0)
