"""``inferno.stats()``: what this process has compiled so far."""

import threading
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Stats:
    """Counts since the process began, or since ``reset``.

    ``graphs``: captured graphs that were compiled; ``segments``: compiled pieces of them; ``kernels``: kernel functions in those;
    ``recompiles``: graphs that were compiled again for other sizes; ``fallbacks``: operations that run in eager.
    """

    graphs: int = 0
    segments: int = 0
    kernels: int = 0
    recompiles: int = 0
    fallbacks: int = 0


class _Counter:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = Stats()

    def add(self, **counts: int) -> None:
        with self._lock:
            self._now = replace(self._now, **{name: getattr(self._now, name) + count for name, count in counts.items()})

    def read(self) -> Stats:
        return self._now

    def reset(self) -> None:
        with self._lock:
            self._now = Stats()


_counter = _Counter()  # a process's own record; nothing depends on it
add = _counter.add


def stats(reset: bool = False) -> Stats:
    """The counts so far; with ``reset`` they begin anew."""
    now = _counter.read()
    if reset:
        _counter.reset()
    return now
