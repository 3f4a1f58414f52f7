"""Whether a contraction is cuBLASLt's where either may compute it: by the estimates of its time and of ours."""

from typing import Any

from inferno.mlir import func
from inferno.schedule import bf16x6, direct_bf16x6, mma, presplit, simt, wgmma
from inferno.schedule.contraction import Contraction, parse_contraction
from inferno.schedule.cost import accessed_bytes
from inferno.schedule.cublaslt import CublasLt, Refused, choose, recognise
from inferno.schedule.library_times import SIXTEEN_BITS, call_time, estimate
from inferno.target import Target

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
_CLEARLY_OF, _LEAST = {"f32": 0.9, "f64": 0.95}, 0.5
_OURS = {
    "wgmma": wgmma.every, "mma": mma.candidates, "bf16x6": bf16x6.candidates, "presplit": presplit.candidates, "direct_bf16x6": direct_bf16x6.candidates,
    "simt": lambda kernel, c, target: simt.candidates(c, target),
}


def weigh(kernel: func.FuncOp, own: Any, target: Target, prepared: bool = False) -> CublasLt | None:
    """The library's schedule where its estimate is clearly below that of ``own``, which is what our generators choose; None where it is not, or
    nothing is known of it: on others than Hopper, and for other types than floating-point ones.  ``prepared``: a factor is a weight that may get
    another form, which ours take less time with."""
    if not target.hopper or own.generator not in _OURS:
        return None
    c = parse_contraction(kernel)
    if c is None or c.varies:
        return None
    return (_half if str(c.lhs.element) in SIXTEEN_BITS else _wide)(kernel, c, own, target, prepared)


def _half(kernel: func.FuncOp, c: Contraction, own: Any, target: Target, prepared: bool) -> CublasLt | None:
    """``weigh`` for 16 bits."""
    # The library's kernels for other lines are much slower: 512x768x50257 took 422 us, where ours take 146.
    if own.generator != "wgmma" or min(c.M, c.N) <= _FEW or not wgmma.has_whole_lines(c) or (c.B != 1 and c.K < _LONG_OF_BATCHES):
        return None
    kept = (own.spread or own.parts) and sum(accessed_bytes(a, c.sizes) for a in (*c.lhs.reads, *c.rhs.reads)) <= _KEPT_FACTORS
    ours, clearly = _own_time(kernel, c, own, target), 1.0 if c.B != 1 else _IN_PARTS if kept else _CLEARLY
    return None if ours < _SHORT else _below(clearly * ours, kernel, c, target)


def _wide(kernel: func.FuncOp, c: Contraction, own: Any, target: Target, prepared: bool) -> CublasLt | None:
    """``weigh`` for float32 and float64."""
    kind = str(c.lhs.element)
    if kind not in _CLEARLY_OF or (prepared and kind == "f32"):
        return None
    return _below(min(_CLEARLY_OF[kind] * ours, ours - _LEAST), kernel, c, target) if (ours := _own_time(kernel, c, own, target)) > _LEAST else None


def _own_time(kernel: func.FuncOp, c: Contraction, own: Any, target: Target) -> float:
    """Microseconds of what our generators choose: the least of its generator's."""
    return min(time for time, _ in _OURS[own.generator](kernel, c, target))


def _below(most: float, kernel: func.FuncOp, c: Contraction, target: Target) -> CublasLt | None:
    """The library's schedule where it is estimated to take less than ``most`` microseconds."""
    if call_time(c) > most:
        return None
    try:
        found = recognise(kernel)
    except Refused:
        return None
    return choose(kernel, target) if found is not None and estimate(c, found) < most else None
