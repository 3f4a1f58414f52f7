"""Attention as programs write it by hand."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

F = nn.functional


def llama(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Heads share keys; numbers are added; the softmax is in float32."""
    k, v = (t[:, :, None].expand(-1, -1, q.shape[1] // t.shape[1], -1, -1).reshape(q.shape[0], q.shape[1], *t.shape[2:]) for t in (k, v))
    weights = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1]**-0.5
    weights = F.softmax(weights + mask, dim=-1, dtype=torch.float32).to(q.dtype)
    weights = F.dropout(weights, p=0.1, training=False)
    return torch.matmul(weights, v).transpose(1, 2).contiguous()


def gpt2(q: Tensor, k: Tensor, v: Tensor, padding: Tensor) -> Tensor:
    """A computed mask hides by a finite number, to which a mask of keys is added; numbers are tensors."""
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores = scores / torch.full([], v.size(-1)**0.5, dtype=scores.dtype, device=scores.device)
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()[None, None]
    scores = torch.where(seen, scores.to(scores.dtype), torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype, device=scores.device))
    weights = F.softmax(scores + padding, dim=-1).type(v.dtype)
    return torch.matmul(weights, v).transpose(1, 2)


def nano(q: Tensor, k: Tensor, v: Tensor, buffer: Tensor) -> Tensor:
    """Infinity where a part of a larger buffer of numbers is 0."""
    scores = (q @ k.transpose(-2, -1)) * (1.0 / q.size(-1)**0.5)
    scores = scores.masked_fill(buffer[:, :, :q.shape[2], :k.shape[2]] == 0, float("-inf"))
    return F.softmax(scores, dim=-1) @ v


def triangle(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Infinity where a mask that follows from sizes hides."""
    hidden = torch.triu(torch.ones(q.shape[2], k.shape[2], device=q.device), diagonal=1).bool()
    return (q @ k.mT / q.shape[-1]**0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ v


def t5(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """A learned bias, added in place; nothing is scaled; a type that is another tensor's."""
    scores = torch.matmul(q, k.transpose(3, 2))
    scores += bias
    return torch.matmul(F.softmax(scores.float(), dim=-1).type_as(scores), v)


def mpt(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, hidden: Tensor) -> Tensor:
    """A learned bias, and then a mask."""
    scores = torch.matmul(q, k.transpose(3, 2)) * 0.2 + bias
    return torch.matmul(F.softmax(scores.masked_fill(hidden, torch.finfo(q.dtype).min).float(), dim=-1).to(v.dtype), v)


def dropped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Weights are dropped."""
    weights = F.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.25 + mask, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(F.dropout(weights, p=0.25, training=True), v)


def least(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Numbers for scores as models add them, next to nothing behind the diagonal, for some keys, and in the fourth row of the first sequence."""
    hidden = torch.ones(shape[-2:], dtype=torch.bool).tril().logical_not().expand(shape).clone()
    hidden[0, ..., :2], hidden[0, :, 3] = True, True
    return torch.zeros(shape).masked_fill(hidden, torch.finfo(dtype).min).to(dtype)


def cases(batch: int, heads: int, length: int, size: int, dtype: torch.dtype = torch.bfloat16) -> dict[str, tuple[Callable, tuple[Tensor, ...], int]]:
    """By name a program, its arguments, and how many of them are trained."""
    q, k, v = (torch.randn(batch, heads, length, size).to(dtype) for _ in range(3))
    few = k[:, :heads // 2].contiguous(), v[:, :heads // 2].contiguous()
    padding = torch.zeros(batch, 1, 1, length).index_fill(3, torch.arange(length - 5, length), torch.finfo(dtype).min).to(dtype)
    return {
        "llama": (llama, (q, *few, least(batch, 1, length, length, dtype=dtype)), 3), "gpt2": (gpt2, (q, k, v, padding), 3),
        "nano": (nano, (q, k, v, torch.ones(1, 1, length + 8, length + 8).tril()), 3), "triangle": (triangle, (q, k, v), 3),
        "t5": (t5, (q, k, v, torch.randn(1, heads, length, length)), 4),
        "mpt": (mpt, (q, k, v, torch.randn(1, heads, 1, length), torch.rand(batch, 1, length, length) > 0.6), 4),
    }


def step(function: Callable, args: tuple[Tensor, ...], dtype: torch.dtype, trained: int) -> list[Tensor]:
    """The result of a step of training on a GPU in a type, and the gradients of the first ``trained`` arguments, for a gradient that is the same each time."""
    given = [a.detach().to(dtype).requires_grad_(n < trained) if a.is_floating_point() else a for n, a in enumerate(args)]
    out = function(*given)
    generator = torch.Generator("cuda").manual_seed(1)
    out.backward(torch.randn(out.shape, device="cuda", generator=generator).to(args[0].dtype).to(dtype))
    return [out.detach(), *(a.grad for a in given if a.requires_grad)]
