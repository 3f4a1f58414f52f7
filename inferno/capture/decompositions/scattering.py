"""Scatters, in forms that kernels are good at.  The place of an element, or of a row, is one linear index, where the import has a table of all coordinates;
few elements for each row are compared with their places instead.  Sums of booleans, and of 16-bit floats on a CPU, are made in wider types, which the import
does not; means are sums and counts."""

import math
from collections.abc import Sequence

import torch
from torch import SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from inferno.capture.devices import captures_for_hopper, for_gpu
from inferno.capture.dimensions import as_dimension
from inferno.capture.library_faster import adds_faster
from inferno.capture.orders import example
from inferno.scatter_limits import side_by_side, worthwhile, worthwhile_order, worthwhile_sums
from inferno.settings import settings

aten = torch.ops.aten

# Elements that go to each row, at most, and comparisons in all, where that is no scatter: by arithmetic an H200 does these in 3 us, as long as two launches
# take.  What they are put into is written as a whole, which might stay where it is: up to so many elements, or of so many places for each that goes there.
_COMPARED, _COMPARISONS, _REWRITTEN, _PLACES = 8, 1 << 24, 1 << 20, 64
_Size = int | SymInt


def _has_elements(*tensors: Tensor) -> bool:
    """Whether no size is known to be 0."""
    return not any(type(n) is int and n == 0 for t in tensors for n in t.shape)


def _outside(count: _Size) -> int:
    """A place that none of so many is: nothing is written there.  (A size that varies would be imported as a tensor that has it.)"""
    return count if isinstance(count, int) else 1 << 62


def _equal(sizes: Sequence[_Size], others: Sequence[_Size]) -> bool:
    """Whether sizes, some of which may vary, are known to be those."""
    return len(sizes) == len(others) and all(statically_known_true(n == m) for n, m in zip(sizes, others))


def _wider(x: Tensor) -> torch.dtype | None:
    """The type in which sums are made, where it is another: a sum of booleans is true where that of numbers is not 0, and on a CPU one of 16 bits would be
    rounded with each term (of 600 rows that are added to 7 they were 1.1 units off, of 20000 two thirds were lost), which a GPU adds in float32."""
    if x.dtype == torch.bool:
        return torch.int32
    narrow = x.dtype in (torch.bfloat16, torch.float16) and x.device.type == "cpu"
    return torch.float32 if narrow and captures_for_hopper() is not True else None


def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    if (wide := _wider(x)) is not None:
        return aten.index_add.default(x.to(wide), dim, index, source.to(wide), alpha=alpha).to(x.dtype)
    if for_gpu(x) and x.dim() > 1 and dim % x.dim() and index.dim() == 1 and alpha == 1 and _has_elements(x, index):
        return put_slices(x, dim % x.dim(), index, source, True)  # (the import's table has all coordinates of each element)
    return NotImplemented


