"""The schedule of contractions on CUDA cores: exact float32, float64 and integers, and any shape that tensor cores refuse."""

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from inferno.element_sizes import element_bytes
from inferno.mlir import func, ir, walk
from inferno.schedule.analysis.cost import CLOCK, MEMORY_RATE, At, moved_bytes
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.maps.supported import supported_body, supported_element
from inferno.schedule.matmul.contraction import Contraction, Operand
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.reductions import reductions
from inferno.symbolic import bounds, hint, product
from inferno.target import STATIC_SHARED, Target


@dataclass(frozen=True)
class Simt:
    """A block computes ``tile_m`` x ``tile_n`` results, ``tile_k`` terms at a time, each thread ``thread_m`` x ``thread_n``.

    ``slices`` groups of threads share the terms of a tile and add up in shared memory in the end.  ``chunk`` is the
    number of terms that a thread adds one after the other before it adds their sum to a total: it bounds the rounding error.
    ``stages`` is the number of tiles in shared memory (2: the next one is written while one is read).
    """

    generator: ClassVar[str] = "simt"

    tile_m: int = 128
    tile_n: int = 128
    tile_k: int = 16
    thread_m: int = 8
    thread_n: int = 8
    slices: int = 1
    stages: int = 2
    chunk: int = 256

    @property
    def threads(self) -> int:
        return self.tile_m // self.thread_m * (self.tile_n // self.thread_n) * self.slices

    @property
    def totals_in_registers(self) -> bool:
        """Up to 32 totals fit beside the accumulators; more lie in dynamic shared memory."""
        return self.thread_m * self.thread_n <= 32

    @property
    def shared_begins(self) -> tuple[int, int]:
        """Where the two operands' tiles begin in shared memory; rows are padded by 4 against bank conflicts."""
        return 0, self.stages * self.tile_k * (self.tile_m + 4)

    @property
    def shared_elements(self) -> int:
        """Elements in static shared memory: the operands' tiles, and later at least one slice's sums."""
        operands = self.shared_begins[1] + self.stages * self.tile_k * (self.tile_n + 4)
        return max(operands, self.tile_m * self.tile_n if self.slices > 1 else 0)


# Results of a matrix up to which the least tile's threads have next to none: for 4096 matrices of 1x4096 by 4096x3, of what a power of the distances between
# points weighs, an H200 took 1545 us in tiles of 8 x 32 (float32), by threads of a sum each 177 (bf16).
_FEW = 16

# (schedule, share of the peak rate that its inner loop reaches when there are enough blocks), largest first.
SHAPES = (
    (Simt(128, 128, 16, 8, 8, 1), 0.80),
    (Simt(64, 128, 16, 8, 8, 2), 0.70),
    (Simt(128, 64, 16, 8, 8, 2), 0.70),
    (Simt(64, 64, 32, 4, 8, 2), 0.60),
    # 512x1024x512 took an H200 30 us, 16 of 128x64x128 4.5, for which the two below take 3.5.
    (Simt(64, 64, 16, 4, 4, 1), 0.40),
    (Simt(32, 64, 16, 4, 8, 2), 0.53),  # 512x1024x512 on an H200: 21.9 us, where 4 x 4 results a thread take 30; 320x256x640 6.6, 512^3 11.8
    (Simt(32, 64, 32, 4, 4, 2), 0.33),
    (Simt(32, 32, 64, 4, 4, 4), 0.40),
    (Simt(16, 32, 128, 4, 4, 8, stages=1), 0.29),  # 2.7 us, where the next one takes 3.2; not yet known for [N, K]
    (Simt(16, 32, 64, 4, 4, 16), 0.22),  # 128x256x512 on an H200: 4.0 us with weights [K, N], 4.8 with [N, K]
    (Simt(16, 32, 64, 4, 2, 4), 0.19),  # 5.3 and 5.5
    (Simt(8, 32, 128, 8, 1, 8, stages=1), 0.18),
    (Simt(8, 32, 256, 8, 1, 8, stages=1), 0.18),
)
_START = 0.7  # microseconds of a kernel that does next to nothing (H200: 1.6 us for 64x128x256, 3.0 for 128x256x512, 5.5 for 256x512x256)
# Waits until the first of two tiles is there, and until a block's groups of threads have added up (12 x 128x64x128 3.7 us, where one wait makes 2.7).
_FIRST, _ADDED = 1.2, 2.1
# Bytes of results a clock and multiprocessor, of all rounds but the last, where four neighbours of a thread are written together or one by one; those of
# one by one also of the last round (on an H200, us, 32 of 512x37x512 26.5, 64 of 300x19x300 23.4, 512 of 128x32x32 12.8, 8 of 99x99x2001 19.4, where
# products alone make 19.1, 16.1, 9.4 and 11.8).
_STORED, _STORED_APART = 24, 6
VECTOR = 8
"""Rows or columns up to which a contraction is taken for products with vectors, which eager adds in trees."""


def choose(kernel: func.FuncOp, target: Target) -> Simt | None:
    """The schedule with the lowest estimate if ``kernel`` is a contraction of a type that CUDA cores multiply, else None."""
    if target.kind != "nvptx":
        return None
    contraction = parse_contraction(kernel)
    found = choose_with_estimate(contraction, target) if contraction is not None else None
    if found is None or (hint(contraction.M * contraction.N) <= _FEW and _are_faster_sums(kernel, found[0], target)):
        return None
    return found[1]


