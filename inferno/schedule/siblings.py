"""The schedule of a kernel function that is several independent contractions of one tensor: one launch, whose blocks are dealt out to them.

Attention's projections of queries, keys and values are such siblings.  One by one each pays for a launch, and for a last round of tiles that
leaves multiprocessors idle, or for a matrix that is too small for all of them; together they pay once.  The model takes them for one
contraction with the columns of all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Any, ClassVar

from inferno.mlir import func, ir
from inferno.passes.shapes import argument_attributes
from inferno.schedule import bf16x6, mma, presplit, simt, vectors, wgmma
from inferno.schedule.accesses import Access
from inferno.schedule.contraction import Contraction, Operand, oriented, parse_contraction
from inferno.schedule.cost import bit_width, clusters_at_once
from inferno.schedule.kept_operands import PARTS, kept
from inferno.schedule.kernel_parts import extract, parts_of
from inferno.schedule.tiling import Tiling, tile_contraction
from inferno.schedule.wgmma import precision
from inferno.symbolic import product
from inferno.target import Target

GENERATORS = ("wgmma", "mma", "vectors", "bf16x6", "presplit", "simt")
"""Those whose kernels are merged."""
MOST = 8
"""Contractions of one launch: a kernel has 4 KB of parameters, and a tensor map is 128 bytes of them."""
# Of a launch's time, what the next one hides: a kernel begins while the one in front of it ends (microseconds; on an H200 three launches for
# 16x4096x(4096+1024+1024) and 16x3584x(3584+512+512) take 21.1 and 17.2, and are estimated at 20.5 and 17.3).
_HIDDEN = 0.7


@dataclass(frozen=True)
class Siblings:
    """Every part has the schedule ``each``; ``blocks`` are the numbers of blocks, or multiprocessors, that each gets, in order, apart by blanks.
    ``together`` and ``apart``: estimates in nanoseconds of the one launch, and of one for each part with the best schedule of its own."""

    generator: ClassVar[str] = "siblings"

    each: Any
    blocks: str
    together: int
    apart: int

    @property
    def pays(self) -> bool:
        """Whether one launch is faster by more than what estimates are worth."""
        return self.together < 0.98 * self.apart


def choose(kernel: func.FuncOp, target: Target) -> Siblings | None:
    """The best schedule of independent contractions that are alike; None for any other kernel."""
    found = candidates(kernel, target)
    return min(found, key=lambda item: item[0])[1] if found else None


def candidates(kernel: func.FuncOp, target: Target) -> list[tuple[float, Siblings]]:
    """Schedules with their estimates in microseconds; none where the kernel is not independent contractions that are alike."""
    if target.kind != "nvptx" or len(kernel.type.results) < 2 or _marked(kernel):
        return []
    groups = parts_of(kernel)
    if not 2 <= len(groups) <= MOST:
        return []
    with kernel.context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            parts = [extract(kernel, group, f"part{i}")[0] for i, group in enumerate(groups)]
        return _candidates(parts, target)


def _marked(kernel: func.FuncOp) -> bool:
    """Whether an argument is said to be anything but a weight that has been split: a size, or a copy for the copy engine."""
    return any(mark.name != PARTS for entry in argument_attributes(kernel.operation) for mark in entry)


def _candidates(parts: list[func.FuncOp], target: Target) -> list[tuple[float, Siblings]]:
    """The schedules of these parts together."""
    contractions = [parse_contraction(p) for p in parts]
    joined = _join(contractions) if not any(c is None or c.varies for c in contractions) else None
    if joined is None:
        return []
    own = [_alone(p, c, target) for p, c in zip(parts, contractions)]
    if not all(own):
        return []
    apart = round(1000 * (sum(min(times.values()) for times in own) - _HIDDEN * (len(parts) - 1)))
    found = [*_on_tensor_cores(parts, contractions, joined, target), *_alike(parts[0], contractions, joined, own, target)]
    return [(time, Siblings(each, " ".join(map(str, blocks)), round(1000 * time), apart)) for time, each, blocks in found]


def _alone(kernel: func.FuncOp, c: Contraction, target: Target) -> dict[Any, float]:
    """The schedules that a contraction may have, and their estimates: of CUDA cores beside tensor cores only those for few vectors."""
    if kept(kernel, PARTS):
        return {s: time for time, s in reversed(presplit.candidates(kernel, c, target))}
    found = wgmma.candidates(kernel, c, target) or mma.candidates(kernel, c, target)
    if not found:
        found = [*bf16x6.candidates(kernel, c, target), *simt.candidates(c, target)]
    return {s: time for time, s in reversed([*found, *vectors.candidates(c, target)])}


def _join(contractions: list[Contraction]) -> Contraction | None:
    """One contraction with the columns, or the rows, of all; None where they are not alike otherwise."""
    first = contractions[0]
    same = {side: len({getattr(c, side).sizes for c in contractions}) == 1 for side in ("batch", "m", "n", "k")}
    side = "m" if same["n"] and not same["m"] else "n"
    kinds = {(c.lhs.element, c.rhs.element, c.accumulator, c.tf32) for c in contractions}
    if len(kinds) > 1 or not all(same[s] for s in same if s != side) or any(len(getattr(c, side).runs) != 1 for c in contractions):
        return None
    group, total = getattr(first, side), sum(getattr(c, side).size for c in contractions)
    by = (1,) * (len(group.dims) - 1) + (total,)

    def widen(access: Access | None) -> Access | None:
        if access is None or not any(access.strides[d] for d in group.dims):
            return access
        return replace(access, shape=(product(access.shape) * total // group.size,))

    def operand(o: Operand) -> Operand:
        prologue = o.prologue and replace(o.prologue, sources=tuple(map(widen, o.prologue.sources)))
        return replace(o, access=widen(o.access), prologue=prologue)

    sizes = dict(zip(group.dims, by))
    return replace(
        first, sizes=tuple(sizes.get(d, size) for d, size in enumerate(first.sizes)), lhs=operand(first.lhs), rhs=operand(first.rhs),
        epilogue=first.epilogue and replace(first.epilogue, sources=tuple(map(widen, first.epilogue.sources))),
        destinations=tuple(replace(d, access=widen(d.access)) for d in first.destinations), **{side: replace(group, sizes=by)},
    )


def _alike(
    kernel: func.FuncOp, contractions: list[Contraction], joined: Contraction, own: list[dict[Any, float]], target: Target,
) -> Iterator[tuple[float, Any, list[int]]]:
    """(microseconds, schedule, blocks) with what each of them may have alone, of the generators whose tiles have few sizes."""
    for s, time in _alone(kernel, joined, target).items():
        turned = [oriented(c, getattr(s, "swapped", False)) for c in contractions]
        if s.generator != "wgmma" and _is_one_kernel(s, turned) and all(s in others for others in own):
            rows, columns = (s.rows, s.width) if s.generator == "vectors" else (s.tile_m, s.tile_n)
            yield time, s, _deal_out([c.B * ceil(c.M / rows) * ceil(c.N / columns) for c in turned], s, target)


def _is_one_kernel(s: Any, contractions: list[Contraction]) -> bool:
    """Whether no other kernel copies an operand, or adds up parts of sums."""
    if s.generator == "mma":
        return s.split == 1
    if s.generator not in ("bf16x6", "presplit"):
        return True
    tilings = [(bf16x6 if s.generator == "bf16x6" else presplit).tile(c) for c in contractions]
    return not any(t is None or t.lhs.copied or t.rhs.copied for t in tilings)


@dataclass(frozen=True)
class _Together(Tiling):
    """The tiling of one contraction with the columns of all ``members``, each of which begins a tile."""

    members: tuple[Tiling, ...]

    def tiles(self, tile_m: int, tile_n: int) -> int:
        return sum(t.tiles(tile_m, tile_n) for t in self.members)


def _on_tensor_cores(
    parts: list[func.FuncOp], contractions: list[Contraction], joined: Contraction, target: Target,
) -> Iterator[tuple[float, wgmma.Wgmma, list[int]]]:
    """(microseconds, schedule, blocks), with tiles as wide as deals out the columns of all evenly."""
    if not target.hopper:
        return
    width = bit_width(joined.lhs.element) // 8
    tilings = [tile_contraction(c, width, only_along_k=width == 4) for c in (joined, *contractions)]
    if any(precision(p, c) is None for p, c in zip(parts, contractions)) or any(t is None or t.lhs.copied or t.rhs.copied for t in tilings):
        return
    whole, *members = tilings
    together = _Together(**{f.name: getattr(whole, f.name) for f in fields(Tiling)}, members=tuple(members))
    for first, share in _schedules(together, width, target):
        if first.split <= _MOST_PARTS and (s := _fit(first, contractions, members, target)) is not None:
            blocks = _deal_out([t.tiles(s.tile_m * s.cluster, s.tile_n) for t in members], s, target)
            yield _slower(s, together, width, target) * wgmma.estimate(s, share, joined, together, target), s, blocks


# What was measured on an H200 by what is estimated.  Sums in two and four parts: 16x3584x(3584+512+512) 12.7 and 15.8 us, not 10.6 and 11.5.
_SPLIT, _SPLIT_MORE = 1.1, 1.35
_MOST_PARTS = 4  # with 8 there are 160 bytes of spills in a kernel of two arms, and none in each alone
# Tiles that begin inside of lines of 128 bytes: 512x4096x(4096+1024+1024) with weights along the columns, in tiles of 96: 57.1, not 37.0.
_CUT, _CUT_MANY = 1.1, 1.5
# Several rounds of tiles of fewer than 128 x 96 results, which bring more than L2 has: the same with weights along the terms 48.9, not 38.5;
# 2048x3584x(3584+512+512) 150, not 95.
_SMALL = 1.3


def _slower(s: wgmma.Wgmma, together: _Together, width: int, target: Target) -> float:
    """How much longer than estimated it takes."""
    factor = 1.0 if s.split == 1 else _SPLIT if s.split == 2 else _SPLIT_MORE
    if not together.rhs.along_k and s.tile_n * width % 128:
        factor *= _CUT if together.m.size <= 64 else _CUT_MANY
    small = s.tile_m * s.tile_n < 128 * 96 and together.m.size > 64
    return factor * (_SMALL if small and together.tiles(s.tile_m, s.tile_n) > target.multiprocessors else 1)


def _schedules(together: _Together, width: int, target: Target) -> Iterator[tuple[wgmma.Wgmma, float]]:
    """(schedule, share of the tensor core's rate) to try; elements have ``width`` bytes."""
    yield from wgmma.CANDIDATES
    for s, share in wgmma.SPLIT_CANDIDATES:
        if wgmma.splits(s, together, width, target, lambda size: size):
            yield s, share
    for s in wgmma.thin_schedules(together, width, target):
        yield _widen(s, together, target), 1.0


def _widen(s: wgmma.Wgmma, together: _Together, target: Target) -> wgmma.Wgmma:
    """The last tile of each member may be narrow: tiles so wide that they still need no more rounds than one contraction's."""
    at_once = clusters_at_once(s.split, target.multiprocessors)
    rounds = ceil(ceil(together.n.size / s.tile_n) * together.positions / at_once)
    unit, widest = 8 if together.rhs.along_k else 16, 256 if s.split == 1 else 192
    tile_n = s.tile_n
    while together.tiles(s.tile_m, tile_n) > rounds * at_once and tile_n + unit <= widest:
        tile_n += unit
    return replace(s, tile_n=tile_n)


def _fit(s: wgmma.Wgmma, contractions: list[Contraction], tilings: list[Tiling], target: Target) -> wgmma.Wgmma | None:
    """``s`` with as many stages as all of them have shared memory for."""
    found = [wgmma.fit(s, c, t, target) for c, t in zip(contractions, tilings)]
    return None if None in found else min(found, key=lambda f: f.stages)


def _deal_out(tiles: Sequence[int], s: Any, target: Target) -> list[int]:
    """The multiprocessors of each part: as many as blocks, or where those walk over tiles, so that all are done after as few rounds as can be."""
    each, rounds = getattr(s, "blocks", 1), 1  # blocks of a cluster
    while getattr(s, "persistent", False) and sum(ceil(t / rounds) for t in tiles) > target.multiprocessors // each:
        rounds += 1
    return [ceil(t / rounds) * each for t in tiles]
