"""Small Fourier transforms as a few sums of products with tables, for a GPU.

A length N = N1 N2 ... is transformed along one factor after the other (Cooley and Tukey, 1965): the sum over n1 is one of N1 terms for each k1, that over
n2 of N2 terms for each k2, and so on.  What turns the numbers between two sums is in the table of the second: that of factor s is
exp(-2 pi i n (K + P k) / (P N_s)), where P is the product of the factors before and K < P the frequency as far as they tell it.  So each number is rounded
once a factor, and with few terms a sum is as exact as a fast transform's; sums of all N terms at once are not.  A table is put together once, and kept.

A real signal has no imaginary part in the first sum, and real results have none in the last.
"""

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from inferno.capture.devices import for_gpu
from inferno.capture.dimensions import as_dimension
from inferno.tf32 import takes_tf32

aten = torch.ops.aten

# Terms of a sum: of random complex numbers in float32 the error of 20 x 20 is 1.5e-7, of 8 x 8 x 8 1.1e-7 (a library's 1.1e-7); of 30 alone it is 1.5e-7
# (0.9e-7), of 32 x 16 1.8e-7, and of a sum of 512 terms 2.4e-7.  And of lengths up to so many, whose error in a library is less.
_TERMS, _FEW, _SHORT = 20, 8, 64
_PRIMES = (2, 3, 5, 7, 11, 13)
# Real numbers up to which this is done, for the segments that it saves: a call of torch's library between two of them takes the CPU as long as all else.  Of
# 64x64 a spectrum took an H200 3.9 us and 2.9 by the library, a call 26 and 31, a filter (there and back) 9.2 and 8.2, 29 and 57; of 64x256 4.0 and 3.0, 13.8
# and 8.9; of 256x1024 15 and 4.1, 32 and 12, of 1024x1024 40 and 7, 54 and 20.
_MOST = 1 << 12

_Parts = tuple[Tensor, Tensor | None]  # real and imaginary ones; real numbers have none of the latter


