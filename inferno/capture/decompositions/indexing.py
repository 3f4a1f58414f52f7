"""Views, fills and scatters whose lowering upstream is missing."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inferno.capture.dimensions import as_dimension
from inferno.capture.strided_places import order_of

aten = torch.ops.aten


def empty_strided(size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    """In the order of the strides: a copy to it lies so, as ``as_strided`` reads it."""
    return _empty(size, stride, dtype or torch.get_default_dtype(), device)


def new_empty_strided(x: Tensor, size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    return _empty(size, stride, dtype or x.dtype, device or x.device)


def _empty(size: Any, stride: Any, dtype: torch.dtype, device: Any) -> Tensor:
    """NotImplemented for memory with gaps."""
    if not all(type(n) is int for n in (*size, *stride)):
        return aten.empty.memory_format(size, dtype=dtype, device=device)
    order, following = order_of(size, stride), 1
    for d in reversed(order):
        if size[d] != 1 and stride[d] != following and 0 not in size:
            return NotImplemented
        following *= size[d]
    return empty_permuted(size, order, dtype=dtype, device=device)


def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    order = list(physical_layout)
    made = aten.empty.memory_format([size[d] for d in order], dtype=dtype or torch.get_default_dtype(), device=device)
    return made if order == sorted(order) else made.permute([order.index(d) for d in range(len(order))])


def efficient_zeros(size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    """What derivatives taken forward begin with: zeros that nobody writes to."""
    return torch.zeros(size, dtype=dtype, device=device)


def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Row by row: the diagonal's place in a row, if the row has one, takes that row's value."""
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    rows, columns = x.shape[dim1], x.shape[dim2]
    moved = x.movedim((dim1, dim2), (-2, -1))
    row = torch.arange(rows, device=x.device)
    column = row + offset
    on = (torch.arange(columns, device=x.device) == column.unsqueeze(-1))
    first = max(0, -offset)
    padded = torch.nn.functional.pad(src, (first, rows - first - src.shape[-1]))
    found = torch.where(on, padded.unsqueeze(-1), moved)
    return found.movedim((-2, -1), (dim1, dim2)).contiguous()


def index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """A scatter whose indices are the same along every other dimension."""
    if not x.dim():
        row = index_reduce(x.unsqueeze(0), 0, index.reshape(-1), source.reshape(-1), reduce, include_self=include_self)
        return row.reshape(())
    dim = dim % x.dim()
    index = as_dimension(index, dim, x.dim()).expand(source.shape)
    return aten.scatter_reduce.two(x, dim, index, source, reduce, include_self=include_self)


def index(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """The import compares indices with numbers of 64 bits."""
    if not any(i is not None and i.dtype == torch.int32 for i in indices):
        return NotImplemented
    return aten.index.Tensor(x, [i.long() if i is not None and i.dtype == torch.int32 else i for i in indices])


def take(x: Tensor, index: Tensor) -> Tensor:
    """Indices count through the elements."""
    return aten.index.Tensor(x.reshape(-1), [index.reshape(-1)]).reshape(index.shape)


def taken_along(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """torch.take_along_dim of tensors whose sizes vary: each is broadcast to the other's, but along ``dim``."""
    alike = dim is not None and out is None and isinstance(indices, Tensor) and input.dim() == indices.dim() and indices.dtype == torch.int64
    if not alike or not -input.dim() <= dim < input.dim() or all(type(n) is int for t in (input, indices) for n in t.shape):
        return NotImplemented
    dim, rank = dim % input.dim(), input.dim()
    sizes = list(torch.broadcast_shapes(*([1 if d == dim else t.shape[d] for d in range(rank)] for t in (input, indices))))
    x, places = (t.expand([t.shape[d] if d == dim else sizes[d] for d in range(rank)]) for t in (input, indices))
    return x.gather(dim, places)


def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Indices count through the elements."""
    if not index.numel():
        return x.clone()
    return aten.index_put.default(x.flatten(), [index.flatten()], source.flatten().to(x.dtype), accumulate).reshape(x.shape)


def scatter_op(x: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
    return aten.scatter_reduce.two(x, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])


def scatter_value_op(x: Tensor, dim: int, index: Tensor, value: float, *, reduce: str) -> Tensor:
    return scatter_op(x, dim, index, torch.full(index.shape, value, dtype=x.dtype, device=x.device), reduce=reduce)


def _copied(view: Callable) -> Callable:
    """A view as an operation that makes new tensors."""

    def decomposition(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        found = view(x, *args, **kwargs)
        return found.clone() if isinstance(found, Tensor) else [t.clone() for t in found]

    return decomposition


TABLE = {
    aten.empty_strided.default: empty_strided,
    aten.new_empty_strided.default: new_empty_strided,
    aten.empty_permuted.default: empty_permuted,
    aten.index_reduce.default: index_reduce,
    aten.put.default: put,
    aten.take.default: take,
    aten.index.Tensor: index,
    aten.scatter.reduce: scatter_op,
    aten.scatter.value_reduce: scatter_value_op,
    aten.view_copy.default: _copied(aten.view.default),
    aten.permute_copy.default: _copied(aten.permute.default),
    aten.transpose_copy.int: _copied(aten.transpose.int),
    aten.unsqueeze_copy.default: _copied(aten.unsqueeze.default),
    aten.squeeze_copy.dim: _copied(aten.squeeze.dim),
    aten.narrow_copy.default: _copied(aten.narrow.default),
    aten.unbind_copy.int: _copied(aten.unbind.int),
    aten.diagonal_scatter.default: diagonal_scatter,
    aten._efficientzerotensor.default: efficient_zeros,
}
