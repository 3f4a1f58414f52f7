"""Simulated launches in which threads must not read or write what another thread of the block wrote, or write what it read, unless a barrier lies between.

The simulator's threads run in step, so that a barrier that is missing does not show in what they compute.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from simulator import Simulation

_MANY = -2  # more than one thread


@dataclass
class _Seen:
    """Of each place of a memory since which barrier it was written and read, and by which thread."""

    written: np.ndarray
    writer: np.ndarray
    read: np.ndarray
    reader: np.ndarray


@contextmanager
def watched() -> Iterator[None]:
    """Of single loads and stores; AssertionError where threads race."""
    known = Simulation.memref_load, Simulation.memref_store, Simulation.gpu_barrier
    Simulation.memref_load, Simulation.memref_store, Simulation.gpu_barrier = _load, _store, _barrier
    _load.known, _store.known, _barrier.known = known
    try:
        yield
    finally:
        Simulation.memref_load, Simulation.memref_store, Simulation.gpu_barrier = known


def _load(self, op, operands, mask):
    seen, at, me, now = _access(self, operands[0], operands[1:], mask)
    assert not ((seen.written[at] == now) & (seen.writer[at] != me)).any(), f"a thread reads what another one just wrote: {op}"
    others = ((seen.read[at] == now) & (seen.reader[at] != me)) | (np.bincount(at, minlength=len(seen.read))[at] > 1)
    seen.read[at], seen.reader[at] = now, np.where(others, _MANY, me)
    return _load.known(self, op, operands, mask)


def _store(self, op, operands, mask):
    seen, at, me, now = _access(self, operands[1], operands[2:], mask)
    read, written = (seen.read[at] == now) & (seen.reader[at] != me), (seen.written[at] == now) & (seen.writer[at] != me)
    assert not (read | written).any(), f"a thread writes what another one just read or wrote: {op}"
    seen.written[at], seen.writer[at] = now, me
    return _store.known(self, op, operands, mask)


def _barrier(self, op, operands, mask):
    self.barriers = getattr(self, "barriers", 0) + 1
    return _barrier.known(self, op, operands, mask)


def _access(self, view, places, mask) -> tuple[_Seen, np.ndarray, np.ndarray, int]:
    data, at = view.memory.data, np.broadcast_to(self.places(view, places, mask), mask.shape)
    at = at + self.block_of * data.shape[-1] if view.memory.shared else at
    tables = self.__dict__.setdefault("tables", {})
    address = data.__array_interface__["data"][0]
    if address not in tables:
        tables[address] = _Seen(*(np.full(data.size, -1) for _ in range(4)))
    return tables[address], at[mask], np.arange(self.count)[mask], getattr(self, "barriers", 0)
