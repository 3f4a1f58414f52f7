"""Matmuls of consecutive groups of rows, each with a matrix of its own: experts of a mixture."""

from typing import Any

import torch
from torch import Tensor

from inferno.capture.library_grouped import is_faster, is_grouped, is_known, targets


def grouped_mm(rows: Tensor, matrices: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: torch.dtype | None = None) -> Tensor:
    """Row s of the result, [rows, columns], is row s times the matrix of the group that s is in; ``offs`` are the groups' ends.

    The operation stays where torch's library is faster.
    """
    if not is_known(rows, matrices, offs, bias, out_dtype) or is_faster(rows, matrices):
        return NotImplemented
    return every_product(rows, matrices, offs)


def every_product(rows: Tensor, matrices: Tensor, offs: Tensor, *_: Any, **__: Any) -> Tensor:
    """How many rows a group has depends on the data, and the graph's shapes do not: so every matrix meets every row and the
    right product is selected, or, where rows are few, each row's matrix is gathered.  Rows behind the last group are 0.
    """
    count, groups = rows.shape[0], matrices.shape[0]
    number = torch.arange(count, device=rows.device, dtype=offs.dtype).unsqueeze(-1)
    group = (offs <= number).sum(-1)
    place = group.clamp(max=groups - 1)
    if 3 * count <= groups and not is_grouped(rows, matrices):  # a gathered matrix is read twice and written once, all the matrices are read once
        product = torch.bmm(rows.unsqueeze(1), matrices.index_select(0, place)).squeeze(1)
    else:
        every = torch.bmm(rows.unsqueeze(0).expand(groups, *rows.shape), matrices)
        product = every.gather(0, place.view(1, count, 1).expand(1, count, every.shape[-1])).squeeze(0)
    return torch.where((group < groups).unsqueeze(-1), product, 0)


def table() -> dict[Any, Any]:
    """With the operators of libraries that are loaded at this time."""
    return dict.fromkeys(targets(), grouped_mm)
