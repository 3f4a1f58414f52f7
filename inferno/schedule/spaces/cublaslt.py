"""Contractions that cuBLASLt computes: the algorithms that its heuristic offers."""

from inferno.mlir import func
from inferno.schedule.contraction import parse_contraction
from inferno.schedule.cost import moved_bytes
from inferno.schedule.cublaslt import CublasLt
from inferno.schedule.cublaslt import space as algorithms
from inferno.symbolic import hint
from inferno.target import Target

_START = 2.0  # microseconds of a call besides
_RATES = {"bf16": 8e8, "f16": 8e8, "f32": 5e7, "f64": 5e7}  # operations a microsecond that an H200 does of these, roughly
_MEMORY_RATE = 4.3e6  # bytes a microsecond
_WORSE = 0.02  # how much each further algorithm is taken to be worse: they are in the heuristic's order


def space(kernel: func.FuncOp, target: Target) -> list[tuple[float, CublasLt]]:
    """Schedules with estimates that put them among those of ours: the library is near the machine's limits."""
    found = algorithms(kernel, target) if target.kind == "nvptx" else []
    if not found:
        return []
    c = parse_contraction(kernel)
    flops = 2 * hint(c.B) * hint(c.M) * hint(c.N) * hint(c.K)
    time = _START + max(flops / _RATES.get(str(c.lhs.element), 1e8), moved_bytes(c) / _MEMORY_RATE)
    return [(time * (1 + _WORSE * i), s) for i, s in enumerate(found)]


def valid(kernel: func.FuncOp, schedule: CublasLt, target: Target) -> bool:
    """Whether the library computes the kernel, by one of these algorithms."""
    return target.kind == "nvptx" and schedule in algorithms(kernel, target)
