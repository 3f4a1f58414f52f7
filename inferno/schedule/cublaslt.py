"""The schedule of a contraction that cuBLASLt computes on a GPU: one call, and where its epilogues cannot do what comes of the sums, an
elementwise kernel of ours behind it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, ClassVar

from inferno.library_matmul import LibraryMatmul
from inferno.mlir import func, ir
from inferno.passes.programs import takes_tf32
from inferno.schedule import wgmma
from inferno.schedule.accesses import Access
from inferno.schedule.contraction import Contraction, Destination, Group, Operand, parse_contraction
from inferno.schedule.contraction_parts import ContractionParts, Part, Temporary
from inferno.schedule.cost import CLOCK, accessed_bytes, bit_width, moved_bytes
from inferno.schedule.elementwise import supported
from inferno.schedule.library_epilogue import Epilogue, match_epilogue
from inferno.schedule.pointwise import parse_pointwise
from inferno.schedule.shared_tiles import SECTOR
from inferno.symbolic import Undecided, hint
from inferno.target import Target

# What NVIDIA's documentation recommends for Hopper and later, and for GPUs before.  It lies where the plan's other buffers are.
_WORKSPACE, _WORKSPACE_BEFORE = 32 << 20, 4 << 20
_VARIES = "its sizes vary"
_MEASURED = ("bf16", "f16")
_MULTIPROCESSORS, _LONG = 132, 512  # of an H200; terms that a part has at least
_OFFERED = 4  # of the library's algorithms are in the space
# What a call takes of 16-bit products: the library has kernels of nearly any tile, which share out the terms where tiles are few, so it takes the time of
# the tiles that fill the multiprocessors best, and of what memory takes what that does not hide.  Fitted to 234 times of F.linear on an H200, bf16, of 96
# to 8192 rows and the layers of Llama, Qwen2.5, BERT and GPT-2 (7% off in the mean; the rates alone 12%): _START and _JOINED, which adds up shared terms,
# in microseconds; _SHARE of the tensor cores' rate; _COPIED and _STORED in bytes a clock and multiprocessor; _HIDDEN is left of the shorter time.
_START, _JOINED, _SHARE, _COPIED, _STORED, _HIDDEN = 3.05, 3.5, 0.924, 77, 24, 0.205
_TILES = sorted({
    tile for m in (64, 128, 192, 256, 320) for n in range(32, 257, 8) if m * n <= 320 * 128 and (m <= 128 or n >= 64) for tile in ((m, n), (n, m))
})
_RATES = {"f32": 5e7, "f64": 5e7}  # operations a microsecond that an H200 does of others, roughly
_INSIDE = 1.55  # times longer a factor takes whose rows begin inside of a sector (128x4104x4096 17.6 us, 512x4104x4096 31.5; 35 products)
_MEMORY_RATE, _L2_RATE = 4.2e6, 8e6  # bytes a microsecond
# A kernel behind the call: besides, and bytes a microsecond, half of which L2 has, until what it reads and writes is more than L2 keeps (GELU behind
# 8192x3584x3584 40 us, behind 2048x4096x4096 12.6, as much as a kernel of torch's takes).
_AFTER, _AFTER_RATE, _KEPT = 2.2, 8.8e6, 2e7
# It is taken where it is expected to take so much less: the estimates for ours are 5 to 10% too high, and up to a quarter for short kernels.  What is chosen
# loses 0.9% to the better one of the two in the mean, and 22% at most, of 221 products that were measured both ways, of 96 to 16384 rows, plain and with what
# comes behind, with 0.92; 86 of them are 1.10 times as fast as eager in the mean.  Of 80 others of 65 to 4214 rows, with narrower tiles of ours, it loses 1.4%
# (1.7 with 0.92, 2.1 without the library).
_CLEARLY, _SHORT, _FEW = 0.88, 12.0, 64
# Estimates of blocks that have parts of the terms are not too high: on an H100 six products of 512 and 1024x8192x1024 take 1.02 times those, cuBLASLt 0.98
# times its own (1024x8192x1024 28.1 us, ours 31.4, with a residual 28.4 and 32.0; 512x8192x1024 19.9 and 21.7).  Of factors that are more than L2
# keeps it takes 1.25 times those (2048x11008x512 49.0 and 42.1; 256x11008x4096 50.5 and 43.4).
_IN_PARTS, _KEPT_FACTORS = 0.98, 4.5e7
# Of batches what is estimated to be less is: 11 of 13 whose sums have 512 terms or more take less time by the library (64 of 256x512x256 8.2 us and 11.6,
# 48 of 192x1024x320 16.4 and 20.1, 24 of 320x768x448 11.2 and 15.3, 8 of 1024x2048x256 13.9 and 14.7), and the others as much.  Ends of tiles with shorter
# sums it does not hide (12 of 1536x384x640 21.6 and 16.9, estimated at 17.0).
_LONG_OF_BATCHES = 512


@dataclass(frozen=True)
class CublasLt:
    """``algorithm`` counts what the library's heuristic offers for the call, the best by its estimate first; ``workspace`` is in bytes."""

    generator: ClassVar[str] = "cublaslt"
    multiplies: ClassVar[bool] = True

    algorithm: int = 0
    workspace: int = _WORKSPACE


