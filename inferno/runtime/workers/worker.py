"""The program of a worker process: reads jobs, writes results, until its input ends.

A frame is eight bytes of length and a pickle; both ends are processes of one user that one of them started.  The
protocol has a descriptor of its own, so that whatever MLIR prints to stdout or stderr cannot get into it.
"""

import importlib
import os
import pickle
import select
import struct
import sys
from typing import Any, BinaryIO

from inferno.errors import InfernoError


def read_frame(stream: BinaryIO) -> Any:
    """The next object; EOFError at the end of the stream."""
    header = stream.read(8)
    if len(header) < 8:
        raise EOFError
    size = struct.unpack("<Q", header)[0]
    body = stream.read(size)
    if len(body) < size:
        raise EOFError
    return pickle.loads(body)


def write_frame(stream: BinaryIO, value: Any) -> None:
    """Write a value, pickled, behind its length in bytes, 8 of them."""
    body = pickle.dumps(value)
    stream.write(struct.pack("<Q", len(body)) + body)
    stream.flush()


def main(kind: str | None = None) -> None:
    """``kind`` of target: while there is no request yet, load what compiling for it will need."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    from inferno.runtime.workers import jobs

    write_frame(answers, "ready")
    for module in jobs.needed(kind) if kind else ():
        if select.select([requests], [], [], 0)[0]:
            break
        importlib.import_module(module)
    while True:
        try:
            name, arguments = read_frame(requests)
        except EOFError:
            return
        try:
            answer = ("done", getattr(jobs, name)(**arguments))
        except InfernoError as error:
            answer = ("failed", error)
        except Exception as error:  # whatever it is, the process that asked has to hear of it
            import traceback

            answer = ("hindered" if isinstance(error, (OSError, MemoryError)) else "raised", f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        write_frame(answers, answer)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
