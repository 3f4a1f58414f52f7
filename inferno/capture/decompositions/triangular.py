"""Systems of triangular matrices by products of blocks: ``linalg.solve_triangular`` has no lowering, and substitution row by row is a launch for each row."""

import torch
import torch.nn.functional as F
from torch import Tensor

from inferno.powers import next_power_of_two

aten = torch.ops.aten
_MOST = 128  # rows; more are few launches of the library's, which are near its products' rate
_BLOCK = 32  # rows that are solved by the inverse of their block: what it loses is that of a small block, as in libraries
_SMALL = 16  # rows of the blocks whose inverses are made as a whole


def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """``x`` of ``a @ x = b``, or of ``x @ a = b``.  Of ones on the diagonal alone: others' inverses may be far larger than what is solved for, and lose
    digits (random ones of 48 rows three times what substitution does)."""
    rows = a.shape[-1]
    if not unitriangular or a.dtype not in (torch.float32, torch.float64) or not isinstance(rows, int) or not 0 < rows <= _MOST:
        return NotImplemented
    if not left:
        return solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=True).mT
    if upper:
        return solve_triangular(a.flip(-1, -2), b.flip(-2), upper=False, unitriangular=True).flip(-2)
    size = min(_BLOCK, next_power_of_two(rows))
    count = -(-rows // size)
    inverses = inverse_of_unit_lower(_blocks(_padded(a, count * size), size))
    found: list[Tensor] = []
    for i in range(count):
        first, last = i * size, min(rows, i * size + size)
        right = b[..., first:last, :]
        if found:
            right = right - _product(a[..., first:last, :first], torch.cat(found, -2))
        found.append(_product(inverses[..., i, : last - first, : last - first], right))
    return torch.cat(found, -2)


def inverse_of_unit_lower(a: Tensor) -> Tensor:
    """The inverses of matrices with ones on the diagonal and zeros above it; what ``a`` holds there is not read.

    That of ``[[p, 0], [q, r]]`` has ``-r^-1 q p^-1`` for q: from the inverses of blocks follow those of blocks of twice the size.
    """
    rows = a.shape[-1]
    whole = next_power_of_two(rows)
    a = _padded(a, whole)
    size = min(whole, _SMALL)
    inverse = _inverses_as_a_whole(_blocks(a, size))
    while size < whole:
        below = _blocks(a, 2 * size)[..., size:, :size]
        first, second = inverse.unflatten(-3, (-1, 2)).unbind(-3)
        below = -_product(_product(second, below), first)
        inverse = torch.cat([torch.cat([first, torch.zeros_like(first)], -1), torch.cat([below, second], -1)], -2)
        size *= 2
    return inverse.squeeze(-3)[..., :rows, :rows]


def _inverses_as_a_whole(a: Tensor) -> Tensor:
    """The same of small matrices, where blocks of a few elements would be a launch for each thing that is done with them: all but a step's blocks is masked."""
    rows = a.shape[-1]
    at = torch.arange(rows, device=a.device)
    row, column = at.unsqueeze(-1), at
    identity = (row == column).to(a.dtype)
    inverse, size = identity, 1
    while size < rows:
        within = (row // (2 * size) == column // (2 * size)) & (row % (2 * size) >= size) & (column % (2 * size) < size)
        below = torch.where(within, a, 0)
        inverse = identity - below if size == 1 else inverse - _product(_product(inverse, below), inverse)
        size *= 2
    return inverse.expand(a.shape)


def _padded(a: Tensor, rows: int) -> Tensor:
    missing = rows - a.shape[-1]
    return F.pad(a, (0, missing, 0, missing)) if missing else a


def _blocks(a: Tensor, size: int) -> Tensor:
    """The blocks along the diagonal, ``[..., rows / size, size, size]``."""
    count = a.shape[-1] // size
    if count == 1:
        return a.unsqueeze(-3)
    return a.unflatten(-1, (count, size)).unflatten(-3, (count, size)).diagonal(0, -4, -2).movedim(-1, -3)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b`` as the sum that substitution adds up, which is never rounded to TF32 (``sums_of_products.py`` makes a product of it where none is)."""
    return a @ b if a.dtype == torch.float64 else (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)


TABLE = {aten.linalg_solve_triangular.default: solve_triangular}
