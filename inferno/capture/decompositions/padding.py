"""Padding by negative widths, which cut off: a slice, then padding by what is left; and by elements of the tensor, which are gathered.

MLIR folds a pad that keeps the shape to its input, also one that cuts off on one side what it adds on the other.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._guards import CompileContext
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from inferno.errors import UnsupportedOperation

aten = torch.ops.aten

_FEW = 4  # elements of a side that are added one after the other


def constant_pad_nd(x: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """``aten.constant_pad_nd``: ``pad`` has two widths for each dimension, the last one's first; NotImplemented where none of them takes elements away."""
    cuts = list(map(_cuts, pad))
    if not any(cuts):
        return NotImplemented
    kept, cut = x, [-w if c else 0 for w, c in zip(pad, cuts)]
    for i in range(len(pad) // 2):
        dim, low, high = x.dim() - 1 - i, cut[2 * i], cut[2 * i + 1]
        kept = aten.slice.Tensor(kept, dim, low, x.shape[dim] - high)
    widths = [0 if c else w for w, c in zip(pad, cuts)]
    return aten.constant_pad_nd.default(kept, widths, value) if any(not isinstance(w, int) or w for w in widths) else kept.clone()


def _cuts(width: int | torch.SymInt) -> bool:
    """Whether a width takes elements away.  Where it may for some sizes, and may not for others, Dynamo's graphs guard that it does as in the example; of
    what is captured for a range of sizes it is refused."""
    if isinstance(width, int):
        return width < 0
    if statically_known_true(width >= 0) or free_unbacked_symbols(width):  # (what data say is refused as such)
        return False
    if statically_known_true(width <= 0) or CompileContext.try_get() is not None:
        return bool(width < 0)
    raise UnsupportedOperation(f"a padding by {width} elements, which for some sizes are less than none")


def _gathered(place: Callable[[Tensor, int], Tensor]) -> Callable:
    """The operator whose element at a number, counted from the input's first one, is that at ``place(number, size)``."""

    def decomposition(x: Tensor, padding: Sequence[int]) -> Tensor:
        dims = len(padding) // 2
        if x.dim() not in (dims + 1, dims + 2) or not x.numel() or any(not isinstance(n, int) for n in (*x.shape, *padding)):
            return NotImplemented
        if place == _around and min(padding) < 0:
            return NotImplemented  # what is left after cutting goes around
        found = torch.contiguous_format if place == _around else suggest_memory_format(x)  # as torch's
        padded = [i for i in range(dims) if padding[2 * i] or padding[2 * i + 1]]
        if not padded:
            return x.clone(memory_format=found)
        places: list[Tensor | None] = [None] * (x.dim() - 1 - max(padded))
        for i in reversed(range(min(padded), max(padded) + 1)):
            size, low, high = x.shape[x.dim() - 1 - i], padding[2 * i], padding[2 * i + 1]
            if size + low + high <= 0:
                return NotImplemented
            narrow = torch.int32 if size + abs(low) + abs(high) < 2**30 else torch.int64  # whose arithmetic takes a GPU a third of the time
            number = torch.arange(size + low + high, dtype=narrow, device=x.device) - low
            places.append((place(number, size) if i in padded else number).reshape([-1] + [1] * (i - min(padded))))
        return aten.index.Tensor(x, places).contiguous(memory_format=found)

    return decomposition


def _reflected(number: Tensor, size: int) -> Tensor:
    return (size - 1) - ((size - 1) - number.abs()).abs()


def _nearest(number: Tensor, size: int) -> Tensor:
    return number.clamp(0, size - 1)


def _around(number: Tensor, size: int) -> Tensor:
    return number.remainder(size)


_pad_around = _gathered(_around)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """``torch.nn.functional.pad`` of borders that go around, whose form for autograd copies the whole for each side.  NotImplemented for other ones, and where
    sizes vary or sides are cut off.  Where a gradient is asked for the sides are joined to what is between them: theirs are added to it."""
    if mode != "circular" or any(not isinstance(n, int) or n < 0 for n in pad) or len(pad) % 2 or input.dim() not in (len(pad) // 2 + 1, len(pad) // 2 + 2):
        return NotImplemented
    sizes = [input.shape[-1 - i] for i in range(len(pad) // 2)]
    if any(not isinstance(n, int) or max(pad[2 * i], pad[2 * i + 1]) > n for i, n in enumerate(sizes)) or not input.numel():
        return NotImplemented
    if not (torch.is_grad_enabled() and input.requires_grad):
        return _pad_around(input, pad)
    found = input
    for i, size in enumerate(sizes):
        low, high, dim = pad[2 * i], pad[2 * i + 1], input.dim() - 1 - i
        around = [found.narrow(dim, size - low, low), found, found.narrow(dim, 0, high)]
        found = torch.cat([part for part in around if part.shape[dim]], dim)
    return found.contiguous()


def replication_backward(grad: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    """The gradient of padding by the nearest element: what goes to a side is added up there, one dimension after another, and put beside what lies between.
    NotImplemented where a size varies that may be less than two."""
    sized = [n for n in x.shape if not isinstance(n, int)]
    if any(not isinstance(n, int) for n in padding) or min(padding) < 0 or not all(statically_known_true(n >= 2) for n in sized) or 0 in x.shape:
        return NotImplemented
    found = grad.to(torch.promote_types(grad.dtype, torch.float32))
    for i in range(len(padding) // 2):
        d, low, high = x.dim() - 1 - i, padding[2 * i], padding[2 * i + 1]
        n = x.shape[d]
        if isinstance(n, int) and n == 1:
            found = found.sum(d, keepdim=True)
        elif low or high:
            first, last = _side(found, d, 0, low + 1), _side(found, d, low + n - 1, high + 1)
            found = torch.cat([first, found.narrow(d, low + 1, n - 2), last], d)
    return found.to(x.dtype).contiguous(memory_format=suggest_memory_format(x))


def _side(x: Tensor, dim: int, begin: int, count: int) -> Tensor:
    """The sum of a side; of few elements as a function of points, which may be where it is read."""
    if count > _FEW:
        return x.narrow(dim, begin, count).sum(dim, keepdim=True)
    return functools.reduce(torch.add, [x.narrow(dim, begin + i, 1) for i in range(count)])


TABLE = {aten.constant_pad_nd.default: constant_pad_nd, aten._pad_circular.default: _pad_around}
for _name, _place in (("reflection", _reflected), ("replication", _nearest)):
    TABLE.update({getattr(aten, f"{_name}_pad{n}d").default: _gathered(_place) for n in (1, 2, 3)})
TABLE.update({getattr(aten, f"replication_pad{n}d_backward").default: replication_backward for n in (1, 2, 3)})
