"""Contractions on the tensor cores of sm_80 and up, also where another generator is the usual one: the candidates in other orders."""

from collections.abc import Iterator
from dataclasses import replace

from inferno.mlir import func
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.mma import Mma, candidates
from inferno.target import Target

_GROUPS = (8, 4, 16)  # of tiles, which are tried: see ``Mma``
_USUAL = _GROUPS[0]


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Mma]]:
    """Schedules with their estimates; where those are equal the usual one is first."""
    for time, s in _candidates(kernel, target):
        yield from ((time, replace(s, group=group)) for group in _GROUPS)


def valid(kernel: func.FuncOp, schedule: Mma, target: Target) -> bool:
    """Whether it is one of them."""
    return schedule.group in _GROUPS and any(s == replace(schedule, group=_USUAL) for _, s in _candidates(kernel, target))


def _candidates(kernel: func.FuncOp, target: Target) -> list[tuple[float, Mma]]:
    c = parse_contraction(kernel) if target.capability >= 80 else None
    return candidates(kernel, c, target) if c is not None and not c.varies else []
