"""The schedule of a kernel function that is several independent contractions of one tensor: one launch, whose blocks are dealt out to them.

Attention's projections of queries, keys and values are such siblings.  One by one each pays for a launch, and for a last round of tiles that
leaves multiprocessors idle, or for a matrix that is too small for all of them; together they pay once.  The model takes them for one
contraction with the columns of all.  So are convolutions of one image: heads of a detector, branches with other dilations, a transposed one's phases.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import ceil, inf
from typing import Any, ClassVar

from inferno.dialect.sizes import DIVISOR, HINT, RANGE, SIZES, SYMBOL
from inferno.element_sizes import element_bytes
from inferno.mlir import func, ir
from inferno.passes.shapes import argument_attributes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import At as Sizes, fastest
from inferno.schedule.analysis.kept_operands import PARTS, kept
from inferno.schedule.analysis.kernel_parts import extract, parts_of
from inferno.schedule.convolution import im2col
from inferno.schedule.matmul import bf16x6, direct, direct_bf16x6, mma, presplit, simt, vectors, wgmma
from inferno.schedule.matmul.contraction import Contraction, Operand, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.thin import thin_schedules
from inferno.schedule.matmul.wgmma_schedule import precision
from inferno.schedule.tiles.tiling import Tiling, tile_contraction
from inferno.symbolic import Int, Size, Symbol, bounds, ceildiv, hint, product
from inferno.target import Target, clusters_at_once

GENERATORS = ("wgmma", "mma", "vectors", "bf16x6", "presplit", "direct_bf16x6", "simt", "im2col")
"""Those whose kernels are merged; of products from registers another one is made."""
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


@dataclass(frozen=True)
class Parts:
    """Independent contractions that are alike: their functions, and one with the columns, or the rows, of all."""

    functions: list[func.FuncOp]
    contractions: list[Contraction]
    joined: Contraction
    module: ir.Module = field(repr=False)


@dataclass(frozen=True)
class At:
    """The size that estimates are for.  ``top``: the largest, which blocks are dealt out for, where rows vary; ``most`` of them at most,
    where that is less than what their number can be."""

    at: Sizes = hint
    top: Sizes = hint
    most: int | None = None


def choose(kernel: func.FuncOp, target: Target) -> Siblings | None:
    """The best schedule of independent contractions that are alike, of known sizes; None for any other kernel."""
    found = candidates(kernel, target)
    return fastest(found)[1]


def candidates(kernel: func.FuncOp, target: Target) -> list[tuple[float, Siblings]]:
    """Schedules with their estimates in microseconds; none where the kernel is not independent contractions that are alike, of known sizes."""
    apart = _extracted(kernel, target)
    reads = (parse_contraction, partial(im2col.parse_unfolded, target=target)) if apart is not None else ()
    found = [each for read in reads if (parts := _read(*apart, read)) is not None and not parts.joined.varies for each in at_size(parts, target)]
    return [(time, replace(s, apart=min(other.apart for _, other in found))) for time, s in found]


def parse_parts(kernel: func.FuncOp, target: Target) -> Parts | None:
    """None where the kernel is not independent contractions that are alike, or other sizes vary than the number of rows."""
    apart = _extracted(kernel, target)
    return None if apart is None else _read(*apart, parse_contraction)


def _extracted(kernel: func.FuncOp, target: Target) -> tuple[ir.Module, list[func.FuncOp]] | None:
    """The kernel's independent parts, each as a function; None where they cannot share a launch."""
    if target.kind != "nvptx" or len(kernel.type.results) < 2 or _marked(kernel):
        return None
    groups = parts_of(kernel)
    if not 2 <= len(groups) <= MOST:
        return None
    with kernel.context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            return module, [extract(kernel, group, f"part{i}")[0] for i, group in enumerate(groups)]


def _read(module: ir.Module, functions: list[func.FuncOp], read: Callable[[func.FuncOp], Contraction | None]) -> Parts | None:
    """The functions as contractions that are alike, as ``read`` takes them: of tensors, or of windows of images, which the copy engine brings."""
    with module.context, ir.Location.unknown():
        contractions = [read(f) for f in functions]
        if any(c is None or not all(isinstance(size, int) for size in (c.B, c.N, c.K)) for c in contractions):
            return None
        joined = _join(contractions)
        return None if joined is None else Parts(functions, contractions, joined, module)


