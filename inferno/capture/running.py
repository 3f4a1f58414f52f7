"""``inferno::running(x, dim, kind)``: what the elements up to each one come to along a dimension, for kinds of combinations that no operation of
torch's is imported for; and ``inferno::recurrence(a, b, dim)``: h = a * h + b along a dimension, for float32, where h is b at first.  Decompositions
make them; ``import-scans`` makes scans of them.
"""

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("inferno", "DEF")
_LIBRARY.define("running(Tensor x, int dim, str kind) -> Tensor")
_LIBRARY.define("recurrence(Tensor a, Tensor b, int dim) -> Tensor")


def _running(x: Tensor, dim: int, kind: str) -> Tensor:
    """What the operation is, by operations of torch's."""
    found = {
        "max": lambda: x.cummax(dim)[0], "min": lambda: x.cummin(dim)[0], "mul": lambda: x.cumprod(dim, dtype=x.dtype),
        "logaddexp": lambda: x.logcumsumexp(dim),
    }[kind]()
    return found.contiguous()


def _recurrence(a: Tensor, b: Tensor, dim: int) -> Tensor:
    found = b.clone(memory_format=torch.contiguous_format)
    for i in range(1, b.shape[dim]):
        found.select(dim, i).addcmul_(a.select(dim, i), found.select(dim, i - 1))
    return found


def _shape(x: Tensor, *_: object) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


_LIBRARY.impl("running", _running, "CPU")
_LIBRARY.impl("running", _running, "CUDA")
_LIBRARY.impl("running", _shape, "Meta")
_LIBRARY.impl("recurrence", _recurrence, "CPU")
_LIBRARY.impl("recurrence", _recurrence, "CUDA")
_LIBRARY.impl("recurrence", _shape, "Meta")

running = torch.ops.inferno.running.default
recurrence = torch.ops.inferno.recurrence.default
OPERATIONS = (running, recurrence)
