"""``x[i] = y`` where a tensor of one number says the place, as a step of a ring buffer does (``buffer[count % n] = x``).

Eager reads the number and writes to that part.  A trace has no number to read, and a program for the number that the example has is right for one call: so it
is a put at places that a tensor holds, of which there is one.
"""

from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)  # bytes are masks


def put_at(x: Tensor, key: Any, value: Any) -> Any:
    """None, when it is written; NotImplemented for other keys than one such tensor beside slices, integers, None and ``...``, and for a number that is
    known while tracing."""
    entries = list(key) if isinstance(key, tuple) else [key]
    places = [n for n, entry in enumerate(entries) if isinstance(entry, Tensor)]
    if len(places) != 1 or not all(isinstance(e, Tensor) or e is None or e is Ellipsis or type(e) in (int, slice) for e in entries):
        return NotImplemented
    place, index = places[0], entries[places[0]]
    if index.dim() or index.dtype not in INTEGERS or is_told(index):
        return NotImplemented
    counted = sum(e is not None and e is not Ellipsis for e in entries)
    dim = sum(x.dim() - counted if e is Ellipsis else type(e) is not int for e in entries[:place])
    entries[place] = slice(None)
    part = x[tuple(entries)]
    wanted = [*part.shape[:dim], *part.shape[dim + 1:]]
    value = value.to(device=part.device, dtype=part.dtype) if isinstance(value, Tensor) else torch.full((), value, dtype=part.dtype, device=part.device)
    while value.dim() > len(wanted) and value.shape[0] == 1:
        value = value[0]
    part[(*[slice(None)] * dim, index.reshape(1).long())] = value.expand(wanted).unsqueeze(dim)
    return None


def is_told(index: Tensor) -> bool:
    """Whether the trace knows its number."""
    if isinstance(index, FunctionalTensor):
        index = torch._from_functional_tensor(index.elem)
    return not isinstance(index, FakeTensor) or index.constant is not None