def _marked(kernel: func.FuncOp) -> bool:
    """Whether an argument is said to be anything but a size, a tensor of such, or a weight that has been split."""
    return any(mark.name not in (PARTS, SYMBOL, RANGE, DIVISOR, HINT, SIZES) for entry in argument_attributes(kernel.operation) for mark in entry)


def at_size(parts: Parts, target: Target, where: At = At()) -> list[tuple[float, Siblings]]:
    """Schedules with their estimates in microseconds, where sizes vary for some."""
    with parts.functions[0].context, ir.Location.unknown():
        texts = [p.operation.get_asm(use_local_scope=True).partition("(")[2] for p in parts.functions]
        each = {text: _alone(p, c, target, where) for text, p, c in zip(texts, parts.functions, parts.contractions)}
        own = [each[text] for text in texts]
        if not all(own):
            return []
        ahead = {} if parts.joined.varies else {text: presplit.candidates(p, c, target) for text, p, c in zip(texts, parts.functions, parts.contractions)}
        straight = {text: [*direct_bf16x6.candidates(p, c, target), *direct.candidates(p, c, target)]
                    for text, p, c in zip(texts, parts.functions, parts.contractions)} if target.hopper else {}
        least = (min([*times.values(), *(time for time, _ in (*ahead.get(text, ()), *straight.get(text, ())))]) for text, times in zip(texts, own))
        apart = round(1000 * (sum(least) - _HIDDEN * (len(own) - 1)))
        found = [*_on_tensor_cores(parts, target, where), *_alike(parts, own, target, where)]
    return [(time, Siblings(each, " ".join(map(str, blocks)), round(1000 * time), apart)) for time, each, blocks in found]


def _alone(kernel: func.FuncOp, c: Contraction, target: Target, where: At) -> dict[Any, float]:
    """The schedules that a contraction may have, and their estimates: of CUDA cores beside tensor cores only those for few vectors; of windows the copy
    engine's."""
    if c.windows is not None:
        return {s: time for time, s in reversed(im2col.at_size(kernel, c, target, where.at, where.most))}
    if kept(kernel, PARTS):
        return {s: time for time, s in reversed(presplit.candidates(kernel, c, target))}
    found = wgmma.candidates(kernel, c, target, where.at, where.most) or mma.candidates(kernel, c, target, where.at)
    if not found:
        found = [*bf16x6.candidates(kernel, c, target, where.at, where.most), *simt.candidates(c, target, where.at)]
    few = vectors.candidates(c, target, where.at, most=where.most or vectors.VECTOR)
    return {s: time for time, s in reversed([*found, *few])}


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


def _alike(parts: Parts, own: list[dict[Any, float]], target: Target, where: At) -> Iterator[tuple[float, Any, list[int]]]:
    """(microseconds, schedule, blocks) with what each of them may have alone, of the generators whose tiles have few sizes."""
    for s, time in _alone(parts.functions[0], parts.joined, target, where).items():
        swapped = getattr(s, "swapped", False)
        exchanged = [oriented(c, swapped) for c in parts.contractions]
        rows, columns = (s.rows, s.width) if s.generator == "vectors" else (s.tile_m, s.tile_n)
        tiles = [c.B * ceildiv(c.M, rows) * ceildiv(c.N, columns) for c in exchanged]
        fits = s.generator != "wgmma" and _is_one_kernel(s, exchanged) and _counts(s, columns if swapped else rows, parts, where)
        if s.generator == "im2col":  # the estimate is of tiles of all columns, which is right where each has whole ones
            joined = oriented(parts.joined, swapped)
            fits = fits and sum(tiles) == joined.B * ceildiv(joined.M, rows) * ceildiv(joined.N, columns)
        if fits and all(s in others for others in own):
            yield time, s, _deal_out([where.top(n) for n in tiles], s, target)


def _counts(s: Any, rows: int, parts: Parts, where: At) -> bool:
    """Whether the number of blocks is known: those of tiles with so many rows, or blocks that walk over tiles, however many there are."""
    c = parts.joined
    one_symbol = isinstance(c.M, Size) and len(c.M.terms) == 1 and [type(a) for a in c.M.terms[0][0]] == [Symbol]  # of which a range is told
    low, high = bounds(c.M)
    return not c.varies or getattr(s, "persistent", False) or (one_symbol and low > 0 and min(where.most or inf, high) <= rows)


