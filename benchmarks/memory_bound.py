"""What the suites of operations that are bound by memory share: how a case is written down."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from benchmarks.case import Case

TYPES = {
    "f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64, "f8": torch.float8_e4m3fn,
}
ALL = ("torch.compile", "max-autotune")
Input = Sequence[int] | Callable[[torch.device], torch.Tensor]
"""A shape of random normal data in the case's type, or what makes a tensor."""


def case(
    group: str, name: str, function: Callable, type_: str, *inputs: Input, core: bool = True, rate: str = "copy", moved: int | None = None,
    check: bool = True, seen: Callable[[tuple, Any], Any] | None = None,
) -> Case:
    """A function of ``inputs``.  ``moved``: the bytes that it has to move, where they are not those of its inputs and results."""
    def make(device: torch.device) -> tuple:
        return function, tuple(i(device) if callable(i) else torch.randn(*i, dtype=TYPES[type_], device=device) for i in inputs), {}

    shape = next((f" {'x'.join(map(str, i))}" for i in inputs if not callable(i)), "")
    modes = ALL if core else ALL[:1]
    return Case(f"{name}{shape} {type_}", make, modes, core=core, rate=rate, group=f"{group} {type_}", moved=moved, check=check, seen=seen)


def whole_numbers(most: int, *shape: int, type_: torch.dtype = torch.int64) -> Callable[[torch.device], torch.Tensor]:
    """Random indices below ``most``."""
    return lambda device: torch.randint(0, most, shape, dtype=type_, device=device)


def permuted(most: int) -> Callable[[torch.device], torch.Tensor]:
    """All indices below ``most``, in random order."""
    return lambda device: torch.randperm(most, device=device)


def selected(args: tuple, found: tuple[torch.Tensor, torch.Tensor]) -> tuple:
    """What the results of topk, and of a sort that need not be stable, are compared by: values, the values where its indices point to, and that no
    index comes twice; equal values may have any order."""
    values, indices = found
    return values, args[0].gather(-1, indices), (indices.sort(-1).values.diff(dim=-1) > 0).all()


def size_of(type_: str, *shapes: Sequence[int]) -> int:
    """Bytes of tensors of these shapes."""
    return TYPES[type_].itemsize * sum(prod(s) for s in shapes)
