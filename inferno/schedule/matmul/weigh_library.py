"""Choose between cuBLASLt and generated kernels for a contraction by estimates of both."""

from typing import Any

from inferno.mlir import func
from inferno.schedule.analysis.cost import accessed_bytes
from inferno.schedule.matmul import bf16x6, direct, direct_bf16x6, mma, presplit, simt, wgmma
from inferno.schedule.matmul.contraction import Contraction, Operand
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.cublaslt import CublasLt, Refused, choose, compute_of, recognise
from inferno.schedule.matmul.library_times import SIXTEEN_BITS, call_time, estimate
from inferno.target import Target

# It is taken where it is expected to take so much less: the estimates for ours are 5 to 10% too high.  What is chosen
# loses 0.9% to the better one of the two in the mean, and 22% at most, of 221 products that were measured both ways, of 96 to 16384 rows, plain and with what
# comes behind, with 0.92; 86 of them are 1.10 times as fast as eager in the mean.  Of 80 others of 65 to 4214 rows, with narrower tiles of ours, it loses 1.4%
# (1.7 with 0.92, 2.1 without the library).
_CLEARLY, _FEW = 0.88, 64
# Short ones of ours are estimated right: of 14 shapes in both layouts on an H200 that are estimated at 6.5 to 14 us 10 are the library's, of which it takes
# 0.90 times as long in the mean and 1.09 times at most (832x3904x480 9.8 and 12.0 us, 640x4096x512 10.0 and 11.6, 130x776x5000 6.2 and 7.9).
_SHORT, _SHORTEST, _CLEARLY_SHORT = 12.0, 6.5, 0.935
# Estimates of blocks that have parts of the terms are not too high: on an H100 six products of 512 and 1024x8192x1024 take 1.02 times those, cuBLASLt 0.98
# times its own (1024x8192x1024 28.1 us, ours 31.4, with a residual 28.4 and 32.0; 512x8192x1024 19.9 and 21.7).  Of factors that are more than L2
# keeps it takes 1.25 times those (2048x11008x512 49.0 and 42.1; 256x11008x4096 50.5 and 43.4), on an H200 1.03 times, but 1.10 to 1.15 of the longest sums,
# where ours take 0.89 times theirs (256x13824x5120 62 and 57, with GELU 63 and 60).
_IN_PARTS, _KEPT_FACTORS, _CLEARLY_LARGE = 0.98, 4.5e7, 0.82
# Of batches what is estimated to be less is: 11 of 13 whose sums have 512 terms or more take less time by the library (64 of 256x512x256 8.2 us and 11.6,
# 48 of 192x1024x320 16.4 and 20.1, 24 of 320x768x448 11.2 and 15.3, 8 of 1024x2048x256 13.9 and 14.7), and the others as much.  Ends of tiles with shorter
# sums it does not hide (12 of 1536x384x640 21.6 and 16.9, estimated at 17.0).
_LONG_OF_BATCHES = 512
# Of float32, TF32 and float64, by how sums are computed.  Of 275 products on an H200, `x @ w` and linear, squares, few rows, batches and lines that begin
# anywhere, what is chosen loses 2.1% of float64 to the better one of the two in the mean (ours alone 11.8%), 0.8% of TF32 (2.7%), 0.9% of float32 (7.0%);
# the most by short ones (144x104x1376 of float64 6.0 us and 4.4, 200 of 65x65x65 of TF32 14.8 and 10.8).
_CLEARLY_OF = {"f32": 0.93, "tf32": 0.88, "f64": 0.95}
# Times longer ours take than estimated where they are short sums on CUDA cores, or come straight from memory (us: 64 of 100x37x300 13.6, 128 of 256x37x64 9.8,
# 96 of 197x197x64 24.7; cuBLASLt 12.0, 8.8 and 19.4), or others whose results' lines begin anywhere (8 of 99x99x2001 19.2 and 15.2, 64x4097x4097, `x @ w`,
# 64 and 56).
_LONGER, _ANYWHERE = {"simt": 1.25, "direct_bf16x6": 1.25}, 1.25
# Microseconds that ours are estimated at, at least.
_LEAST = 5.0
# Times longer ours take than estimated where a factor of TF32 has its terms outermost, in lines of no multiple of 16 bytes, and is more than L2 keeps (us:
# 64x4097x4097, `x @ w`, 106 and cuBLASLt 41, 64x4098x4098 66 and 42, 512x4098x4098 199 and 145; linear 38, 41 and 93).
_TRANSPOSED_NARROW, _NARROW_BYTES = 1.7, 3e7
_OURS = {
    "wgmma": wgmma.every, "mma": mma.candidates, "bf16x6": bf16x6.candidates, "presplit": presplit.candidates, "direct_bf16x6": direct_bf16x6.candidates,
    "direct": direct.candidates, "simt": lambda kernel, c, target: simt.candidates(c, target),
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
    most = _half(kernel, c, own, target) if str(c.lhs.element) in SIXTEEN_BITS else _wide(kernel, c, own, target, prepared)
    try:
        found = recognise(kernel) if most is not None and call_time(c, compute_of(kernel, c)) < most else None
    except Refused:
        return None
    return choose(kernel, target) if found is not None and estimate(c, found) < most else None


def _half(kernel: func.FuncOp, c: Contraction, own: Any, target: Target) -> float | None:
    """Microseconds below which the library's estimate has to be, of 16 bits; None where it is not asked."""
    # The library's kernels for other lines are much slower: 512x768x50257 took 422 us, where ours take 146.
    if own.generator != "wgmma" or min(c.M, c.N) <= _FEW or not wgmma.has_whole_lines(c) or (c.B != 1 and c.K < _LONG_OF_BATCHES):
        return None
    ours, in_parts = _own_time(kernel, c, own, target), own.spread or own.parts
    kept = sum(accessed_bytes(a, c.sizes) for a in (*c.lhs.reads, *c.rhs.reads)) <= _KEPT_FACTORS
    clearly = 1.0 if c.B != 1 else (_IN_PARTS if kept else _CLEARLY_LARGE) if in_parts else _CLEARLY if ours >= _SHORT else _CLEARLY_SHORT
    return None if ours < (_SHORT if c.B != 1 else _SHORTEST) else clearly * ours


def _wide(kernel: func.FuncOp, c: Contraction, own: Any, target: Target, prepared: bool) -> float | None:
    """The same of float32 and float64."""
    kind = str(c.lhs.element)
    if kind not in _CLEARLY_OF or str(c.accumulator) != kind or (prepared and kind == "f32"):
        return None
    ours, anywhere, kind = _own_time(kernel, c, own, target), own.generator in ("bf16x6", "presplit") and c.N % 4 != 0, compute_of(kernel, c)
    ours *= _ANYWHERE if anywhere else _LONGER.get(own.generator, 1.0)
    ours *= _TRANSPOSED_NARROW if kind == "tf32" and any(_is_transposed_and_narrow(o, c) for o in (c.lhs, c.rhs)) else 1
    return _CLEARLY_OF[kind] * ours if ours >= _LEAST else None


def _is_transposed_and_narrow(o: Operand, c: Contraction) -> bool:
    """Whether a large factor's terms are outermost and its lines begin inside of 16 bytes."""
    if o.access is None or not c.k.runs or sum(accessed_bytes(a, c.sizes) for a in o.reads) < _NARROW_BYTES:
        return False
    return c.k.strides(o.access)[-1] % 4 != 0 and c.k.strides(o.access)[-1] != 1


def _own_time(kernel: func.FuncOp, c: Contraction, own: Any, target: Target) -> float:
    """Microseconds of what our generators choose: the least of its generator's."""
    return min(time for time, _ in _OURS[own.generator](kernel, c, target))