def factors(length: int) -> list[int] | None:
    """As few factors as there can be, of few terms, and of these the fewest; None where a prime is too large."""
    limit, left = _FEW if length <= _SHORT else _TERMS, length
    for prime in _PRIMES:
        while left % prime == 0:
            left //= prime
    if left > 1:
        return None
    found: dict[int, list[tuple[int, ...]]] = {1: [()]}  # of each divisor, ways of descending factors

    def split(rest: int) -> list[tuple[int, ...]]:
        if rest not in found:
            ways = [(n, *way) for n in range(2, min(rest, _TERMS) + 1) if rest % n == 0 for way in split(rest // n) if not way or way[0] <= n]
            found[rest] = ways
        return found[rest]

    return list(min(split(length), key=lambda way: (bool(way) and way[0] > limit, len(way), sum(way))))


def _table(parts: Sequence[int], number: int, forward: bool, scale: float, count: int, like: Tensor) -> Tensor:
    """[P, frequencies, 2, 2, terms] of a factor: what goes to each part of the ``count`` first sums from each part of a number."""
    before, size, device = math.prod(parts[:number]), parts[number], like.device
    known, step = torch.zeros(1, dtype=torch.int64, device=device), 1
    for part in parts[:number]:  # frequencies as far as they are known, in the order that sums lie in: the last digit changes first
        known = (known.unsqueeze(-1) + torch.arange(part, device=device) * step).reshape(-1)
        step *= part
    frequency, term = torch.arange(count, device=device).reshape(1, -1, 1), torch.arange(size, device=device)
    turn = (term * (known.reshape(-1, 1, 1) + before * frequency)) % (before * size)  # whole numbers: of exact places on the circle
    angle = turn.to(torch.float64) * ((-2 if forward else 2) * math.pi / (before * size))
    real, imaginary = torch.cos(angle) * scale, torch.sin(angle) * scale
    rows = torch.stack([real, -imaginary], -2), torch.stack([imaginary, real], -2)
    return torch.stack(rows, 2).to(like.dtype)


def _transform(x: _Parts, dim: int, forward: bool, scale: float, count: int | None = None, to_real: bool = False) -> _Parts:
    """The first ``count`` frequencies along ``dim``, or all of them, of which results that are real have no second part.

    Between two sums a part's numbers lie side by side, so that each sum is a product with the table from the left."""
    shape, real = list(x[0].shape), x[1] is None
    lead, length, behind = shape[:dim], shape[dim], shape[dim + 1:]
    rows, rest = math.prod(lead), math.prod(behind)
    parts = factors(length) or [1]
    # [rows, what is known of frequencies, parts, terms of this factor and of those behind it]
    found, known = torch.stack([p.reshape(rows, 1, length * rest) for p in x if p is not None], 2), 1
    for number, size in enumerate(parts):
        last = number == len(parts) - 1
        wanted = size if count is None or not last else min(size, (count - 1) // known + 1)
        table = _table(parts, number, forward, scale if last else 1.0, wanted, x[0])
        table = table[:, :, :, :1] if real and not number else table
        table = (table[:, :, :1] if last and to_real else table).flatten(3).flatten(1, 2)  # [known, sums, terms]
        sums = _sums(table, found.reshape(rows, known, table.shape[2], -1))
        known *= wanted
        found = sums.reshape(rows, known, 1 if last and to_real else 2, -1)
    # Where each frequency lies: its first digit changes last.  (A sum, and no expression of places, which each reader would compute again.)
    frequency, digits = torch.arange(length if count is None else count, device=x[0].device), [*parts[:-1], known // math.prod(parts[:-1])]
    steps = itertools.accumulate([1, *parts[:-1]], operator.mul)
    place = torch.stack([frequency // step % digit * math.prod(digits[n + 1:]) for n, (step, digit) in enumerate(zip(steps, digits))]).sum(0)
    result = [*lead, frequency.numel(), *behind]
    ordered = [torch.index_select(found[:, :, n], 1, place).reshape(result) for n in range(found.shape[2])]
    return ordered[0], ordered[1] if len(ordered) > 1 else None


def _sums(table: Tensor, terms: Tensor) -> Tensor:
    """[rows, known, sums, what is behind]: products with a table [known, sums, terms], which are not rounded to TF32 where products of matrices may be."""
    if takes_tf32():
        return (terms.unsqueeze(2) * table.unsqueeze(-1)).sum(3)
    return torch.matmul(table, terms)


def _takes(x: Tensor, dims: Sequence[int], lengths: Sequence[int]) -> bool:
    known = all(type(n) is int and n for n in (*x.shape, *lengths))
    if not known or not dims or not for_gpu(x) or x.dtype not in (torch.float32, torch.complex64):
        return False
    return math.prod(x.shape) * (2 if x.is_complex() else 1) <= _MOST and all(factors(n) is not None for n in lengths)


def _scale(normalization: int, length: int) -> float:
    """ATen's numbers: nothing, by the root of the number of elements, by their number."""
    return (1.0, length ** -0.5, 1 / length)[normalization]


def _in_parts(x: Tensor) -> _Parts:
    pairs = torch.view_as_real(x.resolve_conj())
    return pairs.select(-1, 0), pairs.select(-1, 1)


def _complex_to_complex(x: Tensor, dim: list[int], normalization: int, forward: bool) -> Tensor:
    dims = [d % x.dim() for d in dim]
    lengths = [x.shape[d] for d in dims]
    if not _takes(x, dims, lengths):
        return NotImplemented
    found = _in_parts(x)
    for d, n in zip(reversed(dims), reversed(lengths)):
        found = _transform(found, d, forward, _scale(normalization, n))
    return torch.complex(*found)


def _real_to_complex(x: Tensor, dim: list[int], normalization: int, onesided: bool) -> Tensor:
    dims = [d % x.dim() for d in dim]
    lengths = [x.shape[d] for d in dims]
    if not _takes(x, dims, lengths):
        return NotImplemented
    last = lengths[-1]
    found = _transform((x, None), dims[-1], True, _scale(normalization, last), last // 2 + 1 if onesided else None)
    for d, n in zip(reversed(dims[:-1]), reversed(lengths[:-1])):
        found = _transform(found, d, True, _scale(normalization, n))
    return torch.complex(*found)


def _complex_to_real(x: Tensor, dim: list[int], normalization: int, last_dim_size: int) -> Tensor:
    dims = [d % x.dim() for d in dim]
    lengths = [*(x.shape[d] for d in dims[:-1]), last_dim_size]
    if not _takes(x, dims, lengths) or x.shape[dims[-1]] < last_dim_size // 2 + 1:
        return NotImplemented
    found = _in_parts(x)
    for d, n in zip(reversed(dims[:-1]), reversed(lengths[:-1])):
        found = _transform(found, d, False, _scale(normalization, n))
    # The second half of what a real signal's transform is, is the first half's conjugate.
    number = torch.arange(last_dim_size, device=x.device)
    mirrored = number > last_dim_size // 2
    place = torch.where(mirrored, last_dim_size - number, number)
    first, second = (torch.index_select(p, dims[-1], place) for p in found)
    second = torch.where(as_dimension(mirrored, dims[-1], x.dim()), -second, second)
    return _transform((first, second), dims[-1], False, _scale(normalization, last_dim_size), to_real=True)[0].contiguous()


def _resized(x: Tensor, dim: int, length: int | None) -> Tensor:
    """The first elements along a dimension, or zeros behind all of them."""
    if length is None or length == x.shape[dim]:
        return x
    if length < x.shape[dim]:
        return x.narrow(dim, 0, length)
    shape = list(x.shape)
    shape[dim] = length - x.shape[dim]
    return torch.cat([x, x.new_zeros(shape)], dim)


def _mode(norm: str | None, forward: bool) -> int:
    """ATen's number of a normalization by name."""
    return {"ortho": 1, "forward": 2 if forward else 0}.get(norm, 0 if forward else 2)


def _spelled(kind: str, forward: bool, x: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None) -> Tensor:
    """What torch makes of an operation that export keeps; ``s``: lengths along ``dim``, or along the last dimensions."""
    if not for_gpu(x) or not (x.is_floating_point() or x.is_complex()) or (x.is_complex() and kind == "r2c"):
        return NotImplemented
    if dim is None:
        dim = range(x.dim()) if s is None else range(x.dim() - len(s), x.dim())
    dims = [d % x.dim() for d in dim]
    sizes = [None] * len(dims) if s is None else [None if n == -1 else n for n in s]
    if not dims or len(sizes) != len(dims) or len(set(dims)) != len(dims) or not all(isinstance(n, int | None) for n in sizes):
        return NotImplemented
    length = sizes[-1] or 2 * (x.shape[dims[-1]] - 1)
    if kind == "c2r":
        sizes[-1] = length // 2 + 1
    for d, n in zip(dims, sizes):
        x = _resized(x, d, n)
    mode = _mode(norm, forward)
    if kind == "c2r":
        x = x if x.is_complex() else torch.complex(x, torch.zeros_like(x))
        return aten._fft_c2r.default(x.conj() if forward else x, dims, mode, length)
    if x.is_complex():
        return aten._fft_c2c.default(x, dims, mode, forward)
    if kind == "r2c" and len(dims) > 1 and not forward:  # whose other dimensions are transformed backwards, too
        found = aten._fft_r2c.default(x, dims[-1:], mode, True).conj()
        return aten._fft_c2c.default(found, dims[:-1], mode, False)
    found = aten._fft_r2c.default(x, dims, mode, kind == "r2c")
    return found if forward else found.conj()


def _form(kind: str, forward: bool, rank: str) -> Callable:
    """The operation along one dimension, along the last two unless others are told, or along any."""
    def one(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        return _spelled(kind, forward, x, None if n is None else [n], [dim], norm)

    def two(x: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
        return _spelled(kind, forward, x, s, dim, norm)

    def any_(x: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
        return _spelled(kind, forward, x, s, dim, norm)

    return {"": one, "2": two, "n": any_}[rank]


def _shifted(back: bool) -> Callable:
    """Halves exchanged, so that the frequency zero is in the middle, or where it was."""
    def decomposition(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
        dims = list(range(x.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
        return torch.roll(x, [(x.shape[d] + back) // 2 for d in dims], dims)

    return decomposition


TABLE: dict[Any, Callable] = {
    aten.fft_fftshift.default: _shifted(False), aten.fft_ifftshift.default: _shifted(True),
    aten._fft_c2c.default: _complex_to_complex, aten._fft_r2c.default: _real_to_complex, aten._fft_c2r.default: _complex_to_real,
}
for _name, _kind, _forward in (
    ("fft", "c2c", True), ("ifft", "c2c", False), ("rfft", "r2c", True), ("ihfft", "r2c", False), ("irfft", "c2r", False), ("hfft", "c2r", True),
):
    TABLE.update({getattr(aten, f"fft_{_name}{_rank}").default: _form(_kind, _forward, _rank) for _rank in ("", "2", "n")})
