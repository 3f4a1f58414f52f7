"""``F.fold``, and the gradient of ``Tensor.unfold``: each element is the sum of the windows' elements that lie on it.  They are few, and where they are is
known, so nothing is scattered."""

import torch
from torch import Tensor

from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten

MOST_MET = 16  # terms of a sum, each of which is read at a place of its own; beyond them torch's decomposition scatters


def col2im(x: Tensor, output_size: list[int], kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]) -> Tensor:
    """Windows that begin ``stride`` apart meet in a place at every ``stride``-th of their elements: at element r + t * stride of window q - t, where the
    place is r elements behind the beginning of window q."""
    most = [-(-k // s) for k, s in zip(kernel_size, stride)]
    if x.dim() not in (2, 3) or not x.is_floating_point() or any(d != 1 for d in dilation) or most[0] * most[1] > MOST_MET:
        return NotImplemented
    counts = [(n + 2 * p - k) // s + 1 for n, p, k, s in zip(output_size, padding, kernel_size, stride)]
    if any(not isinstance(n, int) for n in (*x.shape, *counts)):
        return NotImplemented
    batch = x if x.dim() == 3 else x.unsqueeze(0)
    windows = batch.unflatten(1, (-1, *kernel_size)).unflatten(-1, counts)  # [batch, channels, rows of a window, columns, windows down, windows across]
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows, columns = (
        [met(output_size[d], padding[d], stride[d], kernel_size[d], counts[d], t, x.device) for t in range(most[d])] for d in (0, 1)
    )
    total = None
    for row, down, high in rows:
        for column, across, broad in columns:
            term = windows[:, :, row[:, None], column, down[:, None], across].to(wide)
            term = torch.where(high[:, None] & broad, term, 0.0)
            total = term if total is None else total + term
    total = total.to(x.dtype)
    return total if x.dim() == 3 else total.squeeze(0)


def unfold_backward(grad: Tensor, input_sizes: list[int], dim: int, size: int, step: int) -> Tensor:
    """Along one dimension; windows lie along it, their elements along the last one."""
    known = all(isinstance(n, int) and n for n in (*grad.shape, *input_sizes, size, step))
    if not known or not input_sizes or not grad.is_floating_point() or (most := -(-size // step)) > MOST_MET:
        return NotImplemented
    dim = dim % len(input_sizes)
    between = grad.shape[dim + 1:-1]  # dimensions between the windows and their elements, each of which is read where it is
    whole = [as_dimension(torch.arange(n, device=grad.device), d, len(between)) for d, n in enumerate(between)]
    wide = torch.float64 if grad.dtype == torch.float64 else torch.float32
    total = None
    for places in (met(input_sizes[dim], 0, step, size, grad.shape[dim], t, grad.device) for t in range(most)):
        element, window, inside = (x.reshape(-1, *[1] * len(between)) for x in places)
        term = torch.where(inside, aten.index.Tensor(grad, [*[None] * dim, window, *whole, element]).to(wide), 0.0)
        total = term if total is None else total + term
    return total.to(grad.dtype)


def met(size: int, pad: int, step: int, length: int, count: int, number: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """For each place the element of the ``number``-th window from the last that begins in front of it, that window, and whether there is one."""
    place = torch.arange(size, device=device) + pad
    element, window = place % step + number * step, place // step - number
    inside = (element < length) & (window >= 0) & (window < count)
    return element.clamp(0, length - 1), window.clamp(0, count - 1), inside


TABLE = {aten.col2im.default: col2im, aten.unfold_backward.default: unfold_backward}
