"""Attention's backward in many forms, and what it is in float64."""

from collections.abc import Callable

import torch
from torch import Tensor

from inferno.capture import trained_attention


def backward(causal: bool, scale: float) -> Callable:
    """The gradients of queries, keys and values, of the result's gradient, queries, keys, values, the result, rows' totals and a mask."""

    def gradients(gradient, q, k, v, result, totals, mask=None):
        return trained_attention.backward(gradient, q, k, v, mask, result, totals, causal, scale)

    return gradients


def biased_backward(causal: bool, scale: float) -> Callable:
    """As ``backward``, beside numbers that are added to scores: also of the rows' largest scores."""

    def gradients(gradient, q, k, v, result, largest, totals, bias):
        return trained_attention.biased_backward(gradient, q, k, v, bias, result, largest, totals, causal, scale)

    return gradients


def learned_backward(scale: float) -> Callable:
    """As ``biased_backward``, with the gradient of the numbers."""

    def gradients(gradient, q, k, v, result, largest, totals, bias):
        return trained_attention.learned_backward(gradient, q, k, v, bias, result, largest, totals, False, scale)

    return gradients


def exact(q: Tensor, k: Tensor, v: Tensor, gradient: Tensor, mask: Tensor | None, causal: bool, scale: float, learned: bool = False) -> tuple:
    """In float64, by torch's own differentiation: the result, the largest scores and totals below them, and the gradients, with the mask's if ``learned``."""
    leaves = [t.detach().double().requires_grad_() for t in (q, k, v, *([mask] if learned else []))]
    allowed = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    allowed = allowed.tril() if causal else allowed
    biased = mask is not None and mask.dtype != torch.bool
    allowed = allowed if mask is None else allowed & (mask != -torch.inf if biased else mask)
    wide = [leaves[0], *(t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in leaves[1:])]
    scores = wide[0] @ wide[1].transpose(-1, -2) * scale
    scores = (scores + (leaves[3] if learned else mask.double()) if biased else scores).masked_fill(~allowed, -torch.inf)
    largest = scores.detach().amax(-1, keepdim=True)
    empty = largest == -torch.inf
    largest = largest.masked_fill(empty, 0.0)
    totals = torch.logsumexp(scores - largest, -1, keepdim=True).masked_fill(empty, torch.inf)
    result = torch.exp(scores - largest - totals) @ wide[2]
    return result.detach(), largest.squeeze(-1), totals.detach().squeeze(-1), torch.autograd.grad(result, leaves, gradient.double())


def operands(
    batch: int, heads: int, shared: int, queries: int, keys: int, depth: int, width: int, causal: bool = False, mask: Callable | None = None,
    dtype: torch.dtype = torch.bfloat16, transposed: bool = False, learned: bool = False,
) -> tuple[Callable, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The function, its arguments, and the exact gradients.  ``transposed``: heads lie side by side; ``learned``: the mask has a gradient, too."""
    torch.manual_seed(0)

    def made(of: int, rows: int, size: int) -> Tensor:
        return torch.randn(batch, rows, of, size).to(dtype).transpose(1, 2) if transposed else torch.randn(batch, of, rows, size).to(dtype)

    q, k, v, gradient = made(heads, queries, depth), made(shared, keys, depth), made(shared, keys, width), made(heads, queries, width)
    seen, scale = mask() if mask else None, depth**-0.5
    result, largest, totals, wanted = exact(q, k, v, gradient, seen, causal, scale, learned)
    if seen is not None and seen.dtype != torch.bool:
        function = learned_backward(scale) if learned else biased_backward(causal, scale)
        return function, (gradient, q, k, v, result.to(dtype), largest.float(), totals.float(), seen), wanted
    given = (gradient, q, k, v, result.to(dtype), (largest + totals).float(), *(() if seen is None else (seen,)))
    return backward(causal, scale), given, wanted


def empty(batch: int, heads: int, shared: int, queries: int, keys: int, depth: int, width: int = 0, dtype: torch.dtype = torch.bfloat16) -> tuple:
    """Arguments of these sizes."""
    def made(*shape: int) -> Tensor:
        return torch.zeros(batch, *shape, dtype=dtype)

    width = width or depth
    rows = made(heads, queries, width)
    return rows, made(heads, queries, depth), made(shared, keys, depth), made(shared, keys, width), rows, torch.zeros(batch, heads, queries)
