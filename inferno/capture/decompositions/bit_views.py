"""``x.view(dtype)``: the bits of numbers as those of others, as packed weights are read (four int8 in an int32, two int4 in a byte).

Integers of a width have the same bits, and wrap around where they are converted.  Of another width several numbers become one, by shifts, or one several;
the first is the lowest, as in memory.  A complex number is the pair of its parts.  Floats are integers of their width in between, which the import
converts to by ``arith.bitcast``.
"""

import torch
from torch import Tensor

aten = torch.ops.aten

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_FLOATS = torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32, torch.float64
_WHOLE = torch.bool, torch.uint8, *_INTEGERS.values()


def view_bits(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``aten.view.dtype``; NotImplemented for what the import knows."""
    if x.dtype.is_complex and dtype == x.dtype.to_real():
        return torch.view_as_real(x).flatten(-2)
    if dtype.is_complex and x.dtype == dtype.to_real():
        return torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    if x.dtype == dtype or not {x.dtype, dtype} <= {*_FLOATS, *_WHOLE} or _is_cast(x.dtype, dtype):
        return NotImplemented
    bits = _as_integers(x)
    if x.element_size() > dtype.itemsize:
        bits = _parts(bits, dtype.itemsize)
    elif x.element_size() < dtype.itemsize:
        bits = _joined(bits, dtype.itemsize)
    if dtype == torch.bool:
        return bits != 0
    return aten.view.dtype(bits, dtype) if dtype in _FLOATS else bits.to(dtype)


def _is_cast(source: torch.dtype, target: torch.dtype) -> bool:
    """Whether these are a float and an integer of its width."""
    return source.itemsize == target.itemsize and torch.bool not in (source, target) and (source in _FLOATS) != (target in _FLOATS)


def _as_integers(x: Tensor) -> Tensor:
    """Its bits as a signed integer of its width."""
    integer = _INTEGERS[x.element_size()]
    return aten.view.dtype(x, integer) if x.dtype in _FLOATS else x.to(integer)


def _parts(bits: Tensor, width: int) -> Tensor:
    """Each integer's parts of so many bytes, beside each other."""
    shifts = range(0, 8 * bits.element_size(), 8 * width)
    parts = torch.stack([_shifted(aten.bitwise_right_shift.Tensor, bits, by).to(_INTEGERS[width]) for by in shifts], -1)
    return parts.flatten(-2)


def _joined(bits: Tensor, width: int) -> Tensor:
    """Integers of so many bytes, each of several that are beside each other."""
    narrow, wide = bits.element_size(), _INTEGERS[width]
    several = bits.unflatten(-1, (-1, width // narrow))
    mask = torch.full((), (1 << 8 * narrow) - 1, dtype=wide, device=bits.device)
    terms = [_shifted(aten.bitwise_left_shift.Tensor, several.select(-1, i).to(wide) & mask, 8 * narrow * i) for i in range(width // narrow)]
    whole = terms[0]
    for term in terms[1:]:
        whole = whole | term
    return whole


def _shifted(operation: torch._ops.OpOverload, x: Tensor, by: int) -> Tensor:
    return operation(x, torch.full((), by, dtype=x.dtype, device=x.device)) if by else x


TABLE = {aten.view.dtype: view_bits}
