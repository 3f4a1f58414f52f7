"""Whether a forward seeds torch's generators, or draws random numbers from Python's or NumPy's, while it is traced: a graph would hold the numbers of
the trace as constants."""

import os
import random
import sys
from typing import Any

import torch


class RandomState:
    """The generators' states when this is made; torch's have another seed, by which one is known that is set, until they are put back."""

    def __init__(self) -> None:
        self._seed = int.from_bytes(os.urandom(7), "little")
        self._generators = [(g, g.get_state()) for g in (torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ()))]
        for generator, _ in self._generators:
            generator.manual_seed(self._seed)
        self._python = random.getstate()
        self._numpy = _numpy().get_state() if _numpy() else None

    def changes(self) -> list[str]:
        """What has been used, as a user knows it."""
        found = ["torch's seed"] if any(g.initial_seed() != self._seed for g, _ in self._generators) else []
        found += ["Python's random numbers"] if random.getstate() != self._python else []
        return found + (["NumPy's random numbers"] if self._numpy is not None and not _equal(_numpy().get_state(), self._numpy) else [])

    def restore(self) -> None:
        for generator, state in self._generators:
            generator.set_state(state)
        random.setstate(self._python)
        if self._numpy is not None:
            _numpy().set_state(self._numpy)


def _numpy() -> Any:
    return getattr(sys.modules.get("numpy"), "random", None)


def _equal(a: tuple, b: tuple) -> bool:
    return a[0] == b[0] and (a[1] == b[1]).all() and a[2:] == b[2:]
