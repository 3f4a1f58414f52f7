"""What a kernel computes that reduces over some dimensions: one structured operation, whose terms may be regrouped."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd, prod

from inferno.element_sizes import element_bytes
from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access, given_sizes
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.reductions.exponential_sums import ExponentialSum
from inferno.schedule.reductions.extrema import Extremum
from inferno.schedule.reductions.uncoalesced_terms import uncoalesced_time


@dataclass(frozen=True)
class ReductionKernel:
    """Loops of ``sizes``, of which ``points`` and ``terms`` are runs that every tensor walks with one stride, outermost in memory first.

    ``sources`` are where the arguments of the body are read, None for those that it does not use; the body yields terms.  ``results`` are where
    results go, None for one that nothing reads; ``starts`` what each begins with.  With ``extremum`` the two results are a value and its place,
    with ``exponentials`` the largest term and a sum relative to it.
    The body may extract elements of arguments of the kernel, its ``tables``, and read sizes that it is given.  Where it chooses between pieces of which it
    reads one, or reads nothing else, ``reads`` are where tables are read at places that are known; vectors divide ``together`` (of 0 all do).
    ``after``: a map of each point's sums, a mean's quotient for instance, whose results they are then; ``beside`` are where its operands are read, None for
    sums.
    ``taken``: how many maps in front it computes, whose results are ``stored`` where they are given back: the body yields them behind the terms.
    """

    generic: ir.Operation
    sizes: tuple[int, ...]
    points: tuple[tuple[int, ...], ...]
    terms: tuple[tuple[int, ...], ...]
    along: bool  # whether neighbours in memory are terms of one sum
    sources: tuple[Access | None, ...]
    results: tuple[Access | None, ...]
    combiners: tuple[Combiner, ...]
    starts: tuple[ir.Attribute, ...]
    extremum: Extremum | None
    module: ir.Module = field(repr=False)
    after: ir.Operation | None = field(default=None, repr=False)
    exponentials: ExponentialSum | None = None
    taken: int = 0
    stored: tuple[Access, ...] = ()
    tables: tuple[Access, ...] = ()
    beside: tuple[Access | None, ...] = ()
    reads: tuple[Access, ...] = ()
    together: int = 0

    @property
    def block(self) -> ir.Block:
        return self.generic.regions[0].blocks[0]

    def outside(self, values: Mapping[int, ir.Value]) -> dict[ir.Value, ir.Value]:
        """What stands for the kernel's sizes, which bodies may read, where ``values`` stand for its arguments, by their numbers."""
        return given_sizes(self.module.body.operations[0].operation, values)

    def size(self, run: tuple[int, ...]) -> int:
        return prod(self.sizes[d] for d in run)

    @property
    def count(self) -> int:
        """Sums."""
        return prod(map(self.size, self.points))

    @property
    def length(self) -> int:
        """Terms of one."""
        return prod(map(self.size, self.terms))

    @property
    def inner(self) -> int:
        """Neighbours in memory: the size of the innermost run."""
        run = (self.terms if self.along else self.points)[-1]
        return self.size(run)

    @property
    def neighbours(self) -> int:
        """What the number of a vector's lanes divides."""
        return gcd(self.inner, self.together) if self.together else self.inner

    @property
    def is_flat(self) -> bool:
        """Whether one sum of a length that varies goes over whole tensors as they lie: vectors may leave a few terms at the end."""
        plain = self.extremum is None and self.exponentials is None and not self.together
        return plain and self.along and not self.points and len(self.terms) == 1 and not isinstance(self.length, int)

    @property
    def uncoalesced(self) -> float:
        """Microseconds that elements take of which each is in a sector of its own."""
        return uncoalesced_time(self.sizes, (self.terms if self.along else self.points)[-1][-1], self.sources, self.stored)

    @property
    def bytes(self) -> int:
        """The narrowest element that differs from neighbour to neighbour."""
        inner = (self.terms if self.along else self.points)[-1][-1]
        return min((element_bytes(a.element) for a in (*self.sources, *self.reads) if a is not None and a.strides[inner]), default=4)
