"""Determinants, inverses and systems of matrices of few rows, element by element: elimination with the largest pivot of a column, as libraries do it.

Each element of the matrices is a tensor, as long as there are matrices, so that all of it is one elementwise operation.  Float32 is computed in float64, in
which no order of the operations counts.
"""

import torch
from torch import Tensor

from inferno.capture.devices import for_gpu

aten = torch.ops.aten
_MOST = 4  # rows: poses, cameras, covariances; of more, libraries are the faster ones, and the elements are many

Matrix = list[list[Tensor]]


def are_small(x: Tensor) -> bool:
    """Whether matrices are not left to libraries, as on a CPU, where each loop would be a kernel of its own."""
    rows, known = x.shape[-1], [n for n in x.shape if isinstance(n, int)]
    return x.dtype in (torch.float32, torch.float64) and isinstance(rows, int) and 0 < rows <= _MOST and 0 not in known and for_gpu(x)


def _elements(x: Tensor) -> Matrix:
    """[row][column]"""
    rows = range(x.shape[-1])
    return [[x.select(-2, i).select(-1, j).to(torch.float64) for j in rows] for i in rows]


def _together(a: Matrix, dtype: torch.dtype) -> Tensor:
    return torch.stack([torch.stack(row, -1) for row in a], -2).to(dtype)


def _eliminated(a: Matrix, beside: Matrix) -> tuple[Matrix, Matrix, list[Tensor]]:
    """``a`` with the multipliers below its diagonal and what is left above, after LAPACK's getrf, the same done to the rows ``beside`` it, and the row that
    each one changed places with."""
    a, beside, count, pivots = [list(r) for r in a], [list(r) for r in beside], len(a), []
    for k in range(count):
        size, place = a[k][k].abs(), torch.full_like(a[k][k], k, dtype=torch.int32)
        for i in range(k + 1, count):
            larger = a[i][k].abs() > size
            size, place = torch.where(larger, a[i][k].abs(), size), torch.where(larger, i, place)
        pivots.append(place)
        for i in range(k + 1, count):
            here = place == i
            for rows in (a, beside):
                pairs = [(torch.where(here, q, p), torch.where(here, p, q)) for p, q in zip(rows[k], rows[i])]
                rows[k], rows[i] = [p for p, _ in pairs], [q for _, q in pairs]
        for i in range(k + 1, count):
            factor = torch.where(a[k][k] == 0, a[i][k], a[i][k] / a[k][k])
            a[i] = [*a[i][:k], factor, *(q - factor * p for p, q in zip(a[k][k + 1:], a[i][k + 1:]))]
            beside[i] = [q - factor * p for p, q in zip(beside[k], beside[i])]
    return a, beside, pivots


def det(x: Tensor) -> tuple[Tensor]:
    left, sign = _factored(x)
    for k, row in enumerate(left):
        sign = sign * row[k]
    return (sign.to(x.dtype),)


def slogdet(x: Tensor) -> tuple[Tensor, Tensor]:
    left, sign = _factored(x)
    logarithm = torch.zeros_like(sign)
    for k, row in enumerate(left):
        sign, logarithm = sign * torch.sign(row[k]), logarithm + torch.log(row[k].abs())
    return sign.to(x.dtype), logarithm.to(x.dtype)


def _factored(x: Tensor) -> tuple[Matrix, Tensor]:
    """The elements after elimination, and the sign of the rows' order."""
    left, _, pivots = _eliminated(_elements(x), [[] for _ in range(x.shape[-1])])
    sign = torch.ones_like(left[0][0])
    for k, place in enumerate(pivots):
        sign = torch.where(place == k, sign, -sign)
    return left, sign


def inv_ex(x: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """``info`` tells of a matrix that has none, which the caller checks."""
    if check_errors or not are_small(x):
        return NotImplemented
    a = _elements(x)
    one, zero = torch.ones_like(a[0][0]), torch.zeros_like(a[0][0])
    inverse, info = _substituted(a, [[one if i == j else zero for j in range(len(a))] for i in range(len(a))])
    return _together(inverse, x.dtype), info


def _substituted(a: Matrix, right: Matrix) -> tuple[Matrix, Tensor]:
    """What ``a`` makes ``right`` of, from the last row on; and the first pivot that is 0, from 1 on, else 0."""
    left, right, _ = _eliminated(a, right)
    info = torch.zeros_like(left[0][0], dtype=torch.int32)
    for k in reversed(range(len(a))):
        for i in range(k + 1, len(a)):
            right[k] = [p - left[k][i] * q for p, q in zip(right[k], right[i])]
        right[k] = [p / left[k][k] for p in right[k]]
        info = torch.where(left[k][k] == 0, k + 1, info)
    return right, info


def solve_ex(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """``z`` of ``x @ z = y``, rows of any length or, as torch tells them, vectors, and ``info`` as of an inverse."""
    vectors = y.dim() == 1 or y.shape == x.shape[:-1]
    right = [[y.select(-1 if vectors else -2, i).to(torch.float64)] for i in range(x.shape[-1])]
    a = [[e if vectors else e.unsqueeze(-1) for e in row] for row in _elements(x)]
    found, info = _substituted(a, right)
    made = torch.stack([row[0] for row in found], -1 if vectors else -2).to(x.dtype)
    return made, info if vectors else info.squeeze(-1)


TABLE = {aten.linalg_inv_ex.default: inv_ex}
