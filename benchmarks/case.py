"""What a suite is made of, and which of its cases a run times."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inferno.errors import OptionError


@dataclass(frozen=True)
class Case:
    """One thing to time: ``make(device)`` gives (model, args, kwargs), on random normal data.

    With ``dynamic_shapes`` it is compiled for the sizes of ``example(device)``'s inputs and called with those of ``make``'s; the
    version ``static`` is compiled for these.  ``modes`` are torch.compile's that it is compared with.  Every run times the
    ``core``.  ``rate``: the matmul rate that limits it, by type, or "copy" or "read" (see ``limits``), if it is to be held against a limit;
    ``moved``: the bytes that it has to move, if not those of its inputs and results.  ``check``: whether its results are held against float64,
    which random numbers cannot be; ``seen``: what of the arguments and the results is, where right results may differ;
    ``unit``: the rounding unit of what is computed with, if not that of the results.
    ``precision`` is that of torch's float32 matmuls, ``options`` are for ``inferno.compile``, ``variants`` other ones, by name, that are timed
    beside them; ``group`` is what it is summed up with.
    """

    name: str
    make: Callable[[torch.device], tuple]
    modes: tuple[str, ...] = ("torch.compile",)
    dynamic_shapes: Any = None
    example: Callable[[torch.device], tuple] | None = None
    core: bool = True
    rate: str | None = None
    precision: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    group: str = ""
    moved: int | None = None
    check: bool = True
    seen: Callable[[tuple, Any], Any] | None = None
    unit: float | None = None


def select(cases: Sequence[Case], only: str | None, shard: str | None, sample: int, seed: int) -> list[Case]:
    """The cases of a run: those whose name holds ``only``; of them the core and ``sample`` others, drawn by ``seed``, or with
    ``shard``, "I/N", every N-th of all from the I-th on.

    Raises OptionError for a shard that is none, less than no sample, and a name that no case has.
    """
    cases = [c for c in cases if only is None or only in c.name]
    if not cases:
        raise OptionError(f"--only: expected a part of a case's name, got {only!r}, which is in none")
    if sample < 0:
        raise OptionError(f"--sample: expected a number of cases, got {sample}")
    if shard is not None:
        index, _, count = shard.partition("/")
        if not (index.isdigit() and count.isdigit() and int(index) < int(count)):
            raise OptionError(f"--shard: expected I/N with I from 0 to N - 1, such as 0/4, got {shard!r}")
        return cases[int(index)::int(count)]
    others = [c for c in cases if not c.core]
    drawn = {c.name for c in random.Random(seed).sample(others, min(sample, len(others)))}
    return [c for c in cases if c.core or c.name in drawn]
