"""Operations on lists of tensors, which optimisers' steps are made of: the same operation on each tensor, which kernels have several of."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

# Those that torch has for lists under their own name.  addcdiv and addcmul have their number by name.
_NAMES = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 max neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan "
    "tanh trunc add sub mul div clamp_max clamp_min pow lerp addcdiv addcmul copy"
)
_SCALED = ("addcdiv", "addcmul")


def _each(call: Callable, op: Any) -> Callable:
    """A decomposition of ``op``: what it has a list of goes to ``call`` one by one, all else to each."""

    def decompose(*args: Any, **kwargs: Any) -> list[Tensor]:
        lists = [a for a in args if isinstance(a, (list, tuple))]
        count = len(lists[0])
        if any(len(a) != count for a in lists):  # torch says so
            return NotImplemented
        return [call(*(a[i] if isinstance(a, (list, tuple)) else a for a in args), **kwargs) for i in range(count)]

    decompose.__name__ = op.name()
    return decompose


def _scaled(call: Callable) -> Callable:
    return lambda x, first, second, value=1: call(x, first, second, value=value)


def _extremum(of_tensors: Callable, of_number: Callable) -> Callable:
    return lambda x, other: (of_tensors if isinstance(other, Tensor) else of_number)(x, other)


def norm(x: Tensor, ord: float = 2, dtype: torch.dtype | None = None) -> Tensor:
    return torch.linalg.vector_norm(x, ord, dtype=dtype)


def _table() -> dict[Any, Callable]:
    calls = {name: getattr(aten, name) for name in _NAMES.split() if hasattr(aten, name)}
    calls |= {name: _scaled(calls[name]) for name in _SCALED} | {"norm": norm, "zero": torch.zeros_like}
    calls |= {"maximum": _extremum(aten.maximum, aten.clamp_min), "minimum": _extremum(aten.minimum, aten.clamp_max)}
    found: dict[Any, Callable] = {}
    for name, call in calls.items():
        packet = getattr(aten, f"_foreach_{name}", None)
        for overload in packet.overloads() if packet is not None else ():
            op = getattr(packet, overload)
            numbers = name in _SCALED and overload == "Tensor"  # of the host, in a tensor
            if not op._schema.is_mutable and overload != "out" and not overload.endswith("_out") and not numbers:
                found[op] = _each(call, op)
    return found


TABLE = _table()
