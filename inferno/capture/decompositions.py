"""How ATen operations are taken apart before the import: torch-mlir's table, with what it gets wrong or lacks added."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T * scale + mask) v, with the softmax in float32 at least.

    The result has the memory layout of torch's fused kernels, [batch, length, heads, size], which later views rely on.
    A row that the mask forbids altogether is 0, as torch has it.
    """
    if dropout_p:
        return NotImplemented
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (_repeat_heads(t, q.shape[-3] // t.shape[-3]) for t in (k, v))
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    # The casts become the multiply-add's extension of its operands: scores are never rounded to 16 bits.
    scores = torch.matmul(q.to(wide), k.transpose(-2, -1).to(wide)) * (1.0 / math.sqrt(q.shape[-1]) if scale is None else scale)
    allowed = None
    if is_causal:
        allowed = torch.arange(k.shape[-2], device=q.device) <= torch.arange(q.shape[-2], device=q.device).unsqueeze(-1)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = attn_mask if allowed is None else allowed & attn_mask
    if allowed is not None:
        scores = torch.where(allowed, scores, torch.full((), -math.inf, dtype=wide, device=q.device))
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        scores = scores + attn_mask.to(wide)
    weights = torch.softmax(scores, -1)
    if attn_mask is not None:
        lowest = scores.amax(-1, keepdim=True)
        weights = torch.where(lowest == -math.inf, torch.zeros((), dtype=wide, device=q.device), weights)
    out = torch.matmul(weights.to(q.dtype), v)
    return out.transpose(1, 2).contiguous().transpose(1, 2) if out.dim() == 4 else out


def _repeat_heads(t: Tensor, times: int) -> Tensor:
    shape = t.shape
    return t.unsqueeze(-3).expand(*shape[:-2], times, *shape[-2:]).reshape(*shape[:-3], shape[-3] * times, *shape[-2:])


def var_mean(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Variance and mean in two passes, in float32 at least; torch-mlir's own lowering goes through float64."""
    if x.is_complex():
        return NotImplemented
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    dims = list(range(x.dim())) if not dim else [d % x.dim() for d in dim]
    count = math.prod(x.shape[d] for d in dims)
    mean = wide.sum(dims, keepdim=True) / count
    centred = wide - mean
    divisor = max(0, count - (1 if correction is None else correction))
    var = (centred * centred).sum(dims, keepdim=True) / divisor
    shape = [s for i, s in enumerate(x.shape) if i not in dims]
    if not keepdim:
        var, mean = var.reshape(shape), mean.reshape(shape)
    return var.to(x.dtype), mean.to(x.dtype)


def var(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    found = var_mean(x, dim, correction=correction, keepdim=keepdim)
    return found if found is NotImplemented else found[0]


def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """The tanh form with its constants exact: torch-mlir's sqrt(2 / pi) is off in the fourth digit."""
    if approximate != "tanh":
        return NotImplemented
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * (wide * wide * wide))
    return (0.5 * wide * (1 + torch.tanh(inner))).to(x.dtype)


def addmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """A matmul in the operands' own type; torch's decomposition would convert them to float32 first."""
    product = torch.mm(a, b)
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else product + (c if beta == 1 else c * beta)


def sort_stable(x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    return aten.sort.default(x, dim, descending)


def erfc(x: Tensor) -> Tensor:
    return 1 - torch.erf(x)


def isfinite(x: Tensor) -> Tensor:
    return x.abs() < math.inf if x.is_floating_point() else torch.ones_like(x, dtype=torch.bool)


def hypot(x: Tensor, y: Tensor) -> Tensor:
    return torch.sqrt(x * x + y * y)


def fmod_scalar(x: Tensor, y: float) -> Tensor:
    return x - torch.trunc(x / y) * y if x.is_floating_point() else NotImplemented


def fmax(x: Tensor, y: Tensor) -> Tensor:
    x, y = torch.broadcast_tensors(x, y)
    return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, torch.maximum(x, y)))


def fmin(x: Tensor, y: Tensor) -> Tensor:
    x, y = torch.broadcast_tensors(x, y)
    return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, torch.minimum(x, y)))


def median_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.is_floating_point():
        return NotImplemented  # a NaN decides the result, and sorting hides where it was
    values, indices = aten.sort.default(x, dim, False)
    middle = (x.shape[dim] - 1) // 2
    values, indices = values.select(dim, middle), indices.select(dim, middle)
    return (values.unsqueeze(dim), indices.unsqueeze(dim)) if keepdim else (values, indices)


def searchsorted(
    edges: Tensor, x: Tensor, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:
    """The number of edges before each value: a count, for a compiler that has no search."""
    right = right if side is None else side == "right"
    edges = edges if sorter is None else edges.gather(-1, sorter)
    edges = edges.unsqueeze(-2) if edges.dim() > 1 else edges
    before = edges <= x.unsqueeze(-1) if right else edges < x.unsqueeze(-1)
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def empty_strided(size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    return aten.empty.memory_format(size, dtype=dtype or torch.get_default_dtype(), device=device)


def new_empty_strided(x: Tensor, size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    return aten.empty.memory_format(size, dtype=dtype or x.dtype, device=device or x.device)


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return aten.scatter_add.default(x, dim % max(x.dim(), 1), index, src) if dim < 0 else NotImplemented


def scatter_src(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return aten.scatter.src(x, dim % max(x.dim(), 1), index, src) if dim < 0 else NotImplemented


def scatter_value(x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    return aten.scatter.value(x, dim % max(x.dim(), 1), index, value) if dim < 0 else NotImplemented


def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    if dim >= 0:
        return NotImplemented
    return aten.scatter_reduce.two(x, dim % max(x.dim(), 1), index, src, reduce, include_self=include_self)


OWN = {
    aten.scaled_dot_product_attention.default: attention,
    aten.addmm.default: addmm,
    aten.var_mean.correction: var_mean,
    aten.var.correction: var,
    aten.gelu.default: gelu,
    aten.sort.stable: sort_stable,
    aten.erfc.default: erfc,
    aten.isfinite.default: isfinite,
    aten.hypot.default: hypot,
    aten.fmod.Scalar: fmod_scalar,
    aten.fmax.default: fmax,
    aten.fmin.default: fmin,
    aten.median.dim: median_dim,
    aten.searchsorted.Tensor: searchsorted,
    aten.empty_strided.default: empty_strided,
    aten.new_empty_strided.default: new_empty_strided,
    aten.scatter_add.default: scatter_add,
    aten.scatter.src: scatter_src,
    aten.scatter.value: scatter_value,
    aten.scatter_reduce.two: scatter_reduce,
}


@cache
def table() -> dict[Any, Callable]:
    """Decompositions by operator overload."""
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    return {**get_decomposition_table(), **OWN}
