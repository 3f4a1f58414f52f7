"""``inferno cache show`` and ``inferno cache clear``."""

import time

from rich.console import Console
from rich.table import Table

from inferno.runtime.report import human
from inferno.runtime.cache.store import Entry, Store, read_header
from inferno.settings import settings


def show(each: bool = False) -> None:
    """Print what is kept: a row for each kind and target, or with ``each`` for each entry."""
    found = settings()
    entries = _open().entries()
    if entries:
        Console(width=max(120, Console().width)).print(_single(entries) if each else _summary(entries))
    off = "" if found.cache else "; it is off (INFERNO_CACHE=0)"
    held = f"{_bytes(sum(e.bytes for e in entries))} of {_bytes(found.cache_bytes)}"
    print(f"{found.cache_dir}: {_count(len(entries), 'entry', 'entries')}, {held}{off}")


def clear() -> str:
    """Remove every entry; what there was, in words."""
    entries = _open().clear()
    if not entries:
        return f"{settings().cache_dir}: nothing to remove"
    kinds: dict[str, int] = {}
    for entry in entries:
        kinds[entry.kind] = kinds.get(entry.kind, 0) + 1
    listed = ", ".join(_count(n, kind, f"{kind}s") for kind, n in sorted(kinds.items()))
    return f"{settings().cache_dir}: removed {listed}: {_bytes(sum(e.bytes for e in entries))}"


def _open() -> Store:
    found = settings()
    return Store(found.cache_dir, found.cache_bytes)


def _summary(entries: list[Entry]) -> Table:
    """A row for each kind and target."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.kind, str(read_header(entry.path).get("target", ""))), []).append(entry)
    table = Table()
    for name, justify in (("kind", "left"), ("target", "left"), ("entries", "right"), ("size", "right"), ("last use", "right"), ("oldest use", "right")):
        table.add_column(name, justify=justify)
    for (kind, target), held in sorted(groups.items()):
        table.add_row(kind, target, str(len(held)), _bytes(sum(e.bytes for e in held)), _age(held[-1].used), _age(held[0].used))
    return table


def _single(entries: list[Entry]) -> Table:
    table = Table()
    for name, justify in (("kind", "left"), ("target", "left"), ("what", "left"), ("size", "right"), ("used", "right"), ("key", "left")):
        table.add_column(name, justify=justify, overflow="fold")
    for entry in reversed(entries):
        header = read_header(entry.path)
        what = str(header.get("name", ""))
        if "failed" in header:
            what = f"does not compile: {header['failed']}"
        table.add_row(entry.kind, str(header.get("target", "")), what, _bytes(entry.bytes), _age(entry.used), entry.path.name[:12])
    return table


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _bytes(number: int) -> str:
    return human(number, 1024, "B")


def _age(since: float) -> str:
    """How long ago, in the largest unit that it is at least one of."""
    seconds = max(0.0, time.time() - since)
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return f"{_count(int(seconds // size), unit, f'{unit}s')} ago"
    return "just now"
