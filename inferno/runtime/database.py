"""Schedules that were measured to be the best of a kernel (``inferno.tune``), a file for each model of GPU.

Files are JSON: ``{"format": 1, "gpu": "NVIDIA-H200", "entries": {<target>: {<key>: <entry>}}}``; keys are ``schedule.known.key_of``'s.  Some
come with Inferno, and the user's own, in ``tuned`` in the cache's folder, go before those.  A file is written under another name and moved into
place, by one process at a time.  Like the rest of that folder a file that does not read counts as missing.
"""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

import inferno
from inferno.errors import TuneError
from inferno.runtime.device import target_of
from inferno.runtime.files import write_whole
from inferno.runtime.launch.cublaslt import library_path
from inferno.settings import settings
from inferno.target import Target

log = logging.getLogger(__name__)

FORMAT = 1  # of the file; another one's is not read
_LIBRARY = 'generator = "cublaslt"'
SHIPPED = Path(inferno.__file__).parent / "tune" / "database"


@dataclass(frozen=True)
class Entry:
    """What is known of one kernel on one GPU.

    ``schedule`` is the text of the best one's attribute, ``model`` of what the cost model chose, whose time is None if it gave a wrong result;
    times are in microseconds.  ``runners_up`` has the next best, ``measured`` says how many were.  ``kernel`` is what it was called where it was
    tuned, ``versions`` stands for what compiled it, ``made`` is when, in seconds since the epoch.
    """

    schedule: str
    time: float
    model: str
    model_time: float | None
    runners_up: tuple[tuple[str, float], ...]
    measured: int
    kernel: str
    versions: str
    made: float

    @property
    def ranking(self) -> list[str]:
        """The schedule, and those that take its place where it cannot be had: none that is slower than the model's choice."""
        return [self.schedule, *(s for s, time in self.runners_up if self.model_time is None or time <= self.model_time)]


def own_folder() -> Path:
    """Where the user's own results are."""
    return settings().cache_dir / "tuned"


def gpu_name(device: torch.device) -> str:
    """The model of a GPU, as files are called: ``NVIDIA-H200``."""
    return re.sub(r"[^\w.-]+", "-", torch.cuda.get_device_name(device))


def multiprocessors(device: torch.device) -> int:
    """How many a GPU has."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def gpus_of(target: Target) -> list[torch.device]:
    """The GPUs here that a target is for, the current one first."""
    if target.kind != "nvptx" or not torch.cuda.is_available():
        return []
    found = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    current = torch.cuda.current_device()
    return sorted((d for d in found if target_of(d) == target), key=lambda d: d.index != current)


def require_gpus(target: Target) -> list[torch.device]:
    """The same, for tuning; TuneError where there is none."""
    found = gpus_of(target)
    if found and not settings().tuned:
        raise TuneError("the results of tuning are not used where INFERNO_TUNED is 0: unset it, or compile without tune=True")
    if not found:
        here = ", ".join(dict.fromkeys(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))) or "no GPU"
        what = f"a GPU of target {target.name}" if target.kind == "nvptx" else f"the target is {target.name}, which is none; move the model to a GPU"
        raise TuneError(f"tuning needs the GPU that it is for: {what}; here is {here}.  Without tune=True the cost model chooses")
    return found


def known_schedules(target: Target, elsewhere: bool = True) -> Mapping[str, str]:
    """Measured schedules by key, lines with the best first, for the GPU that is here; behind what is known of it, unless ``elsewhere`` is False, what is
    of other models that the target is for and that have as many multiprocessors.  Where no GPU is that the target is for, of all of them.  Calls of
    cuBLASLt are among them where it is here."""
    if target.kind != "nvptx" or not settings().tuned:
        return {}
    files = [path for folder in (SHIPPED, own_folder()) for path in sorted(folder.glob("*.json"))]
    if here := gpus_of(target):
        name = f"{gpu_name(here[0])}.json"
        alike = elsewhere and multiprocessors(here[0]) == target.multiprocessors
        files = [path for path in files if alike and path.name != name] + [path for path in files if path.name == name]
    found = _schedules(tuple((path, *_state(path)) for path in files), target.name)
    if not any(_LIBRARY in text for text in found.values()) or library_path() is not None:
        return found
    rest = {key: "\n".join(line for line in text.splitlines() if _LIBRARY not in line) for key, text in found.items()}
    return {key: text for key, text in rest.items() if text}


def answers(keys: Iterable[str], target: Target) -> dict[str, str]:
    """What ``known_schedules`` says for these keys: "" where there is nothing."""
    known = known_schedules(target)
    return {key: known.get(key, "") for key in keys}


@lru_cache(maxsize=16)
def _schedules(files: tuple[tuple[Path, int, int], ...], target: str) -> dict[str, str]:
    return {key: "\n".join(entry.ranking) for path, _, _ in files for key, entry in read(path).get(target, {}).items()}


def _state(path: Path) -> tuple[int, int]:
    """What changes when a file does."""
    try:
        found = path.stat()
        return found.st_mtime_ns, found.st_ino
    except OSError:
        return 0, 0


def read(path: Path) -> dict[str, dict[str, Entry]]:
    """The entries of a file by target and key; what is damaged is left out, with one warning."""
    try:
        data = json.loads(path.read_text())
        if data["format"] != FORMAT:
            raise ValueError(f"it is of format {data['format']}, and this version reads {FORMAT}")
        return {target: {key: _entry(value) for key, value in held.items()} for target, held in data["entries"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("the tuning results in %s are not used (%s: %s)", path, type(error).__name__, error)
        return {}


def _entry(data: dict[str, Any]) -> Entry:
    known = {f.name: data[f.name] for f in fields(Entry)}
    if not isinstance(data["schedule"], str):
        raise ValueError("a schedule is no text")
    return Entry(**{**known, "runners_up": tuple((schedule, time) for schedule, time in data["runners_up"])})


def add(path: Path, target: str, found: Mapping[str, Entry]) -> None:
    """Keep entries, in the place of older ones.  OSError where the folder cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        held = read(path)
        held.setdefault(target, {}).update(found)
        entries = {t: {key: asdict(e) for key, e in sorted(of.items())} for t, of in sorted(held.items())}
        text = json.dumps({"format": FORMAT, "gpu": path.stem, "entries": entries}, indent=1) + "\n"
        write_whole(path, text.encode())