@dataclass(frozen=True)
class Found:
    """A kernel as a call; ``arguments`` are the numbers of the kernel's arguments that are its operands, the workspace left out.  ``after``:
    what a kernel of ours does then; the result's argument is -1 where the call's is ``sums``, one of the buffers of that."""

    call: LibraryMatmul
    arguments: tuple[int, ...]
    after: Part | None = None
    sums: Temporary | None = None


class Refused(Exception):
    """Why cuBLASLt does not compute a kernel."""


def choose(kernel: func.FuncOp, target: Target) -> CublasLt | None:
    """The first of the heuristic's algorithms, where the kernel is a call of cuBLASLt's."""
    return next(iter(space(kernel, target)), None)


def space(kernel: func.FuncOp, target: Target) -> list[CublasLt]:
    """The schedules to measure, the one that the library expects most of first; none where the kernel is no call of cuBLASLt's."""
    try:
        found = recognise(kernel)
    except Refused:
        return []
    workspace = _WORKSPACE if target.capability >= 90 else _WORKSPACE_BEFORE
    return [CublasLt(number, workspace) for number in range(_OFFERED)] if found is not None else []


def weigh(kernel: func.FuncOp, own: Any, target: Target) -> CublasLt | None:
    """The library's schedule where its estimate is clearly below that of ``own``, which is what our generators choose; None where it is not, or
    nothing is known of it: for others than products of matrices of 16 bits on Hopper."""
    if own.generator != "wgmma":
        return None
    c = parse_contraction(kernel)
    # Its kernels for other lines are much slower: 512x768x50257 took 422 us, where ours take 146.
    if str(c.lhs.element) not in _MEASURED or c.varies or min(c.M, c.N) <= _FEW or not wgmma.has_whole_lines(c):
        return None
    if c.B != 1 and c.K < _LONG_OF_BATCHES:
        return None
    kept = (own.spread or own.parts) and sum(accessed_bytes(a, c.sizes) for a in (*c.lhs.reads, *c.rhs.reads)) <= _KEPT_FACTORS
    ours, clearly = min(time for time, _ in wgmma.every(kernel, c, target)), 1.0 if c.B != 1 else _IN_PARTS if kept else _CLEARLY
    if ours < _SHORT or _time(c) > clearly * ours:
        return None
    try:
        found = recognise(kernel)
    except Refused:
        return None
    return choose(kernel, target) if found is not None and estimate(c, found) < clearly * ours else None


def estimate(c: Contraction, found: Found) -> float:
    """Microseconds of the call that a contraction is, and of the kernel of ours behind it."""
    if found.after is None:
        return _time(c)
    sums = hint(c.B * c.M * c.N) * bit_width(c.destinations[0].access.element) // 8
    others = moved_bytes(c) - sum(accessed_bytes(a, c.sizes) for a in (*c.lhs.reads, *c.rhs.reads))
    return _time(c) + _AFTER + (sums + others) / _AFTER_RATE + max(0, sums + others - _KEPT) / _MEMORY_RATE


