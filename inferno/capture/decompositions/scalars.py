"""Operations along a dimension, of tensors that have none: torch takes them as one element in a row.

torch-mlir lowers many of them for one dimension or more alone; for none it fails, gives a wrong shape or does not end.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

aten = torch.ops.aten


def _as_row(operator: Any) -> Callable:
    """``operator`` on tensors of one element, for an input without dimensions; its results lose the dimension again."""

    def decomposition(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, Tensor) or x.dim():
            return NotImplemented
        row = tree_map(lambda v: v.unsqueeze(0) if isinstance(v, Tensor) and not v.dim() else v, (x, *args))
        found = operator(*row, **kwargs)
        return tree_map(lambda t: t.reshape(()) if isinstance(t, Tensor) else t, found)

    return decomposition


def topk(x: Tensor, k: int, *args: Any, **kwargs: Any) -> Any:
    """The largest none of one element are that element, as in torch's kernel."""
    return _as_row(aten.topk.default)(x, 1, *args, **kwargs)


def roll(x: Tensor, shifts: list[int], dims: list[int] = ()) -> Tensor:
    """The import takes shifts of more than the whole length for ones that end there, and where the length varies it reads and writes beyond the ends."""
    if not x.dim() or any(type(n) is int and n == 0 for n in x.shape):
        return x.clone()
    rolled = x if len(dims) else x.reshape(-1)
    for shift, dim in zip(shifts, dims if len(dims) else (0,)):
        size = rolled.shape[dim]
        if not isinstance(size, int):
            rolled = rolled if shift == 0 else _roll_any(rolled, shift, dim)
        elif shift % size:
            rolled = torch.cat((rolled.narrow(dim, size - shift % size, shift % size), rolled.narrow(dim, 0, size - shift % size)), dim)
    return rolled.reshape(x.shape) if rolled is not x else x.clone()


def _roll_any(x: Tensor, shift: int, dim: int) -> Tensor:
    """Of a length that may be less than the shift, or nothing: each element is read at its place."""
    places = torch.arange(x.shape[dim], device=x.device) - shift
    return torch.index_select(x, dim, torch.remainder(places, torch.full((), x.shape[dim], device=x.device)))


def gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """The result is as the indices are, which may be one in a row."""
    if x.dim() and index.dim():
        return NotImplemented
    return aten.gather.default(x.reshape(-1), 0, index.reshape(-1)).reshape(index.shape)


def _scatter(operator: Any) -> Callable:
    """The same of a scatter, which takes an index without dimensions for one in a row."""

    def decomposition(x: Tensor, dim: int, index: Tensor, *rest: Any, **kwargs: Any) -> Any:
        if x.dim() and index.dim():
            return NotImplemented
        row = [t.reshape(-1) if isinstance(t, Tensor) else t for t in rest]
        return operator(x.reshape(-1), 0, index.reshape(-1), *row, **kwargs).reshape(x.shape)

    return decomposition


TABLE = {
    operator: _as_row(operator) for operator in (
        aten._softmax.default, aten._log_softmax.default, aten.cumsum.default, aten.cumprod.default, aten.sort.default,
        aten.kthvalue.default, aten.logsumexp.default, aten.max.dim, aten.min.dim, aten.amax.default, aten.amin.default,
        aten.argmax.default, aten.argmin.default, aten.index_select.default, aten.index_add.default, aten.index_copy.default, aten.index_fill.int_Scalar,
        aten.flip.default, aten.mode.default, aten.prod.dim_int, aten.sum.dim_IntList, aten.mean.dim, aten.all.dim, aten.any.dim,
    )
}
TABLE.update({s: _scatter(s) for s in (aten.scatter.src, aten.scatter.value, aten.scatter_add.default, aten.scatter_reduce.two)})
TABLE.update({aten.topk.default: topk, aten.roll.default: roll, aten.gather.default: gather})