def _is_one_kernel(s: Any, contractions: list[Contraction]) -> bool:
    """Whether no other kernel copies an operand, or adds up parts of sums."""
    if s.generator == "mma":
        return s.split == 1
    if s.generator == "im2col":
        return s.split == 1 and not (s.stream or s.patch)
    if s.generator not in ("bf16x6", "presplit"):
        return True
    tilings = [(bf16x6 if s.generator == "bf16x6" else presplit).tile(c) for c in contractions]
    return not any(t is None or t.lhs.copied or t.rhs.copied for t in tilings)


@dataclass(frozen=True)
class _Together(Tiling):
    """The tiling of one contraction with the columns of all ``members``, each of which begins a tile."""

    members: tuple[Tiling, ...]

    def tiles(self, tile_m: int, tile_n: int) -> Int:
        return sum(t.tiles(tile_m, tile_n) for t in self.members)


def _on_tensor_cores(parts: Parts, target: Target, where: At) -> Iterator[tuple[float, wgmma.Wgmma, list[int]]]:
    """(microseconds, schedule, blocks), with tiles as wide as deals out the columns of all evenly."""
    if not target.hopper or parts.joined.windows is not None:
        return
    joined, contractions = parts.joined, parts.contractions
    width = element_bytes(joined.lhs.element)
    tilings = [tile_contraction(c, width, only_along_k=width == 4) for c in (joined, *contractions)]
    if any(precision(p, c) is None for p, c in zip(parts.functions, contractions)) or any(t is None or t.lhs.copied or t.rhs.copied for t in tilings):
        return
    whole, *members = tilings
    together = _Together(**{f.name: getattr(whole, f.name) for f in fields(Tiling)}, members=tuple(members))
    for first, share in _schedules(together, width, target, where):
        if first.split <= _MOST_PARTS and (s := _fit(first, contractions, members, target)) is not None and _counts(s, s.tile_m, parts, where):
            blocks = _deal_out([where.top(t.tiles(s.tile_m * s.cluster, s.tile_n)) for t in members], s, target)
            yield _slower(s, together, width, target, where) * wgmma.estimate(s, share, joined, together, target, where.at), s, blocks


# What was measured on an H200 by what is estimated.  Sums in two and four parts: 16x3584x(3584+512+512) 12.7 and 15.8 us, not 10.6 and 11.5.
_SPLIT, _SPLIT_MORE = 1.1, 1.35
_MOST_PARTS = 4  # with 8 there are 160 bytes of spills in a kernel of two arms, and none in each alone
# Tiles that begin inside of lines of 128 bytes: 512x4096x(4096+1024+1024) with weights along the columns, in tiles of 96: 57.1, not 37.0.
_CUT, _CUT_MANY = 1.1, 1.5
# Several rounds of tiles of fewer than 128 x 96 results, which bring more than L2 has: the same with weights along the terms 48.9, not 38.5;
# 2048x3584x(3584+512+512) 150, not 95.
_SMALL = 1.3


def _slower(s: wgmma.Wgmma, together: _Together, width: int, target: Target, where: At) -> float:
    """How much longer than estimated it takes."""
    rows = where.at(together.m.size)
    factor = 1.0 if s.split == 1 else _SPLIT if s.split == 2 else _SPLIT_MORE
    if not together.rhs.along_k and s.tile_n * width % 128:
        factor *= _CUT if rows <= 64 else _CUT_MANY
    small = s.tile_m * s.tile_n < 128 * 96 and rows > 64
    return factor * (_SMALL if small and where.at(together.tiles(s.tile_m, s.tile_n)) > target.multiprocessors else 1)


def _schedules(together: _Together, width: int, target: Target, where: At) -> Iterator[tuple[wgmma.Wgmma, float]]:
    """(schedule, share of the tensor core's rate) to try; elements have ``width`` bytes."""
    yield from wgmma.CANDIDATES
    for s, share in wgmma.SPLIT_CANDIDATES:
        if wgmma.splits(s, together, width, target, where.at):
            yield s, share
    for s in thin_schedules(together, width, target, where.at, most=where.most):
        yield _widen(s, together, target, where), 1.0


def _widen(s: wgmma.Wgmma, together: _Together, target: Target, where: At) -> wgmma.Wgmma:
    """The last tile of each member may be narrow: tiles so wide that they still need no more rounds than one contraction's."""
    at_once = clusters_at_once(s.split, target.multiprocessors)
    rounds = ceil(ceil(together.n.size / s.tile_n) * where.at(together.positions) / at_once)
    unit, widest = 8 if together.rhs.along_k else 16, 256 if s.split == 1 else 192
    tile_n = s.tile_n
    while where.at(together.tiles(s.tile_m, tile_n)) > rounds * at_once and tile_n + unit <= widest:
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
