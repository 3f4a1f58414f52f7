"""A progress bar on stderr for compiling that takes more than a second, where a person is watching."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from inferno.settings import settings

_DELAY = 1.0  # seconds; what is done sooner needs no bar


class Bar:
    """One bar for all that a process compiles at once.  It is there while somebody holds ``shown``, and counts jobs."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holders = 0
        self._added = 0
        self._done = 0
        self._label = ""
        self._timer: threading.Timer | None = None
        self._progress: Any = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """While this is held, a bar appears after a second, if the settings want one."""
        with self._lock:
            self._holders += 1
            if self._holders == 1:
                self._added = self._done = 0
                if settings().progress:
                    self._timer = threading.Timer(_DELAY, self._start)
                    self._timer.daemon = True
                    self._timer.start()
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0:
                    self._stop()

    def add(self, label: str) -> None:
        """A job was asked for."""
        with self._lock:
            self._added += 1
            self._label = label
            self._update()

    def finish(self) -> None:
        """A job is done."""
        with self._lock:
            self._done += 1
            self._update()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._holders == 0 or self._timer is None:
                return
            columns = TextColumn("inferno"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeElapsedColumn(), TextColumn("{task.description}")
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self._label, total=self._added, completed=self._done)
            self._progress.start()

    def _update(self) -> None:
        if self._progress is not None:
            self._progress.update(self._task, total=self._added, completed=self._done, description=self._label)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
