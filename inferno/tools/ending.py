"""How a shell command ends: a status for whatever happens to it, one line on stderr, and no traceback but for a fault of Inferno's."""

import contextlib
import io
import os
import sys
from collections.abc import Callable

from inferno.errors import InfernoError, OptionError

INTERRUPTED = 128 + 2  # what shells give for SIGINT


def ended(name: str, command: Callable[[], int]) -> int:
    """The exit status of ``command()``, whose program is called ``name``: 2 for what the command line says wrong, 1 for what else fails, 130 for Ctrl-C.

    A reader that has enough (``| head``) is told nothing.  A stream that the shell has closed takes everything; one whose encoding lacks a character, such
    as a table's lines, gets a question mark.
    """
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:
            setattr(sys, stream, open(os.devnull, "w"))
        elif isinstance(getattr(sys, stream), io.TextIOWrapper):
            getattr(sys, stream).reconfigure(errors="replace")
    try:
        status = command()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        status, message = INTERRUPTED, "interrupted"
    except BrokenPipeError:
        status, message = 1, ""
    except OptionError as error:
        status, message = 2, str(error)
    except InfernoError as error:
        status, message = 1, f"{type(error).__name__}: {error}"
    except OSError as error:  # a file that cannot be read or written; without a name it is stdout
        status, message = 1, f"{error.filename or 'the output'}: {error.strerror}" if error.strerror else str(error)
    _leave_unwritten()
    if message:
        print(f"{name}: {message}", file=sys.stderr)
    return status


def _leave_unwritten() -> None:
    """Python writes what stdout holds when it ends, and would fail once more."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):  # (a stream that is no file)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
