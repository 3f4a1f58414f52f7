"""``inferno::reduce_rows(x, places, rows, kind)``: ``x`` of integers whose row ``places[i]`` is the elementwise maximum or minimum of itself and ``rows[i]``,
for each i; rows whose place is out of range are left out.  Torch's own operation, ``scatter_reduce``, has an index for each element.
Decompositions make it; ``import-row-extremes`` makes a scatter of rows of it.
"""

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("inferno", "FRAGMENT")
_LIBRARY.define("reduce_rows(Tensor x, Tensor places, Tensor rows, str kind) -> Tensor")


def _reduce_rows(x: Tensor, places: Tensor, rows: Tensor, kind: str) -> Tensor:
    there = (places >= 0) & (places < x.shape[0])
    return x.clone(memory_format=torch.contiguous_format).index_reduce_(0, places[there], rows[there], kind)


def _shape(x: Tensor, *_: object) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


_LIBRARY.impl("reduce_rows", _reduce_rows, "CPU")
_LIBRARY.impl("reduce_rows", _reduce_rows, "CUDA")
_LIBRARY.impl("reduce_rows", _shape, "Meta")

reduce_rows = torch.ops.inferno.reduce_rows.default