def _time(c: Contraction) -> float:
    """Of the call alone."""
    multiply = _products(c) if str(c.lhs.element) in _MEASURED else 2 * hint(c.B * c.M * c.N * c.K) / _RATES.get(str(c.lhs.element), 1e8)
    times = multiply, moved_bytes(c) / _MEMORY_RATE
    return _START + max(times) + _HIDDEN * min(times)


def _products(c: Contraction) -> float:
    """Microseconds of the products, in the tiles and parts of the terms that take least."""
    batch, m, n, k = (hint(x) for x in (c.B, c.M, c.N, c.K))
    tall, wide = (_INSIDE if _begins_inside_of_sectors(o) else 1.0 for o in (c.lhs, c.rhs))
    best = inf
    for parts in (1, 2, 4, 8):
        if parts > 1 and k < _LONG * parts:
            break
        clocks = inf
        for tile_m, tile_n in _TILES:
            rounds = ceil(m / tile_m) * ceil(n / tile_n) * batch * parts / _MULTIPROCESSORS
            rounds = ceil(rounds) if rounds <= 4 else rounds + 0.5
            step = max(tile_m * tile_n / 32 / _SHARE, (tall * tile_m + wide * tile_n) * 128 / _COPIED)
            clocks = min(clocks, rounds * ceil(ceil(k / 64) / parts) * step + tile_m * tile_n * 2 / _STORED)
        joined = _JOINED + 8 * parts * batch * m * n / _L2_RATE if parts > 1 else 0
        best = min(best, clocks / CLOCK + joined)
    return best


