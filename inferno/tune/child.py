"""The process that measures: what it runs may hang or fault, and then it ends instead of whoever asked.

The program of the process makes one object, ``module:Class`` of its arguments, and calls its methods as it is asked to, with the frames of the
compiler's workers.  A method raises Unusable for what is wrong with a candidate alone; after any other exception the process ends.
``Child`` is the other side.
"""

import contextlib
import importlib
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

from inferno.runtime.workers.pool import last_words, start_python
from inferno.runtime.workers.worker import read_frame, write_frame


class Unusable(Exception):
    """A candidate gives a wrong result, or cannot be launched: its time does not count."""


class Died(Exception):
    """The process ended, or was ended because it took too long, before it answered."""


class Child:
    """One process that makes ``place(*arguments)``; not thread-safe."""

    def __init__(self, place: str, arguments: Sequence[str]) -> None:
        self._log = tempfile.TemporaryFile()
        self._process = start_python("inferno.tune.child", [place, *arguments], self._log)

    def ask(self, method: str, timeout: float, **arguments: Any) -> Any:
        """What the method returns; Unusable if it raises that, Died if there is no answer within ``timeout`` seconds."""
        late = threading.Event()
        timer = threading.Timer(timeout, lambda: (late.set(), self._process.kill()))
        timer.start()
        try:
            write_frame(self._process.stdin, (method, arguments))
            status, value = read_frame(self._process.stdout)
        except (EOFError, BrokenPipeError) as error:
            code = self._process.wait()
            self.close()
            if late.is_set():
                raise Died(f"it did not end within {timeout:g} s") from error
            raise Died(f"the process ended ({f'signal {-code}' if code < 0 else f'exit code {code}'}): {last_words(self._log)}") from error
        finally:
            timer.cancel()
        if status == "unusable":
            raise Unusable(value)
        if status == "broken":
            self.close()
            raise Died(value)
        return value

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()


def main(place: str, *arguments: str) -> None:
    """The program of the process: answers until its input ends."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # whatever is printed does not get into the answers
    module, name = place.split(":")
    served = getattr(importlib.import_module(module), name)(*arguments)
    while True:
        try:
            method, given = read_frame(requests)
        except EOFError:
            return
        try:
            answer = ("done", getattr(served, method)(**given))
        except Unusable as error:
            answer = ("unusable", str(error))
        except Exception as error:  # the state of the device is not known any more
            answer = ("broken", f"{type(error).__name__}: {error}")
        write_frame(answers, answer)
        if answer[0] == "broken":
            return


if __name__ == "__main__":
    # (not this file's own classes, which the served object's module imports under their real name)
    from inferno.tune import child

    sys.exit(child.main(*sys.argv[1:]))
