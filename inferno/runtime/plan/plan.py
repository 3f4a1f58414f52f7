"""The launch plan: what runs, on which memory, in which order.

Needs no MLIR: a plan also comes from a package or the cache, as the plain data of ``data.py``.
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from inferno.symbolic import Int, Size, Symbol, evaluate


@dataclass(frozen=True)
class Buffer:
    """Memory: ``place`` is "argument", "result" or "workspace"; ``index`` the argument's or result's number, or the offset in bytes.  ``offset``: how many
    bytes behind the begin of an argument or a result it begins."""

    place: str
    index: Int
    shape: tuple[Int, ...]
    element: str
    offset: int = 0


@dataclass(frozen=True)
class Scalar:
    """A size, as a kernel's parameter of 64 bits."""

    value: Int


@dataclass(frozen=True)
class TensorMap:
    """A buffer as the copy engine sees it; innermost dimension first, strides in bytes."""

    buffer: Buffer
    sizes: tuple[Int, ...]
    strides: tuple[Int, ...]
    box: tuple[int, ...]
    element: str
    swizzle: int
    l2: int


@dataclass(frozen=True)
class PixelMap(TensorMap):
    """Images as the copy engine sees them in its im2col mode: ``box`` is the channels and the pixels that are copied together; the others have a
    number for each spatial dimension, innermost first: the corners of the box that pixels are walked through, as distances from the
    image's own, and the steps."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """One kernel launch; ``kernel`` is ``module::function``.  ``copies``: it copies the first of its two buffers to the second, and does nothing else.
    ``cooperative``: its blocks wait for each other."""

    kernel: str
    grid: tuple[Int, Int, Int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: Int
    parameters: tuple[Buffer | TensorMap | PixelMap | Scalar, ...]
    source: tuple[str, ...] = ()
    copies: bool = False
    cooperative: bool = False


@dataclass(frozen=True)
class LibraryCall:
    """A call of a library function on buffers, the last one being the destination; ``options`` are the function's own,
    ``kernel`` is the kernel function that it is made for."""

    function: str
    options: dict[str, Any]
    parameters: tuple[Buffer | Scalar, ...]
    source: tuple[str, ...] = ()
    kernel: str = ""


@dataclass(frozen=True)
class Output:
    """One result of the program: fresh memory (``result``, the number of the result that owns it) or an argument's.  ``overwrites``:
    the arguments that fresh memory may be, because nothing reads them once the result is there."""

    shape: tuple[Int, ...]
    element: str
    argument: int = -1
    result: int = -1
    overwrites: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A program: its steps, where its results are, and how many bytes of workspace it needs.  Sizes that vary are expressions of
    ``symbols``."""

    steps: tuple[Launch | LibraryCall, ...]
    arguments: tuple[Buffer, ...]
    outputs: tuple[Output, ...]
    workspace_bytes: Int
    symbols: tuple[Symbol, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON has it; ``plan_data.plan_from_dict`` is the inverse."""
        from inferno.runtime.plain_data import to_data

        return to_data(self)


@dataclass(frozen=True)
class Preparation:
    """What is computed when weights have changed, and kept: ``arguments`` are the numbers of the main plan's arguments that ``plan``
    takes; its results are the main plan's last arguments, in order."""

    plan: Plan
    arguments: tuple[int, ...]


def read_plan(text: str) -> Plan:
    """The plan of a module at the ``gpu`` stage, after plan-launches and plan-memory."""
    from inferno.runtime.plan.reader import read

    return read(text)


def at_sizes(part: Any, values: dict[str, int]) -> Any:
    """The plan, or a part of it, where the symbols have these values: every size is a number."""
    if isinstance(part, Size):
        return evaluate(part, lambda s: values[s.name])
    if isinstance(part, Symbol):
        return part
    if is_dataclass(part):
        return replace(part, **{f.name: at_sizes(getattr(part, f.name), values) for f in fields(part)})
    if isinstance(part, (tuple, list)):
        return type(part)(at_sizes(v, values) for v in part)
    return {k: at_sizes(v, values) for k, v in part.items()} if isinstance(part, dict) else part


__all__ = ["Buffer", "Launch", "LibraryCall", "Output", "PixelMap", "Plan", "Preparation", "Scalar", "TensorMap", "at_sizes", "read_plan"]
