"""Flips in front of a scan and behind it: what is flipped is read from the end, and what is flipped back is written from there.

A kernel's points are the scan's.  A map in front reads what it flips by negative strides.  One behind that gathers what the scan makes from the end computes at
each point what belongs to another one: it is ``turned`` along these dimensions, and reads whatever else it has, and writes, as if it counted from their end.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from inferno.mlir import arith, dim_of, ir, walk
from inferno.passes.generics import index, input_count, inputs, is_elementwise, loop, loop_sizes, maps
from inferno.passes.places import place_of
from inferno.passes.programs import root_of
from inferno.passes.reversals import flipped_dimensions
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.affine_extracts import read_by_maps

Turned = Mapping[ir.Value, frozenset[int]]


def take_flips(generics: Sequence[ir.Operation], scan: ir.Operation) -> Turned | None:
    """Let a scan's maps, in order, have operands in the place of what they gather from the end: the dimensions along which what is made in the kernel is
    turned.  None where it would be read at several points."""
    turned = {scan.results[0]: frozenset()}
    for generic in generics:
        own = [g for g in walk(generic, "tensor.extract") if root_of(g.operands[0]) in turned]
        read = [(v, m) for v, m in zip(inputs(generic), maps(generic)) if root_of(v) in turned]
        found = {*(_turned_of(v, m, turned) for v, m in read), *(_turned_by(g, generic, turned) for g in own)}
        along = next(iter(found), frozenset())
        if along is None or len(found) > 1 or (along and not _is_in_order(generic)):
            return None
        for gather in own:
            _read_here(gather)
        if own or any((place_of(v) or (None, 1))[1] < 0 for g in walk(generic, "tensor.extract") for v in list(g.operands)[1:]):
            generic = read_by_maps(generic, every=True)
        _count_from_end(generic, along)
        turned.update({r: along for r in generic.results})
    return turned if not turned.get(root_of(scan.operands[0])) else None


def mirrored(at: Access, loops: Collection[int], sizes: Sequence[int]) -> Access:
    """The access that is, at each point, what this one is at the point as far from the other end of some loops."""
    strides = tuple(-s if d in loops else s for d, s in enumerate(at.strides))
    return replace(at, strides=strides, offset=at.offset + sum(at.strides[d] * (sizes[d] - 1) for d in loops))


def _turned_of(value: ir.Value, map_: ir.AffineMap, turned: Turned) -> frozenset[int] | None:
    """How a map is turned that has an operand made in the kernel."""
    along = turned[root_of(value)]
    return along if not along or (value in turned and map_ == ir.AffineMap.get_identity(map_.n_dims)) else None


def _turned_by(gather: ir.Operation, generic: ir.Operation, turned: Turned) -> frozenset[int] | None:
    """How a map is turned that gathers what is made in the kernel; None if it is no flip of all of it."""
    value, places = gather.operands[0], [place_of(v) for v in list(gather.operands)[1:]]
    flipped = flipped_dimensions(gather, loop_sizes(generic)) if gather.parent == generic and value in turned else None
    return turned[value] ^ flipped if flipped and [p[0] for p in places] == list(range(len(places))) and _is_in_order(generic) else None


def _is_in_order(generic: ir.Operation) -> bool:
    """Whether a map writes its results in the order of its loops."""
    return is_elementwise(generic) and all(m == ir.AffineMap.get_identity(m.n_dims) for m in maps(generic)[input_count(generic):])


def _read_here(gather: ir.Operation) -> None:
    """Gather at the map's own point."""
    with ir.InsertionPoint(gather), gather.location:
        for d in range(len(gather.operands) - 1):
            gather.operands[1 + d] = loop(d)


def _count_from_end(generic: ir.Operation, along: Collection[int]) -> None:
    """Let the numbers of some loops be those of points that are turned along them."""
    for number in [o for o in walk(generic, "linalg.index") if dim_of(o) in along]:
        uses = [(u.owner.operation, u.operand_number) for u in number.results[0].uses]
        with ir.InsertionPoint.after(number), number.location:
            turned = arith.subi(index(loop_sizes(generic)[dim_of(number)] - 1), number.results[0])
        for user, place in uses:
            user.operands[place] = turned
