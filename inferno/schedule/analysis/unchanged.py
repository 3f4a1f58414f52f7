"""A cache of analyses of a kernel, valid while it does not change: some twenty generators ask what contraction, rows or windows it is."""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from inferno.mlir import func, ir


class _Known(threading.local):
    """The ``kernel`` that does not change at the moment, and what was found of it."""

    kernel: ir.Operation | None = None
    found: dict[tuple, Any] | None = None


_known = _Known()


@contextmanager
def unchanged(kernel: func.FuncOp) -> Iterator[None]:
    """Nothing changes ``kernel`` meanwhile: functions that are ``asked_once`` read it once, of which each try takes 1 ms."""
    before = _known.kernel, _known.found
    if before[0] is None or before[0] != kernel.operation:
        _known.kernel, _known.found = kernel.operation, {}
    try:
        yield
    finally:
        _known.kernel, _known.found = before


def asked_once(read: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a kernel, and of numbers and the like, whose result nobody changes."""

    @functools.wraps(read)
    def ask(kernel: func.FuncOp, *args: Any, **kwargs: Any) -> Any:
        if _known.kernel is None or kernel.operation != _known.kernel:
            return read(kernel, *args, **kwargs)
        key = read, args, tuple(kwargs.items())
        if key not in _known.found:
            _known.found[key] = read(kernel, *args, **kwargs)
        return _known.found[key]

    return ask