def index_put(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """``aten.index_put``: ``x`` with ``values``, as torch broadcasts them, at or added to the places of ``indices``; NotImplemented leaves it to the import."""
    if any(i is not None and any(type(n) is int and n == 0 for n in i.shape) for i in indices):
        return x.clone()  # nothing is put, which does not import
    if accumulate and (wide := _wider(x)) is not None:
        return aten.index_put.default(x.to(wide), indices, values.to(wide), True).to(x.dtype)
    if indices[0] is not None and x.dim() and all(i is None or (not i.dim() and i.dtype not in (torch.bool, torch.uint8)) for i in indices):
        rows = [i if i is None else i.reshape(1) for i in indices]  # the import wants indices in a row
        return aten.index_put.default(x, rows, values, accumulate)
    if _stand_apart(indices):
        return aten.index_put.default(x, _of_all_in_front(x, indices), values, accumulate)
    if _vary_in_several(indices):
        return aten.index_put.default(x, *_in_a_row(x, indices, values), accumulate)
    if _tells_several(x, indices, values):
        return _put_flat(x, indices, values, accumulate)
    dim = _one_row_of_places(x, indices)
    if dim is not None and (for_gpu(x) or type(indices[dim].shape[0]) is not int):  # of a number that varies ``import-scatters`` takes rows
        index = torch.where(indices[dim] < 0, indices[dim] + x.shape[dim], indices[dim])
        slices = [index.shape[0] if d == dim else n for d, n in enumerate(x.shape)]
        # A table would have a place outside, which is written to by nobody on a GPU alone.
        if type(index.shape[0]) is int and index.shape[0] == 1 and not accumulate:
            return aten.index_copy.default(x, dim, index, values.expand(slices))
        if dim:
            return put_slices(x, dim, index, values.expand(slices), accumulate)
        if list(values.shape) != slices:  # a number of rows that varies is that of the places, which torch only asks when it runs
            return aten.index_put.default(x, indices, values.expand(slices), accumulate)
    return NotImplemented


def _stand_apart(indices: list[Tensor | None]) -> bool:
    """Whether a dimension without indices is between two with: tokens' heads in a cache [batch, heads, rows, columns].  (A mask is several indices.)"""
    told = [d for d, i in enumerate(indices) if i is not None]
    return len(told) < told[-1] - told[0] + 1 and all(indices[d].dtype not in (torch.bool, torch.uint8) for d in told)


def _of_all_in_front(x: Tensor, indices: list[Tensor | None]) -> list[Tensor]:
    """Indices of every dimension up to the last that has any.  In what is put the dimensions of those that are given come first, as torch has it where they
    stand apart."""
    told = [d for d, i in enumerate(indices) if i is not None]
    others = [d for d in range(told[-1]) if indices[d] is None]
    front = []
    for d, i in enumerate(indices[: told[-1] + 1]):
        if i is None:
            i = torch.arange(x.shape[d], device=x.device).reshape([-1 if other == d else 1 for other in others])
        else:
            i = i.to(x.device).reshape(*i.shape, *[1] * len(others))
        front.append(i)
    return list(torch.broadcast_tensors(*front))


def _vary_in_several(indices: list[Tensor | None]) -> bool:
    """Whether indices have several dimensions, of which one varies or more: the import takes them for a row of the first."""
    told = [i for i in indices if i is not None]
    return all(i.dtype in (torch.int32, torch.int64) for i in told) and any(i.dim() > 1 and any(type(n) is not int for n in i.shape) for i in told)


def _in_a_row(x: Tensor, indices: list[Tensor | None], values: Tensor) -> tuple[list[Tensor | None], Tensor]:
    """The same indices, and what is put there, with one dimension in the place of those that the indices have together."""
    told = iter(torch.broadcast_tensors(*(i for i in indices if i is not None)))
    first = next(d for d, i in enumerate(indices) if i is not None)
    row = [None if i is None else next(told) for i in indices]
    lead, rest, sizes = x.shape[:first], x.shape[len(indices):], row[first].shape
    found = [None if i is None else i.reshape(-1) for i in row]
    return found, values.expand(*lead, *sizes, *rest).reshape(*lead, found[first].shape[0], *rest)


def _tells_several(x: Tensor, indices: list[Tensor | None], values: Tensor) -> bool:
    """Whether several dimensions, next to each other, have indices."""
    told = [i for i in indices if i is not None]
    plain = all(i.dtype in (torch.int32, torch.int64) and i.device == x.device for i in told)
    return len(told) > 1 and plain and _has_elements(x, *told) and values.dim() <= max(i.dim() for i in told) + x.dim() - len(told)


def _put_flat(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool) -> Tensor:
    """Put or add ``values`` with one number for each place: the import's table has all coordinates of each element, in columns that are written one by
    one, those of dimensions in front, too.  (Of 5M elements of images it was 160 MB, written by five kernels.)"""
    first = next(d for d, i in enumerate(indices) if i is not None)
    told = torch.broadcast_tensors(*indices[first:])
    end = first + len(told)
    place, inside, size = 0, True, math.prod(x.shape[first:end])
    for i, n in zip(told, x.shape[first:end]):
        i = torch.where(i < 0, i + n, i).long()
        place, inside = place * n + i, inside & (i >= 0) & (i < n)
    place = torch.where(inside, place, _outside(size)).reshape(-1)
    lead, rest = x.shape[:first], x.shape[end:]
    source = values.expand(*lead, *told[0].shape, *rest).reshape(*lead, place.numel(), *rest)
    return put_slices(x.reshape(*lead, size, *rest), first, place, source, accumulate).reshape(x.shape)


def _one_row_of_places(x: Tensor, indices: list[Tensor | None]) -> int | None:
    """The dimension whose places are told, in a row, where no other's are: tokens' in a cache."""
    told = [d for d, i in enumerate(indices) if i is not None]
    if len(told) != 1 or (i := indices[told[0]]).dim() != 1 or i.dtype in (torch.bool, torch.uint8) or i.device != x.device:
        return None
    return told[0] if _has_elements(x, i) else None


def put_slices(x: Tensor, dim: int, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """``source`` at places ``index`` of a dimension; of what is outside nothing is written.  The dimensions in front of it are rows, so that a table has
    a place for each slice of one: the import's would have all coordinates of each element."""
    flat, place, rows = flat_slices(x, dim, index, source)
    return aten.index_put.default(flat, [place], rows, accumulate).reshape(x.shape)


def flat_slices(x: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``x`` as rows, one for each place of ``dim`` in each of the slices in front of it, the row that each row of ``source`` belongs to, and these."""
    rows, size, rest = math.prod(x.shape[:dim]), x.shape[dim], x.shape[dim + 1:]
    place = torch.arange(rows, device=x.device).unsqueeze(1) * size + index
    place = torch.where((index >= 0) & (index < size), place, _outside(rows * size)).reshape(-1)
    return x.reshape(rows * size, *rest), place, source.reshape(place.numel(), *rest)


def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Sums and means.  The mean of integers is rounded down; every place counts itself with ``include_self`` or where nothing else does."""
    if reduce in (("sum", "mean") if x.is_floating_point() else ("sum", "prod", "amax", "amin")) and (wide := _wider(x)) is not None:
        return aten.scatter_reduce.two(x.to(wide), dim, index, src.to(wide), reduce, include_self=include_self).to(x.dtype)
    if reduce not in ("sum", "mean") or x.is_complex() or x.dtype == torch.bool or not x.dim() or not index.dim():
        return NotImplemented
    if for_gpu(x) and adds_rows(x, dim % x.dim(), index):
        return _reduce_rows(x, dim % x.dim(), index, src, reduce, include_self)
    if reduce == "sum":
        start = x if include_self else aten.scatter.value(x, dim, index, 0)
        return aten.scatter_add.default(start, dim, index, src)
    wide = torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype  # (in 16 bits there are no more than 256 or 2048)
    count = torch.zeros_like(x, dtype=wide).scatter_add(dim, index, torch.ones_like(index, dtype=wide))
    start = x if include_self else torch.where(count > 0, torch.zeros((), dtype=x.dtype, device=x.device), x)
    total, count = start.to(wide).scatter_add(dim, index, src.to(wide)), count + 1 if include_self else count.clamp(min=1)
    return (total / count).to(x.dtype) if x.is_floating_point() else torch.div(total, count, rounding_mode="floor")


def _reduce_rows(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    """Sums or means of rows: how many there are of each is counted once, and not for each of its elements."""
    if reduce == "sum" and include_self:
        return add_rows(x, dim, index, src)
    row = _of_rows(index, dim)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32  # (in 16 bits there are no more than 256 or 2048)
    count = aten.index_put.default(row.new_zeros(x.shape[dim], dtype=wide), [row], torch.ones_like(row, dtype=wide), True)
    count = as_dimension(count, dim, x.dim())
    start = x if include_self else torch.where(count > 0, 0, x)
    if reduce == "sum":
        return add_rows(start, dim, index, src)
    return (add_rows(start.to(wide), dim, index, src.to(wide)) / (count + include_self).clamp(min=1)).to(x.dtype)


def scatter(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    few = _is_of_one(x, dim, index) or _go_few(x, dim, index)
    return _by_comparisons(x, dim, index, src, False) if few else _by_places(x, dim, index, src, False)


def scatter_value(x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    return scatter(x, dim, index, torch.full((), value, dtype=x.dtype, device=x.device).expand(index.shape))


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``aten.scatter_add``: ``x`` with each element of ``src`` added where ``index``, of its rank, says along ``dim``; NotImplemented leaves it to torch."""
    if _is_of_one(x, dim, index):
        return x + _compared(x, dim, index, src)
    if (wide := _wider(x)) is not None:
        return aten.scatter_add.default(x.to(wide), dim, index, src.to(wide)).to(x.dtype)
    if _go_few(x, dim, index):
        return _by_comparisons(x, dim, index, src, True)
    if for_gpu(x) and x.dim() and adds_rows(x, dim % x.dim(), index):
        return add_rows(x, dim % x.dim(), index, src)
    if for_gpu(x) and x.dim() and _is_slow(x, dim % x.dim(), index):
        return NotImplemented  # which leaves it to torch (``library_faster``)
    return _by_places(x, dim, index, src, True)


def _is_of_one(x: Tensor, dim: int, index: Tensor) -> bool:
    """Whether each row has one index, as the gradient of what ``gather`` takes from rows has it."""
    if x.dim() < 2 or x.dim() != index.dim() or x.dtype == torch.bool:
        return False
    return _equal(index.shape, [1 if d == dim % x.dim() else n for d, n in enumerate(x.shape)])


def _compared(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``src`` where a place is the row's index, and 0: an elementwise operation, which is part of what reads it.

    The scatter is a pass over zeros to write them, and one to read them again: of the logarithms of 4096 words' probabilities in 128256, two of 1 GB each."""
    places = as_dimension(torch.arange(x.shape[dim], device=x.device), dim % x.dim(), x.dim())
    return torch.where(places == index, _first(src, index), torch.zeros((), dtype=x.dtype, device=x.device))


def _go_few(x: Tensor, dim: int, index: Tensor) -> bool:
    """Whether so few elements go to each row, as a router's experts, that a GPU compares each place with all of theirs."""
    if not x.dim() or x.dim() != index.dim() or not for_gpu(x) or not all(isinstance(n, int) for t in (x, index) for n in t.shape):
        return False
    count, others = index.shape[dim], [d for d in range(x.dim()) if d != dim % x.dim()]
    near = x.numel() <= _REWRITTEN or x.shape[dim] <= _PLACES * count
    return 0 < count <= _COMPARED and near and x.numel() * count <= _COMPARISONS and all(index.shape[d] == x.shape[d] for d in others)


def _by_comparisons(x: Tensor, dim: int, index: Tensor, src: Tensor, accumulate: bool) -> Tensor:
    """The last one stays of several: an elementwise operation, which is part of what reads it, and is the same run after run."""
    places, src = as_dimension(torch.arange(x.shape[dim], device=x.device), dim % x.dim(), x.dim()), _first(src, index)
    found = x.to(torch.float32) if accumulate and x.dtype in (torch.bfloat16, torch.float16) else x
    for i in range(index.shape[dim]):
        part = src.narrow(dim, i, 1)
        found = torch.where(places == index.narrow(dim, i, 1), found + part if accumulate else part, found)
    return found.to(x.dtype)


def adds_rows(x: Tensor, dim: int, index: Tensor) -> bool:
    """Whether one index stands for each row, as graphs' edges have it: rows are added, and not their elements one by one."""
    if not x.is_floating_point() or not _has_elements(x, index) or not _is_of_rows(x, dim, index):
        return False
    rows, columns, count = (example(math.prod(n)) for n in (x.shape[: dim + 1], x.shape[dim + 1:], index.shape))
    return worthwhile_sums(rows, columns, count // max(1, columns), x.dtype.itemsize)


def _is_of_rows(x: Tensor, dim: int, index: Tensor) -> bool:
    """Whether an index of ``scatter_add`` is the same all over each slice along ``dim``."""
    others = [d for d in range(x.dim()) if d != dim]
    same = all(any(type(n) is int and n == m for n, m in ((index.stride(d), 0), (index.shape[d], 1))) for d in others)
    return same and _equal([index.shape[d] for d in others], [x.shape[d] for d in others])


def add_rows(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """The same with one index for each."""
    return put_slices(x, dim, _of_rows(index, dim), _first(src, index), True)


def placed_rows(x: Tensor, dim: int, index: Tensor, src: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """What ``flat_slices`` tells where one index stands for each row; None where it does not, or rows are single elements."""
    if not x.dim() or x.shape[dim + 1:] == () or not _has_elements(x, index) or not _is_of_rows(x, dim, index):
        return None
    return flat_slices(x, dim, _of_rows(index, dim), _first(src, index))


def _of_rows(index: Tensor, dim: int) -> Tensor:
    """The one index of each row."""
    return index[tuple(slice(None) if d == dim else 0 for d in range(index.dim()))]


def _is_slow(x: Tensor, dim: int, index: Tensor) -> bool:
    """Whether many floats are added up across memory, and not in rows in shared memory: of 33.5M in float32 ours took 1.75 ms, torch's 1.64, in bf16 1.84
    and 1.2."""
    if not all(isinstance(n, int) for t in (x, index) for n in t.shape) or math.prod(x.shape[dim + 1:]) == 1 or not x.is_floating_point():
        return False
    return adds_faster(index.numel(), x.numel(), x.dtype.itemsize) and not have_rows(x, dim, index)


def have_rows(x: Tensor, dim: int, index: Tensor) -> bool:
    """Whether elements go to rows that have room in shared memory, and there are enough of both."""
    outer, inner = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1:])
    in_rows = index.shape[dim + 1:] == x.shape[dim + 1:] and index.shape[1:dim] == x.shape[1:dim]
    columns = side_by_side(outer, x.shape[dim], inner, max(4, x.dtype.itemsize), x.dtype.itemsize) if in_rows else None
    return columns is not None and worthwhile(outer, math.prod(index.shape[:dim]), x.shape[dim], index.shape[dim], inner, columns)


def _by_places(x: Tensor, dim: int, index: Tensor, src: Tensor, accumulate: bool) -> Tensor:
    """One number for each place, instead of a table with as many columns as there are dimensions."""
    placed = placed_elements(x, dim, index, src)
    if placed is None:
        return NotImplemented
    place, part = placed
    return aten.index_put.default(x.reshape(-1), [place], part, accumulate).reshape(x.shape)


def placed_elements(x: Tensor, dim: int, index: Tensor, src: Tensor) -> tuple[Tensor, Tensor] | None:
    """The place of each element, as a number that counts through those of ``x``, and the elements; None where it is not known which of ``src`` they are."""
    if not x.dim() or not _has_elements(index) or not (_equal(index.shape, src.shape) or all(isinstance(n, int) for t in (index, src) for n in t.shape)):
        return None
    dim, strides = dim % x.dim(), [math.prod(x.shape[d + 1:]) for d in range(x.dim())]
    place = index * strides[dim]
    for d, n in enumerate(index.shape):
        if d != dim and not (type(n) is int and n == 1):
            place = place + as_dimension(torch.arange(n, device=x.device) * strides[d], d, x.dim())
    place = torch.where((index >= 0) & (index < x.shape[dim]), place, _outside(x.numel()))
    return place.reshape(-1), _first(src, index).reshape(-1)


def _first(src: Tensor, index: Tensor) -> Tensor:
    """As many elements of ``src`` as ``index`` has, along each dimension."""
    return src if _equal(index.shape, src.shape) else src[tuple(slice(0, n) for n in index.shape)]


def embedding_dense_backward(grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    """Rows that are added to a table of zeros in their own type, where each row of it adds up its own: in torch's the table is float32 and then rounded."""
    if (wide := _wider(grad)) is not None:
        return aten.embedding_dense_backward.default(grad.to(wide), indices, num_weights, padding_idx, scale_grad_by_freq).to(grad.dtype)
    columns, count = grad.shape[-1], indices.numel()
    known = all(isinstance(n, int) for n in (*grad.shape, *indices.shape, num_weights))
    if not for_gpu(grad) or scale_grad_by_freq or not known or not grad.is_floating_point():
        return NotImplemented
    width, lanes = grad.dtype.itemsize, math.gcd(columns, 16 // grad.dtype.itemsize)
    ordered = worthwhile_order(num_weights, columns, count, width, lanes, begins=False)
    if not ordered and not (settings().unmeasured and columns and worthwhile_sums(num_weights, columns, count, width)):
        return NotImplemented
    places, rows = indices.reshape(-1), grad.reshape(count, columns)
    rows = rows if padding_idx < 0 else torch.where((places == padding_idx).unsqueeze(1), 0, rows)
    return aten.index_put.default(rows.new_zeros(num_weights, columns), [places], rows, True)


TABLE = {
    aten.embedding_dense_backward.default: embedding_dense_backward,
    aten.index_add.default: index_add,
    aten.scatter_add.default: scatter_add,
    aten.scatter.src: scatter,
    aten.scatter.value: scatter_value,
    aten.index_put.default: index_put,
    aten._unsafe_index_put.default: index_put,
    aten.scatter_reduce.two: scatter_reduce,
}
