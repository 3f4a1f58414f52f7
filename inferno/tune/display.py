"""The progress of tuning on stderr: a bar for all kernels, and a line for each that is being measured, with the best so far."""

import contextlib
from collections.abc import Iterator
from typing import Any

from inferno.settings import settings
from inferno.tune.search import MOST, Search


class Display:
    """What a person sees while it is ``shown``: nothing, where the settings want no bar."""

    def __init__(self, kernels: int) -> None:
        self._kernels = kernels
        self._progress: Any = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """While this is held there is a bar."""
        if not settings().progress:
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeElapsedColumn()]
        with Progress(*columns, TextColumn("{task.fields[best]}"), console=Console(stderr=True), transient=True) as self._progress:
            self._all = self._progress.add_task("tuning", total=self._kernels, best="")
            yield
        self._progress = None

    @contextlib.contextmanager
    def kernel(self, name: str, candidates: int) -> Iterator[Any]:
        """A line for one kernel; yields what is to be called with its search after each candidate."""
        progress = self._progress
        if progress is None:
            yield lambda search: None
            return
        line = progress.add_task(f"@{name}", total=min(candidates, MOST), best="")
        try:
            yield lambda search: progress.update(line, completed=search.measured, best=describe(search))
        finally:
            progress.remove_task(line)

    def finish(self) -> None:
        """One kernel is done."""
        if self._progress is not None:
            self._progress.advance(self._all)


def describe(search: Search) -> str:
    """The best time so far, and what the model's choice took."""
    if search.best is None:
        return "none is right so far" if search.failures else ""
    own = search.times.get(0)
    return f"best {search.best[1]:.2f} us" + (f", the model's choice {own:.2f}" if own is not None else "")
