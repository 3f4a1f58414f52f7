"""Exceptions that nobody meant to raise, as errors of ours: they say which part of the compiler failed, and where."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch

from inferno.errors import CompileError, InfernoError

_PACKAGE = Path(__file__).parent
_OTHERS = (InfernoError, MemoryError, torch.OutOfMemoryError)  # whatever runs fails where there is no memory


class Fault(CompileError):
    """A part of the compiler raised what is no error of ours.  Names the part, the line and the exception."""


@contextlib.contextmanager
def as_faults(doing: str, leave: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Exceptions within that are no errors of ours, nor among those to ``leave``, become a Fault, which says what we were ``doing``."""
    try:
        yield
    except (*_OTHERS, *leave):
        raise
    except Exception as error:
        raise Fault(f"{doing} failed{_place(error)}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """An error's class and the first line of its text, at most 500 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:500]


def _place(error: BaseException) -> str:
    """The innermost function of ours that an exception came through, and its line."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(_PACKAGE) and f.filename != __file__]
    return f" in {frames[-1].name} (inferno/{Path(frames[-1].filename).relative_to(_PACKAGE).as_posix()}:{frames[-1].lineno})" if frames else ""
