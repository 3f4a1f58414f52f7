"""Schedules for mma.sync on targets that would choose others."""

from collections.abc import Callable

from inferno.mlir import func, ir
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.mma import Mma, candidates
from inferno.target import find_target


def mma(target: str, schedule: Mma | None = None, tf32: bool = False, used: list | None = None) -> Callable[[func.FuncOp], Mma | None]:
    """``choose(kernel)``: this schedule, or the best one, for contractions that mma.sync takes.  ``tf32``: float32 is rounded to it."""
    def choose(kernel: func.FuncOp) -> Mma | None:
        if tf32:
            kernel.attributes["inferno.precision"] = ir.StringAttr.get("tf32")
        c = parse_contraction(kernel)
        found = candidates(kernel, c, find_target(target)) if c is not None else []
        if not found:
            return None
        best = schedule or min(found, key=lambda item: item[0])[1]
        if used is not None:
            used.append(best)
        return best

    return choose
