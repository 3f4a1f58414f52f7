"""A program as it is scheduled for a GPU, on the simulator."""

from collections.abc import Callable
from typing import Any

import torch
from checks import assert_close_to_float64
from torch import Tensor
from universal_program import Simulated

from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.target import find_target


def assert_right(program: Callable, tensors: tuple[Tensor, ...], change: Callable = lambda kernel, schedule: schedule) -> str:
    """Its results are right, by the schedules that ``change`` makes of those that are chosen; the text of its ``scheduled`` stage."""
    found = capture(program, tensors)
    text = build_from("torch", found.text, find_target("sm_90a"), last="scheduled", signature=found.signature).stages["scheduled"]
    run = Simulated(text, lambda kernel: change(kernel, from_attribute(kernel.attributes[ATTRIBUTE])))
    results = run(*found.signature.arguments_of(tensors, {}))
    for number, result in enumerate(results):
        def one(*tensors, number=number):
            made = program(*tensors)
            return made[number] if isinstance(made, tuple) else made

        assert_close_to_float64(found.signature.results[number].as_eager(result), one, tensors)
    return text


def assert_right_of(program: Callable, shape: tuple[int, ...], dtype: torch.dtype, count: int) -> str:
    """The same of so many tensors of normal numbers."""
    torch.manual_seed(0)
    return assert_right(program, tuple(torch.randn(shape).to(dtype) for _ in range(count)))


def assert_right_changed(program: Callable, shape: tuple[int, ...], dtype: torch.dtype, change: Callable) -> tuple[str, Any]:
    """The same of two tensors, by the schedules that ``change`` makes: the text, and what it made of the first."""
    torch.manual_seed(0)
    changed: list[Any] = []

    def note(kernel, schedule):
        changed.append(change(kernel, schedule))
        return changed[-1]

    return assert_right(program, tuple(torch.randn(shape).to(dtype) for _ in range(2)), note), changed[0]


def launches(text: str) -> int:
    """Calls of kernels in a stage's ``@main``."""
    return text[: text.index("func.func private")].count("call @")
