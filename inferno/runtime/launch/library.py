"""The library functions that a plan can call, by the name that ``inferno.library`` has for them.

Each takes the call's options and returns the function of the operands' tensors, the last one being the destination.  A
tensor that comes is the whole buffer, of any dense strides; the options say how to look at it.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Call = Callable[..., None]


def matmul(options: dict[str, Any]) -> Call:
    """``out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]``.

    ``batch``, ``m``, ``n``, ``k`` are lists of sizes: each index may be made of several.  ``lhs``, ``rhs`` and ``out`` are the
    strides, in elements, for (batch, m, k), (batch, k, n) and (batch, m, n), ``offsets`` where each of the three begins.
    The product is computed in the destination's type.
    """
    batch, m, n, k = (list(options[name]) for name in ("batch", "m", "n", "k"))
    lead = [math.prod(batch)] if batch else []
    offsets = options["offsets"]
    left = _view([*batch, *m, *k], options["lhs"], offsets[0], [*lead, math.prod(m), math.prod(k)])
    right = _view([*batch, *k, *n], options["rhs"], offsets[1], [*lead, math.prod(k), math.prod(n)])
    sizes, strides = [*batch, *m, *n], options["out"]
    flat = len(batch) <= 1 and len(m) <= 1 and len(n) <= 1
    target = _view(sizes, strides, offsets[2], [*lead, math.prod(m), math.prod(n)])
    multiply = torch.bmm if batch else torch.mm

    def call(a: Tensor, b: Tensor, out: Tensor) -> None:
        a, b = left(a), right(b)
        if a.dtype != out.dtype or b.dtype != out.dtype:
            a, b = a.to(out.dtype), b.to(out.dtype)
        if flat:
            multiply(a, b, out=target(out))
        else:
            _strided(out, sizes, strides, offsets[2]).copy_(multiply(a, b).view(sizes))

    return call


def _view(sizes: list[int], strides: list[int], offset: int, shape: list[int]) -> Callable[[Tensor], Tensor]:
    """Look at a buffer by strides, and as ``shape``, which may need a copy."""
    kept = [(size, stride) for size, stride in zip(sizes, strides)]
    if len(kept) < len(shape):  # a dimension of size 1 has no stride
        rest, padded = list(kept), []
        for size in shape:
            padded.append(rest.pop(0) if rest and rest[0][0] == size else (1, 1))
        kept = padded
    seen, steps = [s for s, _ in kept], [s for _, s in kept]
    if seen == shape:
        return lambda tensor: _strided(tensor, seen, steps, offset)
    return lambda tensor: _strided(tensor, seen, steps, offset).reshape(shape)


def _strided(tensor: Tensor, sizes: list[int], strides: list[int], offset: int) -> Tensor:
    """``offset`` counts from the tensor's first element; torch counts from that of its storage."""
    return tensor.as_strided(sizes, strides, tensor.storage_offset() + offset if offset else None)


def convolution(options: dict[str, Any]) -> Call:
    """A convolution of 1 to 3 spatial dimensions, plus a tensor of the result's shape if one is given, or one of a number for each feature (``bias``).

    ``image`` is (batch, groups * channels, sizes...), ``weight`` is (groups * features, channels, kernel sizes...).  How they and the result lie in
    memory is in ``image_sizes`` and so on, and which of these is which dimension in ``image_order``, with groups, batches of several dimensions apart.
    """
    image, weight, bias = options["image"], options["weight"], options["bias"]
    how = options["strides"], options["padding"], options["dilations"], options["groups"]
    convolve = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}[len(image) - 2]
    of_image, of_weight, of_result = (_in_order(options[f"{name}_sizes"], options[f"{name}_order"]) for name in ("image", "weight", "result"))

    def call(x: Tensor, w: Tensor, *rest: Tensor) -> None:
        *start, out = rest
        out = of_result(out)
        if start and not bias:  # a product of 16 bits would be rounded before it is added
            x, w = x.to(out.dtype), w.to(out.dtype)
        result = convolve(of_image(x).reshape(image), of_weight(w).reshape(weight), start[0].view(weight[0]) if bias else None, *how).view(out.shape)
        if start and not bias:
            torch.add(of_result(start[0]), result, out=out)
        else:
            out.copy_(result)

    return call


def _in_order(sizes: list[int], order: list[int]) -> Callable[[Tensor], Tensor]:
    """Look at a buffer of ``sizes`` with its dimensions in another order."""
    steps = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    seen, strides = [sizes[d] for d in order], [steps[d] for d in order]
    return lambda tensor: _strided(tensor, seen, strides, 0)


FUNCTIONS: dict[str, Callable[[dict[str, Any]], Call]] = {"matmul": matmul, "convolution": convolution}
