"""Caches of analyses of a kernel: some twenty generators ask what contraction, rows or windows it is, and some forty passes ask them.

What one finds is either valid while the kernel does not change, or, where it is read off a copy, for every kernel that is the same when written.
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from inferno.mlir import func, ir
from inferno.passes.programs import has_few_multiprocessors, takes_unmeasured


class _Known(threading.local):
    """The ``kernel`` that does not change at the moment, what was ``found`` of it, and its ``text``; and what was ``read`` of texts."""

    kernel: ir.Operation | None = None
    found: dict[tuple, Any] | None = None
    text: bytes | None = None
    read: dict[tuple, Any] | None = None


_known = _Known()


@contextmanager
def unchanged(kernel: func.FuncOp) -> Iterator[None]:
    """Nothing changes ``kernel`` meanwhile: functions that are ``asked_once`` read it once, of which each try takes 1 ms."""
    before = _known.kernel, _known.found, _known.text
    if before[0] is None or before[0] != kernel.operation:
        _known.kernel, _known.found, _known.text = kernel.operation, {}, None
    try:
        yield
    finally:
        _known.kernel, _known.found, _known.text = before


@contextmanager
def texts_read_once() -> Iterator[None]:
    """Functions that are ``read_by_text`` read equal kernels once meanwhile, all of one context; what they found is kept as long."""
    before, _known.read = _known.read, {}
    try:
        yield
    finally:
        _known.read = before


def _is_unchanged(kernel: func.FuncOp) -> bool:
    return _known.kernel is not None and kernel.operation == _known.kernel


def asked_once(read: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a kernel, and of numbers and the like, whose result nobody changes."""

    @functools.wraps(read)
    def ask(kernel: func.FuncOp, *args: Any, **kwargs: Any) -> Any:
        if not _is_unchanged(kernel):
            return read(kernel, *args, **kwargs)
        found, key = _known.found, (read, args, tuple(kwargs.items()))
        if key not in found:
            found[key] = read(kernel, *args, **kwargs)
        return found[key]

    return ask


def read_by_text(read: Callable[..., Any]) -> Callable[..., Any]:
    """A function of what is inside of a kernel and of what the module around it asks for, and of numbers and the like, whose result holds no operations but of
    a copy, which nobody changes.  To write a kernel takes 35 us, a tenth of what splitting and reading a copy does, or less: a function that refuses most
    kernels without one does so before."""

    @functools.wraps(read)
    def ask(kernel: func.FuncOp, *args: Any) -> Any:
        if _known.read is None:
            return read(kernel, *args)
        op = kernel.operation
        with unchanged(kernel):
            key = read, args, _text(kernel), takes_unmeasured(op), has_few_multiprocessors(op)
            if key not in _known.read:
                _known.read[key] = read(kernel, *args)
            return _known.read[key]

    return ask


def kept_with(read: Callable[..., Any]) -> Callable[..., Any]:
    """A function of what a kernel was read as, a frozen dataclass, and of numbers and the like, whose result nobody changes: it is kept with that."""

    @functools.wraps(read)
    def ask(it: Any, *args: Any, **kwargs: Any) -> Any:
        found, key = vars(it).setdefault("_found", {}), (read, args, tuple(kwargs.items()))
        if key not in found:
            found[key] = read(it, *args, **kwargs)
        return found[key]

    return ask


def _text(kernel: func.FuncOp) -> bytes:
    """All that is in a kernel that does not change but its name, which passes number anew, in half the time that printing it takes."""
    if _known.text is None:
        attributes, written = kernel.operation.attributes, BytesIO()
        name = attributes["sym_name"]
        attributes["sym_name"] = ir.StringAttr.get("", name.context)
        kernel.operation.write_bytecode(written)
        attributes["sym_name"] = name
        _known.text = written.getvalue()
    return _known.text
