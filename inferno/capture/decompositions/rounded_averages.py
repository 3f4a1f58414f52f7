"""Averages of windows whose number is rounded up, of sizes that vary, which the import does not round.

Where one window takes in all, as an image's features are averaged by a window that is large enough for any, it is a mean; else zeros are put behind, as far as
any window goes, and each sum is divided by how many elements its window has.
"""

import math

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from inferno.capture.decompositions.max_pooling import count_windows

aten = torch.ops.aten


def round_up(x: Tensor, kernel: list[int], step: list[int], pad: list[int], include: bool, divisor: int | None) -> Tensor:
    """The averages of windows of the last dimensions: with ``include`` of the zeros at both ends too, with a ``divisor`` by that."""
    rank = len(kernel)
    sizes = x.shape[-rank:]
    counts = [count_windows(n, k, s, p, 1, True) for n, k, s, p in zip(sizes, kernel, step, pad)]
    if all(statically_known_true(count == 1) for count in counts):
        sums = x.sum(list(range(-rank, 0)), keepdim=True)
        return sums / (divisor or math.prod(n + 2 * p * include for n, p in zip(sizes, pad)))
    after = [p + s - 1 for p, s in zip(pad, step)]
    padded = aten.constant_pad_nd.default(x, [w for pair in zip(pad[::-1], after[::-1]) for w in pair], 0)
    sums = (aten.avg_pool2d if rank == 2 else aten.avg_pool3d).default(padded, kernel, step, [0] * rank, False, True, 1)
    for d, count in enumerate(counts):
        sums = aten.slice.Tensor(sums, d - rank, 0, count)
    if divisor:
        return sums / divisor
    for d, (n, k, s, p, count) in enumerate(zip(sizes, kernel, step, pad, counts)):
        begin = torch.arange(count, device=x.device) * s - p
        length = (begin + k).clamp(max=n + p * include) - (begin if include else begin.clamp(min=0))
        sums = sums / length.reshape([count, *[1] * (rank - 1 - d)]).to(x.dtype)
    return sums
