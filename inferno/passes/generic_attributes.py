"""What attributes say, those of ``linalg.generic`` above all.  A program's operations have few different ones, of which hundreds of questions are asked."""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from inferno.mlir import ir

PARALLEL, REDUCTION = "#linalg.iterator_type<parallel>", "#linalg.iterator_type<reduction>"


class _Known(threading.local):
    """What was read of attributes; None where nothing says how long to keep them, and with them their context."""

    found: dict[tuple, Any] | None = None


_known = _Known()


@contextmanager
def attributes_read_once() -> Iterator[None]:
    """What is read is kept meanwhile: a third of the time that it takes, 400000 times where MaxViT is fused."""
    before, _known.found = _known.found, {}
    try:
        yield
    finally:
        _known.found = before


def read_once(read: Callable[..., Any]) -> Callable[..., Any]:
    """A function of attributes, and of numbers, whose result nobody changes."""

    @functools.wraps(read)
    def ask(*args: Any) -> Any:
        if _known.found is None:
            return read(*args)
        key = (read, *args)
        made = _known.found.get(key)
        if made is None:
            made = _known.found[key] = read(*args)
        return made

    return ask


@read_once
def maps_of(indexing: ir.ArrayAttr) -> tuple[ir.AffineMap, ...]:
    """The indexing maps, of the operands in order."""
    return tuple(m.value for m in indexing)


@read_once
def alone(indexing: ir.ArrayAttr) -> tuple[tuple[int | None, ...], ...]:
    """``loops_of_map`` of each."""
    return tuple(map(loops_of_map, maps_of(indexing)))


def loops_of_map(map_: ir.AffineMap) -> tuple[int | None, ...]:
    """The loop that each result of a map is alone; None where it is another expression."""
    return tuple(ir.AffineDimExpr(e).position if isinstance(e, ir.AffineDimExpr) else None for e in map_.results)


@read_once
def kinds_of(iterators: ir.ArrayAttr) -> tuple[str, ...]:
    """``PARALLEL`` or ``REDUCTION`` for each loop."""
    return tuple(map(_text, iterators))


@functools.lru_cache(maxsize=2)  # a context has two; each that is kept keeps its context
def _text(kind: ir.Attribute) -> str:
    """An attribute as text: printing one costs ten times what finding an equal one does."""
    return str(kind)


@read_once
def writes_once(iterators: ir.ArrayAttr, indexing: ir.ArrayAttr, inputs: int) -> bool:
    """Whether all loops are parallel, and the maps of what is behind the inputs permutations."""
    return all(k == PARALLEL for k in kinds_of(iterators)) and all(m.is_permutation for m in maps_of(indexing)[inputs:])
