"""Automatic mixed precision around a call.

What ``torch.autocast`` has on where a model is compiled is part of the model, as if its ``forward`` entered it: the graph says then which operations
are cast, also those that torch makes of others later on.  Outside it is off meanwhile, and while what was compiled runs, whose casts are its own.
"""

from collections.abc import Iterable
from contextlib import ExitStack

import torch

KINDS = ("cpu", "cuda")

State = tuple[tuple[str, torch.dtype], ...]
"""The kinds of devices for which it is on, and the dtype of each."""

is_any = torch._C._is_any_autocast_enabled


def is_on(kind: str) -> bool:
    """Whether it is on for a kind of devices, which may be one that has none."""
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def around() -> State:
    """What is on now."""
    return tuple((kind, torch.get_autocast_dtype(kind)) for kind in KINDS if torch.is_autocast_enabled(kind)) if is_any() else ()


def within(state: State) -> ExitStack:
    """``state`` is on, until what is returned is closed."""
    return _entered(torch.autocast(kind, dtype) for kind, dtype in state)


def outside(state: State) -> ExitStack:
    """``state`` is off, until what is returned is closed."""
    return _entered(torch.autocast(kind, enabled=False) for kind, _ in state)


def _entered(contexts: Iterable[torch.autocast]) -> ExitStack:
    entered = ExitStack()
    for context in contexts:
        entered.enter_context(context)
    return entered


def describe(state: State) -> str:
    """As a user would write it."""
    return " and ".join(f'torch.autocast("{kind}", {dtype})' for kind, dtype in state) or "no autocast"
