"""Whether a forward seeds torch's generators, asks for their states or sets them (``fork_rng``), or draws random numbers from Python's or NumPy's, while it
is traced: a graph would hold the numbers of the trace as constants."""

import functools
import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from inferno.capture.nodes import is_library

_STATES = ("get_rng_state", "set_rng_state", "initial_seed")


class RandomState:
    """The generators' states when this is made; torch's have another seed, by which one is known that is set, until they are put back.

    A state that is set again leaves no trace in a generator: until then torch's functions that give and set states say that they are called.
    """

    def __init__(self) -> None:
        self._asked = False
        self._functions = [(place, name, getattr(place, name)) for place in (torch, torch.random) for name in _STATES]
        for place, name, function in self._functions:
            setattr(place, name, self._telling(function))
        self._seed = int.from_bytes(os.urandom(7), "little")
        self._generators = [(g, g.get_state()) for g in (torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ()))]
        for generator, _ in self._generators:
            generator.manual_seed(self._seed)
        self._python = random.getstate()
        self._numpy = _numpy().get_state() if _numpy() else None

    def changes(self) -> list[str]:
        """What has been used, as a user knows it."""
        found = ["torch's seed"] if any(g.initial_seed() != self._seed for g, _ in self._generators) else []
        found += ["the state of torch's generator"] if self._asked else []
        found += ["Python's random numbers"] if random.getstate() != self._python else []
        return found + (["NumPy's random numbers"] if self._numpy is not None and not _equal(_numpy().get_state(), self._numpy) else [])

    def _telling(self, function: Callable) -> Callable:
        """``function``, which notes that it is called, here by what is not torch itself; ``fork_rng`` is a user's doing."""
        thread = threading.get_ident()

        @functools.wraps(function)
        def telling(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1).f_code
            if threading.get_ident() == thread and (caller.co_name == "fork_rng" or not is_library(caller.co_filename)):
                self._asked = True
            return function(*args, **kwargs)

        return telling

    def restore(self) -> None:
        for place, name, function in self._functions:
            setattr(place, name, function)
        for generator, state in self._generators:
            generator.set_state(state)
        random.setstate(self._python)
        if self._numpy is not None:
            _numpy().set_state(self._numpy)


def _numpy() -> Any:
    return getattr(sys.modules.get("numpy"), "random", None)


def _equal(a: tuple, b: tuple) -> bool:
    return a[0] == b[0] and (a[1] == b[1]).all() and a[2:] == b[2:]
