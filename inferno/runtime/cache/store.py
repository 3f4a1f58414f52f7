"""Entries by key in a folder that any number of processes share: the files behind the cache.

An entry is one file: a line that names the format, a checksum of all that follows, the length of a header, the header
(JSON), and the parts that it lists, compressed where that is shorter.  Nothing in it is ever executed.  A file is written
under another name and moved into place, so that a process that is killed leaves a whole entry or none; an entry that does
not hold what it should is removed and counts as missing.  The folder is kept below its bound by removing what was used
longest ago: an entry's modification time is the time of its last use.  What entries come to is counted as they are written (``total.py``).
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from inferno.runtime.cache.total import Total
from inferno.runtime.files import write_whole

log = logging.getLogger(__name__)

FORMAT = 1  # of entries; another one's are not read
_MAGIC = f"inferno cache {FORMAT}\n".encode()
_DIGEST = 20  # bytes of the checksum, which follows
_FIXED = len(_MAGIC) + _DIGEST + 8
_LARGEST_HEADER = 1 << 24  # bytes; a longer one is a damaged file's
# Where entries are, and all that is ours, below the cache's folder.
_ENTRY = re.compile(r"format-\d+/(\w+)/[0-9a-f]{2}/[0-9a-f]{40}", re.A)
_OURS = re.compile(r"format-\d+/(?:tmp/|locks/|total$|\w+/[0-9a-f]{2}/[0-9a-f]{40}$)", re.A)
# A part shorter than this costs more to decompress than to read.
_LEAST_COMPRESSED = 512
# Of the bound: how far trimming goes, and from where on there is something to trim when entries are listed.
_TRIMMED, _FULL = 0.9, 0.95
_ABANDONED = 3600.0  # seconds after which a file that was never moved into place is of a process that died
# How long to wait for another process that compiles the same; the longest compile seen is below a minute.
PATIENCE = 300.0


@dataclass(frozen=True)
class Entry:
    """A file of the store, as ``entries`` lists it: ``used`` is the time of the last use, in seconds since the epoch."""

    path: Path
    kind: str
    bytes: int
    used: float


class Damaged(Exception):
    """A file is no whole entry of this format."""


class Store:
    """The entries below ``folder``, which together have at most about ``limit`` bytes.  Every failure of the file system
    is survived: what cannot be read is missing, what cannot be written is not kept, and a warning says so once."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._root = folder
        self._folder = folder / f"format-{FORMAT}"
        self._limit = limit
        self._total = Total(self._folder)
        self._warned = False

    def path(self, kind: str, key: str) -> Path:
        return self._folder / kind / key[:2] / key

    def read(self, kind: str, key: str) -> tuple[dict[str, Any], dict[str, bytes]] | None:
        """Header and parts of an entry; None if there is none, or it is damaged (it is then removed, with a warning)."""
        path = self.path(kind, key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot be read ({error})")
            return None
        try:
            found = unpack(data)
            if found[0].get("kind") != kind or found[0].get("key") != key:
                raise Damaged("it is another entry's")
        except Damaged as error:
            self.discard(kind, key, str(error))
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return found

    def discard(self, kind: str, key: str, reason: str) -> None:
        """Remove an entry that turned out to be useless, with a warning."""
        path = self.path(kind, key)
        log.warning("cache entry %s is damaged (%s); it is removed and made again", path, reason)
        with contextlib.suppress(OSError):
            path.unlink()

    def write(self, kind: str, key: str, header: dict[str, Any], parts: dict[str, bytes]) -> None:
        """Keep an entry; one that is there is replaced."""
        data = pack({**header, "kind": kind, "key": key}, parts)
        if len(data) > self._limit:
            log.info("an entry of %d bytes is not kept: the cache may have %d", len(data), self._limit)
            return
        path = self.path(kind, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            waiting = self._folder / "tmp"
            waiting.mkdir(exist_ok=True)
            total = self._total.add(len(data))
            write_whole(path, data, waiting)
        except OSError as error:
            self._warn(f"cannot be written ({error})")
            return
        if total is None or total > self._limit:
            with self._total.listing() as alone:
                if alone:
                    self.trim()

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[bool]:
        """Held by one process and thread at a time; whether this one waited for another.

        A process that dies gives it up.  One that holds it longer than PATIENCE is not waited for, and a file system without
        locks has none: then more than one does the work.
        """
        path = self._folder / "locks" / key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path)
            try:
                lock.acquire(timeout=0)
                waited = False
            except Timeout:
                log.info("waiting for another process that compiles the same program")
                waited = True
                lock.acquire(timeout=PATIENCE)
        except (Timeout, OSError, NotImplementedError) as error:
            log.info("compiling without a lock: %s", error)
            yield True
            return
        try:
            yield waited
        finally:
            with contextlib.suppress(OSError):  # who waits for it has it open, and who comes now finds the entry
                path.unlink()
            lock.release()

    def entries(self) -> list[Entry]:
        """All entries, of other formats too, used longest ago first."""
        found = []
        for path, info in self._all_files():
            if match := _ENTRY.fullmatch(path.relative_to(self._root).as_posix()):
                found.append(Entry(path, match[1], info.st_size, info.st_mtime))
        return sorted(found, key=lambda e: e.used)

    def trim(self) -> None:
        """Remove what was used longest ago until the rest is well below the bound, and what dead processes left."""
        now, counted = time.time(), self._total.counted
        for path, info in _files(self._folder / "tmp"):
            if now - info.st_mtime > _ABANDONED:
                with contextlib.suppress(OSError):
                    path.unlink()
        entries = self.entries()
        total = sum(e.bytes for e in entries)
        if total > _FULL * self._limit:
            for entry in entries:
                with contextlib.suppress(OSError):
                    entry.path.unlink()
                total -= entry.bytes
                if total <= _TRIMMED * self._limit:
                    break
        self._total.listed(total, counted)

    def clear(self) -> list[Entry]:
        """Remove every entry, and what dead processes left; the entries that were there."""
        entries = self.entries()
        for path, _ in self._all_files():
            if _OURS.match(path.relative_to(self._root).as_posix()):
                with contextlib.suppress(OSError):
                    path.unlink()
        return entries

    def _all_files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Only below our own folders: a user may keep other things beside them."""
        for folder in sorted(self._root.glob("format-*")):
            yield from _files(folder)

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning("the cache in %s %s; set INFERNO_CACHE_DIR to another folder, or INFERNO_CACHE=0", self._root, what)


def pack(header: dict[str, Any], parts: dict[str, bytes]) -> bytes:
    """The bytes of an entry's file."""
    listed, blobs = [], []
    for name, data in parts.items():
        small = zlib.compress(data, 1) if len(data) >= _LEAST_COMPRESSED else data
        stored = small if len(small) < len(data) else data
        listed.append([name, len(stored), len(data)])
        blobs.append(stored)
    text = json.dumps({**header, "parts": listed}).encode()
    body = b"".join([struct.pack("<Q", len(text)), text, *blobs])
    return _MAGIC + _digest(body) + body


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Header and parts of an entry's file; Damaged if it is not whole."""
    if not data.startswith(_MAGIC):
        raise Damaged("it is cut off" if _MAGIC.startswith(data) else "it is of another format")
    body = memoryview(data)[len(_MAGIC) + _DIGEST:]
    if len(data) < _FIXED or _digest(body) != data[len(_MAGIC):len(_MAGIC) + _DIGEST]:
        raise Damaged("its checksum does not hold")
    try:
        end = 8 + struct.unpack_from("<Q", body)[0]
        header = json.loads(bytes(body[8:end]))
        parts = {}
        for name, stored, size in header["parts"]:
            part = bytes(body[end:end + stored])
            parts[name] = part if stored == size else zlib.decompress(part)
            end += stored
            if len(parts[name]) != size:
                raise Damaged(f"its part {name} has another length")
    except (ValueError, KeyError, TypeError, struct.error, zlib.error) as error:
        raise Damaged(f"it does not read: {error}") from error
    return header, parts


def read_header(path: Path) -> dict[str, Any]:
    """The header of an entry's file, unchecked: for a listing.  Empty where it does not read."""
    try:
        with open(path, "rb") as file:
            start = file.read(_FIXED)
            size = struct.unpack("<Q", start[-8:])[0] if len(start) == _FIXED and start.startswith(_MAGIC) else 0
            found = json.loads(file.read(size)) if 0 < size < _LARGEST_HEADER else {}
            return found if isinstance(found, dict) else {}
    except (OSError, ValueError, struct.error):
        return {}


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files below a folder; one that goes away meanwhile is left out."""
    try:
        found = list(os.scandir(folder))
    except OSError:
        return
    for item in found:
        try:
            if item.is_dir(follow_symlinks=False):
                yield from _files(Path(item.path))
            else:
                yield Path(item.path), item.stat(follow_symlinks=False)
        except OSError:
            continue
