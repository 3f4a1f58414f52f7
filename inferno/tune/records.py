"""What was measured of a kernel so far, so that tuning that was killed goes on where it was.

A file of lines for each kernel and GPU, the first of which names the versions that the rest is of.  A line is written by one call of the system
behind what is there; one that a killed process left unfinished is not read.  The file goes when the kernel's entry is in the database.
"""

import contextlib
import json
import os
from pathlib import Path

from inferno.runtime.cache.versions import versions


class Records:
    """One kernel's results on one model of GPU, in a folder of that GPU.  Who tunes the kernel holds ``lock``: others wait, and then find its entry
    in the database."""

    def __init__(self, folder: Path, target: str, key: str) -> None:
        self._path = folder / f"{target}-{key}.jsonl"
        self.lock = folder / f"{target}-{key}.lock"

    def read(self) -> list[tuple[str, float | None, str]]:
        """(schedule, microseconds or None, why it failed) in the order of their measurement; nothing of other versions."""
        try:
            lines = self._path.read_bytes().split(b"\n")[:-1]  # what follows the last end of a line is no whole one
        except OSError:
            return []
        found = []
        with contextlib.suppress(ValueError, TypeError, KeyError):
            if not lines or json.loads(lines[0])["versions"] != versions():
                return []
            for line in lines[1:]:
                data = json.loads(line)
                found.append((data["schedule"], data["time"], data["failure"]))
        return found

    def begin(self) -> None:
        """Start anew, unless there are results of these versions."""
        if not self.read():
            self._path.write_text(json.dumps({"versions": versions()}) + "\n")
            return
        data = self._path.read_bytes()
        if not data.endswith(b"\n"):
            os.truncate(self._path, data.rfind(b"\n") + 1)

    def add(self, schedule: str, time: float | None, failure: str = "") -> None:
        line = json.dumps({"schedule": schedule, "time": time, "failure": failure}) + "\n"
        with open(self._path, "ab", buffering=0) as file:
            file.write(line.encode())

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
