"""scaled_dot_product_attention as two contractions around a softmax."""

import math

import torch
from torch import Tensor

from inferno.capture.devices import for_gpu
from inferno.capture.orders import example, inverse

aten = torch.ops.aten


def attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T * scale + mask) v, with the softmax in float32 at least.

    The result has the memory layout of the kernel that torch would take, which later views rely on.
    A row that the mask forbids altogether is 0, as torch has it.
    """
    if dropout_p:
        return NotImplemented
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (repeat_heads(t, q.shape[-3] // t.shape[-3]) for t in (k, v))
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    # The casts become the multiply-add's extension of its operands: scores are never rounded to 16 bits.
    scores = torch.matmul(q.to(wide), k.transpose(-2, -1).to(wide)) * factor(q, scale)
    scores = masked(scores, attn_mask if attn_mask is not None and attn_mask.dtype == torch.bool else None, is_causal)
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        added = attn_mask.to(wide)
        scores = scores + added
        if torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v, attn_mask)):
            # What minus infinity hides gets no gradient: through the softmax of a row that has nothing else it would be no number.
            scores = torch.where(added == -math.inf, torch.full((), -math.inf, dtype=wide, device=q.device), scores)
    weights = torch.softmax(scores, -1)
    if attn_mask is not None:
        highest = scores.amax(-1, keepdim=True)
        weights = torch.where(highest == -math.inf, torch.zeros((), dtype=wide, device=q.device), weights)
    out = torch.matmul(weights.to(q.dtype), v)
    if out.dim() != 4:
        return out
    return in_order(out, order_of(q))


def factor(q: Tensor, scale: float | None) -> float:
    """What scores are multiplied by; those of queries without features are 0 whatever it is."""
    return 1.0 / (math.sqrt(q.shape[-1]) or 1.0) if scale is None else float(scale)


def masked(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Scores [..., queries, keys], minus infinity where a mask of bools is false, or a query comes before the key."""
    allowed = mask
    if causal:
        queries, keys = scores.shape[-2:]
        lower = torch.arange(keys, device=scores.device) <= torch.arange(queries, device=scores.device).unsqueeze(-1)
        allowed = lower if mask is None else lower & mask
    if allowed is None:
        return scores
    return torch.where(allowed, scores, torch.full((), -math.inf, dtype=scores.dtype, device=scores.device))


def in_order(t: Tensor, order: list[int]) -> Tensor:
    """The same tensor, its dimensions in memory in ``order``, outermost first."""
    return t.permute(order).contiguous().permute(inverse(order))


def order_of(q: Tensor) -> list[int]:
    """The order of dimensions in which torch's kernel makes its result: on a GPU flash attention and cuDNN's, for 16-bit floats, and the one for CPUs, as
    the query lies in memory; the others by [batch, length, heads, size]."""
    if not for_gpu(q) or (q.device.type == "cuda" and q.dtype in (torch.float16, torch.bfloat16)):
        strides = [example(s) for s in q.stride()]
        return sorted(range(4), key=lambda i: (-strides[i], i))
    return [0, 2, 1, 3]


def repeat_heads(t: Tensor, times: int) -> Tensor:
    shape = t.shape
    return t.unsqueeze(-3).expand(*shape[:-2], times, *shape[-2:]).reshape(*shape[:-3], shape[-3] * times, *shape[-2:])


TABLE = {aten.scaled_dot_product_attention.default: attention}
