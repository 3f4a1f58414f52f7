"""Reductions whose lowering upstream is missing, or loses digits."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inferno.capture.devices import captures_for_hopper

aten = torch.ops.aten

_MOST_DIFFERENCES = 2**20  # of cdist: either way takes less than a launch (64 terms of 128 x 128)
_SHORT_ROWS = 64  # of softmax's gradient, whose sums are in float64
_MOST_ROWS = 64  # of pdist, whose pieces are one for each row


def var_mean(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Variance and mean in two passes, in float32 at least; torch-mlir's own lowering goes through float64.

    As torch's do, variances on the CPU have a square's range on the way, but for those that torch takes of norms, where it does not either."""
    if x.is_complex():
        return NotImplemented
    of_norm = correction == 0 and keepdim and x.dtype == torch.float32
    return tuple(v.to(x.dtype) for v in _var_mean(x, torch.float32 if of_norm else _of_squares(x), dim, correction, keepdim))


def var(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    """As ``var_mean``."""
    return NotImplemented if x.is_complex() else _var_mean(x, _of_squares(x), dim, correction, keepdim)[0].to(x.dtype)


def std(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    """The root is taken of a variance that has not been rounded: that of 1e20 is no float32."""
    return NotImplemented if x.is_complex() else _var_mean(x, _of_squares(x), dim, correction, keepdim)[0].sqrt().to(x.dtype)


def std_mean(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """As ``std``."""
    if x.is_complex():
        return NotImplemented
    var, mean = _var_mean(x, _of_squares(x), dim, correction, keepdim)
    return var.sqrt().to(x.dtype), mean.to(x.dtype)


def _of_squares(x: Tensor) -> torch.dtype:
    """The type that torch sums squares in for a variance: on the CPU float64 (where this takes 1.05 times as long), which float16 does not need."""
    on_cpu = x.device.type == "cpu" and captures_for_hopper() is not True
    return torch.float64 if x.dtype == torch.float64 or (on_cpu and x.dtype != torch.float16) else torch.float32


def _var_mean(x: Tensor, dtype: torch.dtype, dim: list[int] | None, correction: float | None, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Variance and mean, computed and given in ``dtype``, of float64 in that."""
    wide = x if x.dtype == torch.float64 else x.to(dtype)
    dims = list(range(x.dim())) if not dim else [d % max(x.dim(), 1) for d in dim]
    count = math.prod(x.shape[d] for d in dims) if x.dim() else 1
    if not x.dim():
        dims = []
    mean = (wide.sum(dims, keepdim=True) if dims else wide) / count
    centred = wide - mean
    less = 1 if correction is None else int(correction) if correction == int(correction) else correction  # 1.0 would make a float of a size
    divisor = max(0, count - less)
    if less > 0 and not isinstance(count, int):  # which torch takes for 2 at least, and max for larger than 0
        divisor = (torch.full((), count, device=x.device) - less).clamp(min=0)
    squares = centred * centred
    var = (squares.sum(dims, keepdim=True) if dims else squares) / divisor
    shape = [s for i, s in enumerate(x.shape) if i not in dims]
    return (var, mean) if keepdim else (var.reshape(shape), mean.reshape(shape))


def mean_of_integers(x: Tensor, *dims: Any, dtype: torch.dtype | None = None) -> Tensor:
    """In the type that it is to be of, which only that of floats is lowered to."""
    if dtype is None or x.is_floating_point() or x.is_complex():
        return NotImplemented
    return torch.mean(x.to(dtype), *dims)


def rms_norm(x: Tensor, normalized_shape: list[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """In float32 at least, with the rounding unit of that type for an ``eps`` that is not given, as torch has it."""
    if not x.is_floating_point() or not x.dim():
        return NotImplemented
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    mean = (wide * wide).mean(list(range(x.dim() - len(normalized_shape), x.dim())), keepdim=True)
    found = wide * torch.rsqrt(mean + (torch.finfo(wide.dtype).eps if eps is None else eps))
    return (found if weight is None else found * weight.to(wide.dtype)).to(x.dtype)


def softmax_backward(grad: Tensor, weights: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """Of short rows the weights times what gradients are beyond their mean: the difference of two products, one of which is multiplied exactly, has 1.6 times
    the error of torch's where one weight of five is nearly 1, this 1.3 times."""
    if grad.dtype != torch.float32 or input_dtype != torch.float32 or not grad.dim() or not isinstance(n := grad.shape[dim], int) or n > _SHORT_ROWS:
        return NotImplemented
    return weights * (grad - (grad * weights).sum(dim, keepdim=True))


def norm(x: Tensor, ord: float | None = None, dim: list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """A norm of vectors, or of matrices the largest or smallest sum of columns or rows; NotImplemented for those of singular values."""
    if ord is None or (x.dim() == 1 if dim is None else len(dim) == 1):
        return torch.linalg.vector_norm(x, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    matrices = x.dim() == 2 if dim is None else len(dim) == 2
    return aten.linalg_matrix_norm.default(x, ord, list(dim or (0, 1)), keepdim, dtype=dtype) if matrices and abs(ord) != 2 else NotImplemented


def norm_by_name(x: Tensor, ord: str, dim: list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    matrices = x.dim() == 2 if dim is None else len(dim) == 2
    return torch.linalg.vector_norm(x, 2, dim, keepdim, dtype=dtype) if ord == "fro" and matrices else NotImplemented


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many values are in each bin, as a reduction over the values: bins that do not meet need no atomics.  Places of 16-bit floats are
    computed in float32: rounded to 16 bits many would be in a neighbour."""
    dtype, x = x.dtype, x.flatten()
    if not x.numel():
        return torch.zeros(bins, dtype=x.dtype, device=x.device)
    if min == max:
        low, high = x.amin(), x.amax()
        one = (low == high).to(x.dtype)
        low, high = low - one, high + one
    else:
        low, high = (torch.full((), v, dtype=x.dtype, device=x.device) for v in (min, max))
    if dtype in (torch.float16, torch.bfloat16):
        x, low, high = (t.to(torch.float32) for t in (x, low, high))
    width = high - low
    if x.is_floating_point():
        place = torch.floor((x - low) * bins / width)  # in eager's order: another would round numbers on a border below it
    else:
        place = torch.div((x - low) * bins, width, rounding_mode="floor")
    place = torch.where(x == high, bins - 1, place)
    inside = (x >= low) & (x <= high)
    each = torch.arange(bins, device=x.device).to(place.dtype).unsqueeze(-1)
    # Counted as integers: a sum of ones in 16-bit floats would stop growing.
    return ((place == each) & inside).sum(-1).to(dtype)


def cdist(a: Tensor, b: Tensor, p: float, mode: int | None = None) -> Tensor:
    """Distances between all pairs, from their differences (torch may take a matmul, which is less exact)."""
    apart = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    if p == 0:
        return (apart != 0).to(a.dtype).sum(-1)
    if p == 1:
        return apart.sum(-1)
    if p == 2:
        return torch.sqrt((apart * apart).sum(-1))
    if p == math.inf:
        return apart.amax(-1) if a.shape[-1] else apart.sum(-1)
    return apart.pow(p).sum(-1).pow(1 / p)


def euclidean_dist(a: Tensor, b: Tensor) -> Tensor:
    """cdist where torch takes a matmul: of few differences by these, which cost no more, and cancel nothing."""
    numbers = [*a.shape, b.shape[-2]]
    if any(not isinstance(n, int) for n in numbers) or math.prod(numbers) > _MOST_DIFFERENCES:
        return NotImplemented
    return cdist(a, b, 2)


def pdist(x: Tensor, p: float = 2) -> Tensor:
    """The distances of the pairs of different rows, those of the first row first; by pieces of the table of all pairs."""
    if x.shape[0] > _MOST_ROWS or x.shape[0] < 2:
        return NotImplemented
    apart = cdist(x, x, p)
    return torch.cat([apart[i, i + 1 :] for i in range(x.shape[0] - 1)])


def amax(x: Tensor, dim: list[int] = (), keepdim: bool = False) -> Tensor:
    """The largest over several dimensions."""
    return _extremum(aten.amax.default, x, dim, keepdim)


def amin(x: Tensor, dim: list[int] = (), keepdim: bool = False) -> Tensor:
    """The smallest over several dimensions."""
    return _extremum(aten.amin.default, x, dim, keepdim)


def _extremum(reduce: Callable, x: Tensor, dim: list[int], keepdim: bool) -> Tensor:
    """Over neighbours as over one dimension: the import takes one after another, each by a kernel that leaves in memory what it comes to."""
    dims = sorted({d % max(x.dim(), 1) for d in dim}) or list(range(x.dim()))
    runs = [[d] for d in dims[:1]]
    for d in dims[1:]:
        if d == runs[-1][-1] + 1:
            runs[-1].append(d)
        else:
            runs.append([d])
    if all(len(run) == 1 for run in runs) or len(dims) == x.dim() or any(isinstance(n, int) and n == 0 for n in x.shape):
        return NotImplemented  # of all elements it is one sum, which need not lie in one order
    found = x
    for run in reversed(runs):
        found = reduce(found.flatten(run[0], run[-1]) if len(run) > 1 else found, [run[0]])
    return found.reshape([1 if d in dims else n for d, n in enumerate(x.shape)]) if keepdim else found


def all_dims(x: Tensor, dim: list[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether all are true over several dimensions."""
    return _over(torch.all, x, dim, keepdim)


def any_dims(x: Tensor, dim: list[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether any is true over several dimensions."""
    return _over(torch.any, x, dim, keepdim)


def _over(reduce: Callable, x: Tensor, dim: list[int] | None, keepdim: bool) -> Tensor:
    """One dimension after another, the last first.  Of bytes torch makes bytes, of everything else booleans."""
    found, rank = x != 0, max(x.dim(), 1)
    for d in sorted((d % rank for d in (range(x.dim()) if dim is None else dim)), reverse=True):
        found = reduce(found, d, keepdim)
    return found.to(torch.uint8) if x.dtype == torch.uint8 else found


def dist(x: Tensor, y: Tensor, p: float = 2) -> Tensor:
    """The norm of the difference."""
    return torch.linalg.vector_norm(x - y, p)


def logsumexp(x: Tensor, dim: list[int], keepdim: bool = False) -> Tensor:
    """Of a scalar: itself."""
    if x.dim() or x.is_complex():
        return NotImplemented
    return x.clone() if x.is_floating_point() else x.to(torch.get_default_dtype())


def wide_logsumexp(input: Tensor, dim: int | list[int], keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Of 16 bits in float32, which autograd keeps: it takes exp(input - result), and half a unit of a large result is a share of that.  In eager both are
    rounded alike; here the input is not where the backward computes it again.  NotImplemented for other types."""
    if out is not None or not isinstance(input, Tensor) or input.dtype not in (torch.float16, torch.bfloat16):
        return NotImplemented
    return torch.logsumexp(input.float(), dim, keepdim).to(input.dtype)


def max_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() and isinstance(x.shape[dim], int) and not x.shape[dim]:
        raise IndexError(f"max(): Expected reduction dim {dim} to have non-zero size.")
    return NotImplemented if x.dim() else (x.clone(), torch.zeros((), dtype=torch.int64, device=x.device))


def extremum_of_all(x: Tensor) -> Tensor:
    """NotImplemented, but for no elements, of which eager finds none."""
    if any(isinstance(n, int) and n == 0 for n in x.shape):
        raise RuntimeError("max() or min(): Expected reduction dim to be specified for input.numel() == 0")
    return NotImplemented


TABLE = {
    aten._softmax_backward_data.default: softmax_backward,
    aten.var_mean.correction: var_mean,
    aten.var.correction: var,
    aten.std.correction: std,
    aten.std_mean.correction: std_mean,
    aten.mean.default: mean_of_integers,
    aten.mean.dim: mean_of_integers,
    aten.rms_norm.default: rms_norm,
    aten.linalg_norm.default: norm,
    aten.linalg_norm.ord_str: norm_by_name,
    aten.histc.default: histc,
    aten._cdist_forward.default: cdist,
    aten._euclidean_dist.default: euclidean_dist,
    aten._pdist_forward.default: pdist,
    aten.amax.default: amax,
    aten.amin.default: amin,
    aten.all.dims: all_dims,
    aten.any.dims: any_dims,
    aten._is_all_true.default: lambda x: x.all(),
    aten._is_any_true.default: lambda x: x.any(),
    aten.dist.default: dist,
    aten.logsumexp.default: logsumexp,
    aten.max.default: extremum_of_all,
    aten.min.default: extremum_of_all,
    aten.max.dim: max_dim,
    aten.min.dim: max_dim,
}
