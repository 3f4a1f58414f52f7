"""What a store's entries come to, as far as its processes know together, so that none has to list them to know that they are within the bound.

A file has the bytes at the last listing and those that were written since, counted by each process before it writes: one that is killed may have counted what
it did not write, and never the other way round.  What was replaced or removed since is counted, too, until the next listing.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from inferno.runtime.files import write_whole

# Seconds after which entries are listed anyhow: those of 22600 took 3.4 s on a busy core.  A process without locks, or of a version that does not count, is
# then found out.
_LASTS = 86400.0
_PATIENCE, _POLL = 1.0, 0.002  # seconds; the lock is held for a fraction of a millisecond
_RECORD = re.compile(r"(\d+) (\d+)\n", re.A)

Record = tuple[int, float]
"""Bytes, and when entries were last listed, in seconds since the epoch: 0 before the first time."""


class Total:
    """Kept in ``folder``, which need not be there.  Where it cannot be, what this process alone knows is."""

    def __init__(self, folder: Path) -> None:
        self._path, self._locked, self._listing, self._waiting = (folder / name for name in ("total", "total.lock", "listing.lock", "tmp"))
        self._alone: Record = 0, 0.0

    def add(self, written: int) -> int | None:
        """Count bytes that are about to be written.  What entries come to with them, at most; None if they have to be listed for that."""
        with self._held() as shared:
            total, listed = self._read(shared)
            self._write((total + written, listed), shared)
        return total + written if 0 <= time.time() - listed < _LASTS else None

    @contextlib.contextmanager
    def listing(self) -> Iterator[bool]:
        """Whether no other process lists entries now: one does for all, and if it is killed the next one that writes does."""
        with _locked(self._listing, 0) as held:
            yield held is not False

    @property
    def counted(self) -> int:
        """Bytes, to be told from those that others count meanwhile."""
        return self._read(True)[0]

    def listed(self, total: int, counted: int) -> None:
        """Entries come to ``total``, and what was counted beyond ``counted`` since they began to be listed."""
        with self._held() as shared:
            now, _ = self._read(shared)
            self._write((total + max(0, now - counted), time.time()), shared)

    @contextlib.contextmanager
    def _held(self) -> Iterator[bool]:
        """Whether the file is this process' alone; what happens to it inside is survived."""
        with _locked(self._locked, _PATIENCE) as held:
            yield held is True

    def _read(self, shared: bool) -> Record:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if shared:
                found = _RECORD.fullmatch(self._path.read_text("ascii"))
                return (int(found[1]), float(found[2])) if found else (0, 0.0)
        return self._alone

    def _write(self, record: Record, shared: bool) -> None:
        self._alone = record
        if shared:
            with contextlib.suppress(OSError):
                write_whole(self._path, f"{record[0]} {int(record[1])}\n".encode(), self._waiting)


@contextlib.contextmanager
def _locked(path: Path, seconds: float) -> Iterator[bool | None]:
    """Whether a lock is this process' before so long; None where there are no locks."""
    try:
        lock = FileLock(path)
        lock.acquire(timeout=seconds, poll_interval=_POLL)
    except Timeout:
        yield False
        return
    except (OSError, NotImplementedError):
        yield None
        return
    try:
        yield True
    finally:
        lock.release()