def _begins_inside_of_sectors(o: Operand) -> bool:
    return any(hint(s) * bit_width(a.element) // 8 % SECTOR for a in o.reads for s in a.strides if s not in (0, 1))


def refusal(kernel: func.FuncOp) -> str | None:
    """Why cuBLASLt does not compute a contraction; None where it does, and of what multiplies no matrices."""
    try:
        recognise(kernel)
    except Refused as error:
        return str(error)
    except Undecided:
        return _VARIES
    return None


def recognise(kernel: func.FuncOp) -> Found | None:
    """The call that a kernel is, maybe with what is elementwise behind it as a kernel of its own; None if it multiplies no matrices.  Refused
    says why one that does is none."""
    c = parse_contraction(kernel)
    if c is None or c.is_reduction:
        return None
    if c.varies:
        raise Refused(_VARIES)
    if c.lhs.access is None or c.rhs.access is None:
        raise Refused("an operand is computed in the kernel")
    if {d.access.argument for d in c.destinations} & {a.argument for a in (*c.lhs.reads, *c.rhs.reads, *c.extras)}:
        raise Refused("its result takes the place of what it reads")
    if len(c.k.runs) > 1:
        raise Refused("the terms of a sum lie in more than one dimension")
    try:
        return _whole(kernel, c)
    except Refused:
        if c.epilogue is None or any(d.source is None for d in c.destinations):
            raise
    return _in_two(kernel, c)


def _whole(kernel: func.FuncOp, c: Contraction) -> Found:
    """The kernel as one call."""
    if len(c.destinations) != 1:
        raise Refused("it has several results")
    epilogue = match_epilogue(c.epilogue, c.destinations[0].source)
    if epilogue is None:
        raise Refused("its epilogue is none of cuBLASLt's")
    reasons = []
    for axes in _axes(c):
        try:
            return _call(kernel, c, epilogue, axes)
        except Refused as error:
            reasons.append(str(error))
    raise Refused(reasons[0] if reasons else "rows, columns or batches lie in more than one dimension")


def _in_two(kernel: func.FuncOp, c: Contraction) -> Found:
    """The sums as one call, and what comes of them."""
    with kernel.context, ir.Location.unknown():
        parts = ContractionParts(c)
        point = parse_pointwise(parts.after[0].kernel)
    if point is None or not supported(point):
        raise Refused("its epilogue is none of cuBLASLt's, and no elementwise kernel")
    buffer, sums = parts.result
    temporary = buffer if isinstance(buffer, Temporary) else None
    sums = replace(sums, argument=-1 if temporary else buffer, element=parts.sum_type())
    found = _whole(kernel, replace(c, epilogue=None, destinations=(Destination(None, sums),)))
    return replace(found, after=parts.after[0], sums=temporary)


Run = tuple[int, tuple[int, ...]]
"""A size, and the loops behind it, of which the last has the stride; no loops where the size is 1."""


def _axes(c: Contraction) -> Iterator[tuple[Run, Run, Run, Run]]:
    """How the loops may be cuBLASLt's (batch, m, n, k).  Without a batch, an outer dimension of one operand is one: the other has a stride of 0."""
    batch, m, n, k = (_runs(g) for g in (c.batch, c.m, c.n, c.k))
    one = ((1, ()),)
    if max(len(batch), len(m), len(n)) <= 1:
        yield tuple((runs or one)[0] for runs in (batch, m, n, k))
    elif not batch:
        for mine, other, turned in ((m, n, False), (n, m, True)):
            if len(mine) == 2 and len(other) <= 1:
                for outer, inner in (mine, mine[::-1]):
                    rows, columns = (inner, (other or one)[0]) if not turned else ((other or one)[0], inner)
                    yield outer, rows, columns, (k or one)[0]


def _runs(group: Group) -> tuple[Run, ...]:
    return tuple(zip(group.run_sizes, (tuple(r) for r in group.runs)))


def _call(kernel: func.FuncOp, c: Contraction, epilogue: Epilogue, axes: tuple[Run, Run, Run, Run]) -> Found:
    batch, m, n, k = axes
    out = c.destinations[0].access
    sources = {"lhs": c.lhs.access, "rhs": c.rhs.access, "out": out}
    strides = {"lhs": _strides(c.lhs.access, batch, m, k), "rhs": _strides(c.rhs.access, batch, k, n), "out": _strides(out, batch, m, n)}
    beta = 0.0
    for number, factor in epilogue.added:
        access = c.epilogue.sources[number]
        along = _strides(access, batch, m, n)
        if factor == 1 and "bias" not in sources and along[:2] == (0, 0) and (along[2] == 1 or n[0] == 1):
            sources["bias"] = access
        elif beta == 0:
            sources["start"], strides["start"], beta = access, along, factor
        else:
            raise Refused("it adds more than a bias and one tensor")
    call = LibraryMatmul(
        (batch[0], m[0], n[0], k[0]), **strides, offsets=tuple(sources[r].offset if r in sources else 0 for r in ("lhs", "rhs", "start", "bias", "out")),
        compute=_compute(kernel, c), alpha=epilogue.alpha, beta=beta, bias="bias" in sources, activation=epilogue.activation,
    )
    if c.lhs.extend != c.rhs.extend or c.lhs.extend == "arith.extui":
        raise Refused("its operands are widened in different ways")
    operands = [sources[r] for r in call.roles if r != "workspace"]
    elements = iter(str(a.element) for a in operands)
    if reason := call.refusal(["i8" if r == "workspace" else next(elements) for r in call.roles]):
        raise Refused(reason)
    return Found(call, tuple(a.argument for a in operands))


def _strides(access: Access, *axes: Run) -> tuple[int, int, int]:
    return tuple(access.strides[dims[-1]] if dims else 0 for _, dims in axes)


def _compute(kernel: func.FuncOp, c: Contraction) -> str:
    """How products are computed: in the sum's type, or of float32 in TF32 where that is allowed."""
    allowed = c.tf32 or takes_tf32(kernel)
    kind = str(c.accumulator)
    if kind not in ("f32", "f64", "i32"):
        raise Refused(f"sums of {kind}")
    return "tf32" if kind == str(c.lhs.element) == "f32" and allowed else kind
