"""Gradients of distances between rows (``cdist``, ``pdist``), from the differences of the rows' elements."""

import math

import torch
from torch import Tensor

aten = torch.ops.aten


def cdist_backward(grad: Tensor, a: Tensor, b: Tensor, p: float, distance: Tensor) -> Tensor:
    """The gradient of ``a`` [..., rows, size] by that of its distances to the rows of ``b`` [..., rows, others]."""
    if not a.is_floating_point() or any(isinstance(n, int) and n == 0 for n in (*a.shape, *b.shape)):
        return NotImplemented
    apart = a.unsqueeze(-2) - b.unsqueeze(-3)
    return _shares(grad.unsqueeze(-1), apart, p, distance.unsqueeze(-1)).sum(-2)


def pdist_backward(grad: Tensor, x: Tensor, p: float, distance: Tensor) -> Tensor:
    """The gradient of ``x`` [rows, size] by that of its pairs, the first row's first: each row meets all others, so that nothing is added to a place."""
    rows = x.shape[0]
    if not x.is_floating_point() or not isinstance(rows, int) or rows < 2 or not x.shape[1]:
        return NotImplemented
    one = torch.arange(rows, device=x.device).unsqueeze(-1)
    low, high = torch.minimum(one, one.t()), torch.maximum(one, one.t())
    pair = (low * (2 * rows - low - 1) // 2 + high - low - 1).clamp(0, grad.shape[0] - 1)
    given, lengths = (torch.where(low == high, 0.0, t[pair]).unsqueeze(-1) for t in (grad, distance))
    return _shares(given, x.unsqueeze(-2) - x.unsqueeze(-3), p, lengths).sum(-2)


def _shares(grad: Tensor, apart: Tensor, p: float, distance: Tensor) -> Tensor:
    """Of a distance of nothing there is no gradient."""
    if p == 0:
        return torch.zeros_like(apart * grad)
    if p == 1:
        return grad * apart.sign()
    if p == math.inf:
        return torch.where(apart.abs() == distance, grad * apart.sign(), 0.0)
    if p == 2:
        return torch.where(distance == 0, 0.0, grad * apart / distance)
    share = grad * apart.sign() * (apart.abs() / distance).pow(p - 1)
    return torch.where((distance == 0) | (apart == 0), 0.0, share)


TABLE = {aten._cdist_backward.default: cdist_backward, aten._pdist_backward.default: pdist_backward}
