"""What kernels on the simulator work on: buffers, and what operations make of them."""

from dataclasses import dataclass

import numpy as np

from inferno.runtime.plan.plan import TensorMap


@dataclass
class Memory:
    """One buffer: ``data`` is flat, or [block, element] for shared memory."""

    data: np.ndarray
    bf16: bool
    writable: bool = True
    shared: bool = False


@dataclass(frozen=True)
class Mapped:
    """A tensor map of a buffer."""

    map: TensorMap
    memory: Memory


@dataclass(frozen=True)
class View:
    memory: Memory
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Chosen:
    """One of two buffers, by a condition of each thread's."""

    condition: np.ndarray
    views: tuple["View | Chosen", "View | Chosen"]
