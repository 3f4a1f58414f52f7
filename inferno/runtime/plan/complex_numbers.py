"""Arguments and results that are complex numbers for who calls, and pairs of their parts for the program: the same memory."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from inferno.runtime.elements import DTYPES
from inferno.runtime.plan.plan import Buffer, Output, Plan

_NUMBERS = {("f32", torch.complex64): "complex<f32>", ("f64", torch.complex128): "complex<f64>"}


def as_complex(plan: Plan, dtypes: Sequence[torch.dtype]) -> Plan:
    """The plan with such results as the numbers that ``dtypes``, of all results, say."""
    outputs = tuple(of_numbers(o, d) for o, d in zip(plan.outputs, dtypes, strict=True))
    return plan if outputs == plan.outputs else replace(plan, outputs=outputs)


def of_numbers(part: Output | Buffer, dtype: torch.dtype) -> Output | Buffer:
    """An argument or result that a caller has as ``dtype``, with the caller's shape."""
    element = _NUMBERS.get((part.element, dtype))
    return part if element is None or part.shape[-1:] != (2,) else replace(part, shape=part.shape[:-1], element=element)


def as_real(argument: Tensor, element: str) -> Tensor:
    """An argument of a call as a program has it that reads elements of this type."""
    return torch.view_as_real(argument) if argument.is_complex() and not DTYPES[element].is_complex else argument


def as_pairs(plan: Plan, arguments: Sequence[Tensor]) -> list[Tensor]:
    """A call's arguments as the program has them."""
    return [as_real(a.resolve_conj(), p.element) for p, a in zip(plan.arguments, arguments)] + list(arguments[len(plan.arguments):])