def _are_faster_sums(kernel: func.FuncOp, estimate: float, target: Target) -> bool:
    """Whether the generator of reductions takes a kernel, and is expected to be faster."""
    sums = reductions.planned(kernel, target)
    return sums is not None and reductions.estimate(sums[1], sums[0], target) < estimate


def choose_with_estimate(contraction: Contraction, target: Target) -> tuple[float, Simt] | None:
    """The estimate in microseconds, and the schedule; None for what CUDA cores do not multiply."""
    return min(candidates(contraction, target), key=lambda item: item[0], default=None)


def candidates(contraction: Contraction, target: Target, at: At = hint) -> list[tuple[float, Simt]]:
    """Schedules with their estimates in microseconds; none for what CUDA cores do not multiply."""
    return list(_candidates(contraction, target, at)) if supported(contraction) and not contraction.is_reduction else []


@kept_with
def _candidates(contraction: Contraction, target: Target, at: At) -> list[tuple[float, Simt]]:
    found = [(s, share) for s, share in SHAPES if fits(s, contraction, target)]
    if not isinstance(contraction.K, int):  # ptxas spills 20 to 170 bytes of the others
        found = [(s, share) for s, share in found if s.thread_n > 1 and (s.slices > 1 or s.thread_m > 4) and (s.stages == 2 or contraction.B == 1)] or found
    return [(estimate(s, share, contraction, target, at), chunked(s, contraction)) for s, share in found]


def fits(schedule: Simt, contraction: Contraction, target: Target) -> bool:
    """Whether shared memory holds the tiles and the totals."""
    size = contraction.accumulator.width // 8
    return size * schedule.shared_elements <= STATIC_SHARED and _totals(schedule, size) <= target.shared // 3


def chunked(schedule: Simt, contraction: Contraction) -> Simt:
    """Totals in registers are cheap: one addition in 64.  A product with a vector is bound by memory and can have more; with
    64 terms in a row it missed the bound by 5%, because eager adds in a tree there."""
    if not schedule.totals_in_registers:
        return schedule
    return replace(schedule, chunk=16 if by_vectors(contraction) else 64)


def by_vectors(contraction: Contraction) -> bool:
    """Whether it may be a product with few rows or columns."""
    return min(bounds(contraction.M)[0], bounds(contraction.N)[0]) <= VECTOR


def _totals(schedule: Simt, size: int) -> int:
    """Bytes of dynamic shared memory for totals."""
    return 0 if schedule.totals_in_registers else schedule.threads * schedule.thread_m * schedule.thread_n * size


def estimate(schedule: Simt, share: float, contraction: Contraction, target: Target, at: At = hint) -> float:
    """Microseconds, roughly: the fullest multiprocessor's multiply-adds at the shape's rate, or its loads' latency, or what memory takes.

    128 multiply-adds a clock and multiprocessor at 1.7 GHz; 0.6 us for each tile of operands that is waited for.
    """
    s, c = schedule, contraction
    batch, m, n, k = map(at, (c.B, c.M, c.N, c.K))
    blocks = batch * ceil(m / s.tile_m) * ceil(n / s.tile_n)
    rounds = ceil(blocks / target.multiprocessors)
    steps = ceil(k / s.tile_k)
    slow = {"f32": 1, "f64": 2}.get(str(c.accumulator), 4)
    work = rounds * s.tile_m * s.tile_n * steps * s.tile_k * slow / (128 * CLOCK * share)
    apart = n % 4 != 0
    ends = (rounds - (0 if apart else 1)) * s.tile_m * s.tile_n * element_bytes(c.accumulator) / (_STORED_APART if apart else _STORED) / CLOCK
    # A lone block's loads are not hidden by another block's arithmetic.
    exposed = 0.6 * (steps if s.stages == 1 else _FIRST + 0.25 * steps + _ADDED * rounds * (s.slices > 1))
    memory = moved_bytes(c, at) / MEMORY_RATE
    return _START + max(work + ends, exposed, memory) + 0.3 * min(work, exposed)


@kept_with
def supported(contraction: Contraction) -> bool:
    """Whether all types and bodies are ones that the generator can inline."""
    c = contraction
    if str(c.accumulator) not in ("f32", "f64", "i32", "i64"):
        return False
    places = [*c.lhs.reads, *c.rhs.reads, *c.extras, *(d.access for d in c.destinations)]
    if any(not supported_element(p.element) or (not c.varies and product(p.shape) >= 2**31) for p in places):
        return False
    if any(bounds(stride)[0] < 0 for p in places for stride in p.strides):
        return False
    # In place, an element may only be read by the thread that writes it.
    written = {d.access.argument: d.access for d in c.destinations}
    if any(p.argument in written for p in (*c.lhs.reads, *c.rhs.reads)):
        return False
    if any(e.argument in written and e != written[e.argument] for e in c.extras):
        return False
    bodies = [m for m in (c.lhs.prologue, c.rhs.prologue, c.epilogue) if m is not None]
    if any(not supported_body(b.generic) or walk(b.generic, "tensor.extract") for b in bodies):
        return False
    return all(_factor(o, c.accumulator) for o in (c.lhs, c.rhs))


def _factor(operand: Operand, accumulator: ir.Type) -> bool:
    """Whether what is multiplied has the accumulator's type once widened, and does not depend on where it stands."""
    if not operand.reads or (operand.extend is None and operand.element != accumulator):
        return False
    return operand.prologue is None or not walk(operand.prologue.generic, "linalg.index")
