"""What holds for a process and not for one compile: where the cache is, how large it may be, how many workers there are.

Settings come from environment variables, which are read again at each use, so that a program or a test may set them:

| variable             | meaning                                                             | default                          |
|----------------------|---------------------------------------------------------------------|----------------------------------|
| `INFERNO_CACHE`      | `0`: nothing is read from the cache on disk or written to it        | `1`                              |
| `INFERNO_CACHE_DIR`  | the folder of the cache                                             | `inferno` in the user's cache    |
| `INFERNO_CACHE_SIZE` | how large the cache may be: bytes, or a number with K, M or G       | `4G`                             |
| `INFERNO_TUNED`      | `0`: schedules that were measured are not used                      | `1`                              |
| `INFERNO_SIBLINGS`   | `0`: independent products of one tensor are launches of their own   | `1`                              |
| `INFERNO_BUNDLES`    | `0`: small kernels that do not wait for each other are launched one by one | `1`                       |
| `INFERNO_ATTENTION`  | `0`: attention is several kernels                                   | `1`                              |
| `INFERNO_UNMEASURED` | `1`: generators that have not passed all tests on a GPU, or are not always faster, are chosen too | `0` |
| `INFERNO_WORKERS`    | how many processes compile                                          | as many as there are cores, to 16 |
| `INFERNO_PROGRESS`   | `0`: no progress bar; `1`: one, terminal or not                     | if stderr is a terminal          |
"""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from inferno.errors import OptionError

# A model's program and its kernels take 0.3 to 3 MB: 4 GB are some thousand models.
_CACHE_SIZE = "4G"
_MOST_WORKERS = 16  # processes that compile; more are started if INFERNO_WORKERS says so
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Settings:
    """``cache`` says whether the cache on disk is used, ``cache_dir`` and ``cache_bytes`` where it is and its bound;
    ``tuned`` whether measured schedules are used; ``siblings`` whether independent products of one tensor are one launch, ``bundles`` whether
    small kernels are that do not wait for each other, ``attention`` whether attention is one kernel, ``unmeasured`` whether generators are
    chosen that have not passed all tests on a GPU or are not always faster; ``workers`` compile at once;
    ``progress`` says whether a bar is drawn."""

    cache: bool
    cache_dir: Path
    cache_bytes: int
    tuned: bool
    siblings: bool
    bundles: bool
    attention: bool
    unmeasured: bool
    workers: int
    progress: bool

    def features(self) -> tuple[str, ...]:
        """The names of those settings that are on and change what is compiled."""
        return tuple(name for name in ("siblings", "bundles", "attention", "unmeasured") if getattr(self, name))


def settings() -> Settings:
    """The settings as the environment has them now.  OptionError names a variable with a value that it cannot have."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Settings(
        cache=_flag("INFERNO_CACHE", True),
        cache_dir=_cache_dir(),
        cache_bytes=_size("INFERNO_CACHE_SIZE", _CACHE_SIZE),
        tuned=_flag("INFERNO_TUNED", True),
        siblings=_flag("INFERNO_SIBLINGS", True),
        bundles=_flag("INFERNO_BUNDLES", True),
        attention=_flag("INFERNO_ATTENTION", True),
        unmeasured=_flag("INFERNO_UNMEASURED", False),
        workers=_count("INFERNO_WORKERS", min(cores, _MOST_WORKERS)),
        progress=_flag("INFERNO_PROGRESS", sys.stderr is not None and sys.stderr.isatty()),
    )


def _cache_dir() -> Path:
    if given := os.environ.get("INFERNO_CACHE_DIR"):
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("inferno", appauthor=False))


def _flag(name: str, default: bool) -> bool:
    given = os.environ.get(name, "").strip()
    if given not in ("", "0", "1"):
        raise OptionError(f"environment variable {name}: expected 0 or 1, got {given!r}")
    return given == "1" if given else default


def _count(name: str, default: int) -> int:
    given = os.environ.get(name, "").strip()
    if given and not (given.isascii() and given.isdigit() and int(given) > 0):
        raise OptionError(f"environment variable {name}: expected a number above 0, got {given!r}")
    return int(given) if given else default


def _size(name: str, default: str) -> int:
    given = os.environ.get(name, "").strip() or default
    found = read_bytes(given)
    if found is None:
        raise OptionError(f"environment variable {name}: expected bytes or a number with K, M or G, such as 500M, got {given!r}")
    return found


def read_bytes(text: str) -> int | None:
    """Bytes, or a number with K, M, G or T, such as ``500M``; None for any other text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.I | re.A)
    return int(float(match[1]) * _UNITS[match[2].upper()]) if match else None
