"""Inputs that are parts of larger tensors, ``x[:, 64:128]``: programs read them where they lie.

Kernels know row-major buffers alone.  An input of the example with gaps between its rows is an argument with the gaps' elements, too, and the graph takes
the part of it, which costs nothing where kernels read parts in place.  A call's tensor is looked at as the whole, whose last elements may lie behind
the part but not behind what holds it; it is copied to one only if it lies differently from the example's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.nn import Parameter

from inferno.capture.nodes import value_meta
from inferno.capture.orders import dense_order

_MOST = 16  # times as many elements as the part's: a call's tensor that lies differently is copied to so much memory
_ALIGNED = 16  # bytes, of where kernels take tensors to begin
_REACHED = 2**31  # elements, from which on many kernels would not take the whole


@dataclass(frozen=True)
class Part:
    """What of a row-major tensor the caller's is: its ``shape`` and ``strides``, and how many elements behind the whole one's it ``begins``."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    begins: int

    def whole(self, part: Any, shape: tuple[int, ...]) -> Any:
        """The tensor of ``shape`` that ``part`` is of, or one with a copy of it; what is no tensor of this shape, as it came."""
        if type(part) not in (Tensor, Parameter) or part.shape != self.shape:
            return part
        try:
            begin = part.storage_offset() - self.begins
            if part.stride() == self.strides and begin >= 0 and not part.is_neg():
                held = part.untyped_storage().nbytes() // part.itemsize
                if begin + prod(shape) <= held and (part.data_ptr() - self.begins * part.itemsize) % _ALIGNED == 0:
                    return part.as_strided(shape, _row_major(shape), begin)
            return self.copied(part, shape)
        except (RuntimeError, NotImplementedError):  # without memory, as under a transform
            return part

    def copied(self, part: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A tensor of ``shape`` with a copy of ``part`` in it."""
        made = torch.empty(shape, dtype=part.dtype, device=part.device)
        made.as_strided(self.shape, self.strides, self.begins).copy_(part)
        return made


def whole_of(part: Part, shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    """What makes of a tensor that is such a ``part`` the one of ``shape``, copied if there is no other way."""

    def take(tensor: Tensor) -> Tensor:
        whole = part.whole(tensor, shape)
        return whole if whole is not tensor else part.copied(tensor, shape)

    return take


def is_fixed(example: object) -> bool:
    """Whether it is a tensor with elements of which nothing varies."""
    known = isinstance(example, Tensor) and all(isinstance(n, int) for n in (*example.shape, *example.stride())) and example.numel()
    return bool(known) and example.layout is torch.strided


def find_part(example: object) -> tuple[Part, tuple[int, ...]] | None:
    """What of a row-major tensor an example is, and that one's shape; None for one that varies, is dense, overlaps itself, or is little of it."""
    if not is_fixed(example) or not isinstance(example.storage_offset(), int) or dense_order(example) is not None:
        return None
    order = sorted((d for d, n in enumerate(example.shape) if n != 1), key=lambda d: -example.stride(d))
    steps = [example.stride(d) for d in order]
    if not order or example.dtype.is_complex or steps[-1] < 1 or any(x % y or x == y for x, y in zip(steps, steps[1:])):
        return None
    last = (example.shape[order[-1]] - 1) * steps[-1] + 1  # elements from the innermost dimension's first to its last one
    units = [*steps[:-1], 1]
    wholes = [*(before // unit for before, unit in zip(steps, units[1:]))]
    begins = example.storage_offset() % steps[0] if len(order) > 1 else 0
    first, left = [0], begins
    for unit in units[1:]:
        first.append(left // unit)
        left %= unit
    taken = [example.shape[d] for d in order[:-1]] + [last]
    shape = (taken[0], *wholes)
    fits = all(begin + n <= whole for begin, n, whole in zip(first, taken, shape))
    if not fits or prod(shape) == example.numel() or prod(shape) > min(_MOST * example.numel(), _REACHED) or begins * example.itemsize % _ALIGNED:
        return None
    return Part(tuple(example.shape), example.stride(), begins), shape


def take_part(graph: Graph, node: Node, value: Tensor, part: Part, shape: tuple[int, ...]) -> Node:
    """Nodes behind the insertion point that take the part of ``node``, whose example was ``value``; the last one."""
    order = sorted((d for d, n in enumerate(part.shape) if n != 1), key=lambda d: -part.strides[d])
    strides, begin, found = _row_major(shape), part.begins, node
    example = value.new_empty(shape)
    node.meta = value_meta(node, example)

    def call(target: Any, *args: Any) -> None:
        nonlocal found, example
        example = target(example, *args)
        found = graph.call_function(target, (found, *args))
        found.meta = {**node.meta, "val": example}

    for i, d in enumerate(order):
        first, begin = divmod(begin, strides[i])
        step = part.strides[d] // strides[i]
        end = first + (part.shape[d] - 1) * step + 1
        if (first, end, step) != (0, shape[i], 1):
            call(torch.ops.aten.slice.Tensor, i, first, end, step)
    if order != sorted(order):
        call(torch.ops.aten.permute.default, [order.index(d) for d in sorted(order)])
    if len(order) != len(part.shape):
        call(torch.ops.aten.view.default, list(part.shape))
    return found


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[d + 1:]) for d in range(len(shape)))
