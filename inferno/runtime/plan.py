"""The launch plan: what runs, on which memory, in which order.

Needs no MLIR: a plan also comes from a package or the cache, as the plain data of ``plan_data``.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Buffer:
    """Memory: ``place`` is "argument", "result" or "workspace"; ``index`` the argument's or result's number, or the offset in bytes."""

    place: str
    index: int
    shape: tuple[int, ...]
    element: str


@dataclass(frozen=True)
class TensorMap:
    """A buffer as the copy engine sees it; innermost dimension first, strides in bytes."""

    buffer: Buffer
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element: str
    swizzle: int
    l2: int


@dataclass(frozen=True)
class Launch:
    """One kernel launch; ``kernel`` is ``module::function``."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: int
    parameters: tuple[Buffer | TensorMap, ...]
    source: tuple[str, ...] = ()


@dataclass(frozen=True)
class LibraryCall:
    """A call of a library function on buffers, the last one being the destination; ``options`` are the function's own,
    ``kernel`` is the kernel function that it is made for."""

    function: str
    options: dict[str, Any]
    parameters: tuple[Buffer, ...]
    source: tuple[str, ...] = ()
    kernel: str = ""


@dataclass(frozen=True)
class Output:
    """One result of the program: fresh memory (``result``, the number of the result that owns it) or an argument's."""

    shape: tuple[int, ...]
    element: str
    argument: int = -1
    result: int = -1


@dataclass(frozen=True)
class Plan:
    """A program: its steps, where its results are, and how many bytes of workspace it needs."""

    steps: tuple[Launch | LibraryCall, ...]
    arguments: tuple[Buffer, ...]
    outputs: tuple[Output, ...]
    workspace_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON has it; ``plan_data.plan_from_dict`` is the inverse."""
        from inferno.runtime.plan_data import to_data

        return to_data(self)


def read_plan(text: str) -> Plan:
    """The plan of a module at the ``gpu`` stage, after plan-launches and plan-memory."""
    from inferno.runtime.plan_reader import read

    return read(text)


__all__ = ["Buffer", "Launch", "LibraryCall", "Output", "Plan", "TensorMap", "read_plan"]
