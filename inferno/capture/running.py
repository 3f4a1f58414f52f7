"""``inferno::running(x, dim, kind)``: what the elements up to each one come to along a dimension, for kinds of combinations that no operation of
torch's is imported for.  Decompositions make it; ``import-scans`` makes a scan of it.
"""

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("inferno", "DEF")
_LIBRARY.define("running(Tensor x, int dim, str kind) -> Tensor")


def _running(x: Tensor, dim: int, kind: str) -> Tensor:
    """What the operation is, by operations of torch's."""
    found = {
        "max": lambda: x.cummax(dim)[0], "min": lambda: x.cummin(dim)[0], "mul": lambda: x.cumprod(dim, dtype=x.dtype),
        "logaddexp": lambda: x.logcumsumexp(dim),
    }[kind]()
    return found.contiguous()


def _shape(x: Tensor, dim: int, kind: str) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


_LIBRARY.impl("running", _running, "CPU")
_LIBRARY.impl("running", _running, "CUDA")
_LIBRARY.impl("running", _shape, "Meta")

running = torch.ops.inferno.running.default
