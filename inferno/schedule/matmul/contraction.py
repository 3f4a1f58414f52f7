"""A contraction as generators know it: its loops by role, and where every tensor lies.

Everything that a generator needs is here; strides are in elements, one for each loop of the contraction, and 0 where a tensor is broadcast.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.pages import Pages
from inferno.schedule.convolution.unfolded import Unfolded
from inferno.symbolic import alignment, hint, Int, product


@dataclass(frozen=True)
class Map:
    """An elementwise ``linalg.generic`` around the contraction, to be inlined for each element.

    ``sources``: one for each argument of its block: where to read it, or None: for an epilogue the accumulator (those
    arguments are in ``accumulators``, and in ``others`` those that are the other contraction's of two), otherwise an argument that the
    body does not use.
    ``indices``: the contraction's loop behind each of its loops, for ``linalg.index``; None where that loop has size 1.
    """

    generic: ir.Operation
    sources: tuple[Access | None, ...]
    indices: tuple[int | None, ...]
    accumulators: tuple[int, ...] = ()
    others: tuple[int, ...] = ()

    @property
    def block(self) -> ir.Block:
        return self.generic.regions[0].blocks[0]


@dataclass(frozen=True)
class Operand:
    """A factor: read from ``access``, or computed by ``prologue`` from its own sources.  ``element`` is the type of what the
    multiplication gets; ``extend`` the operation (such as arith.extf) that widens it to the accumulator's type, or None.
    ``unfolded``: it is the matrix of all windows of an image, and ``access`` walks over that.
    ``pages``: it lies in pages, which ``access`` walks over as if they were in order."""

    element: ir.Type
    access: Access | None
    prologue: Map | None
    extend: str | None
    unfolded: Unfolded | None = None
    pages: Pages | None = None

    @property
    def reads(self) -> tuple[Access, ...]:
        """Every tensor that is read for this factor."""
        if self.pages is not None:
            return (self.access, self.pages.table)
        return (self.access,) if self.prologue is None else tuple(s for s in self.prologue.sources if s is not None)

    @property
    def has_windows(self) -> bool:
        """Whether it is the matrix of all windows of an image, a window for each of its rows."""
        return self.unfolded is not None and not self.unfolded.summed


@dataclass(frozen=True)
class Group:
    """Loops with one role, outermost first, without those of size 1.  ``runs`` merges neighbours that every tensor walks
    with one stride, the stride of the run's last loop; with at most one run the group is ``flat``, one dimension."""

    dims: tuple[int, ...]
    sizes: tuple[Int, ...]
    runs: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> Int:
        return product(self.sizes)

    @property
    def run_sizes(self) -> tuple[Int, ...]:
        of = dict(zip(self.dims, self.sizes))
        return tuple(product(of[d] for d in run) for run in self.runs)

    @property
    def flat(self) -> bool:
        return len(self.runs) <= 1

    def strides(self, access: Access) -> tuple[Int, ...]:
        """The stride of ``access`` for each run."""
        return tuple(access.strides[run[-1]] for run in self.runs)

    def stride(self, access: Access) -> Int:
        """The stride of ``access`` along a flat group (0 for an empty one)."""
        assert self.flat
        return sum(self.strides(access))


def aligned_along(access: Access, group: Group, groups: Sequence[Group]) -> int:
    """Neighbours along ``group``, one of all ``groups``, that are aligned together wherever a vector begins."""
    last = group.runs[-1][-1] if group.runs else None
    others = [access.strides[run[-1]] for g in groups for run in g.runs if run[-1] != last]
    if last is None or access.strides[last] != 1:
        return 1
    return alignment((access.offset, *others), 16)


@dataclass(frozen=True)
class Destination:
    """Result ``source`` of the epilogue (None: the accumulator itself) goes to ``access``."""

    source: int | None
    access: Access


@dataclass(frozen=True)
class Contraction:
    """``dst[b, m, n] = epilogue(sum over k of lhs[b, m, k] * rhs[b, n, k])``.

    ``sizes`` are those of all loops, in the order that strides have.  ``n`` holds the innermost dimension of the first
    destination.
    ``accumulator`` is the type of the sum; ``tf32`` says that a float32 product may be rounded to TF32.  ``rounds``: what each product is rounded to, if to
    anything, before it is added.
    Operations refer to a copy of the kernel that this object keeps alive; constants are inside their bodies.
    """

    sizes: tuple[Int, ...]
    batch: Group
    m: Group
    n: Group
    k: Group
    lhs: Operand
    rhs: Operand
    accumulator: ir.Type
    epilogue: Map | None
    destinations: tuple[Destination, ...]
    tf32: bool
    module: ir.Module = field(repr=False)
    rounds: ir.Type | None = field(default=None, kw_only=True)

    @property
    def B(self) -> Int:
        return self.batch.size

    @property
    def M(self) -> Int:
        return self.m.size

    @property
    def N(self) -> Int:
        return self.n.size

    @property
    def K(self) -> Int:
        return self.k.size

    @property
    def varies(self) -> bool:
        """Whether any size is known only at the call."""
        return any(not isinstance(s, int) for s in self.sizes)

    @property
    def hints(self) -> tuple[int, int, int, int]:
        """B, M, N and K as they are in the example."""
        return hint(self.B), hint(self.M), hint(self.N), hint(self.K)

    @property
    def windows(self) -> Unfolded | None:
        """Those of the image that one factor is, if one is."""
        return next((o.unfolded for o in (self.lhs, self.rhs) if o.has_windows), None)

    @property
    def is_reduction(self) -> bool:
        """One sum for each position of the batch: tiles of results, however small, would be wasted on it."""
        return self.M == self.N == 1

    @property
    def extras(self) -> tuple[Access, ...]:
        """The tensors that the epilogue reads."""
        return () if self.epilogue is None else tuple(s for s in self.epilogue.sources if s is not None)


def oriented(c: Contraction, swapped: bool) -> Contraction:
    """``c``, or where ``swapped`` the same with the names of its sides exchanged."""
    return replace(c, m=c.n, n=c.m, lhs=c.rhs, rhs=c.lhs) if swapped else c
