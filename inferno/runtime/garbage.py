"""Python's garbage collector, held while many objects are made at once.

A process that has torch and a model in it has a million objects, and what compiling makes triggers collections of all of them
again and again: a quarter of the time of torch.export and decomposing, and three quarters of reading a program from the cache.
Nearly nothing that they make is in cycles: 20 MB for TinyLlama.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """No collection starts meanwhile, unless another thread that does the same ends first."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
