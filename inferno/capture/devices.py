"""What is known of the device that a tensor is on, and of the one that a program is captured for."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_FOR_HOPPER: ContextVar[bool | None] = ContextVar("for_hopper", default=None)


@contextmanager
def capturing_for(hopper: bool) -> Iterator[None]:
    """Whether what is captured will run on Hopper, as far as its tensors' device leaves that open."""
    token = _FOR_HOPPER.set(hopper)
    try:
        yield
    finally:
        _FOR_HOPPER.reset(token)


def captures_for_hopper() -> bool | None:
    """Which of the two it is; None where nobody said."""
    return _FOR_HOPPER.get()


def on_hopper(tensor: Tensor) -> bool:
    """Whether a tensor is on a GPU for which there are kernels of sm_90a."""
    return tensor.device.type == "cuda" and torch.cuda.get_device_capability(tensor.device) == (9, 0)


def for_gpu(tensor: Tensor) -> bool:
    """Whether a program of such tensors is known to run on a GPU."""
    return tensor.device.type == "cuda" or captures_for_hopper() is True


def for_hopper(tensor: Tensor) -> bool:
    """Whether a program of such tensors will run on Hopper: those of the CPU are examples where its target was asked for."""
    return captures_for_hopper() is not False and on_hopper(tensor) if tensor.device.type == "cuda" else captures_for_hopper() is True
