"""The matrices that wgmma multiplies, as they lie in shared memory and in registers.

Sums of products are cut off as the tensor core does: all terms to 25 bits behind the largest one's first, and the sum to float32.
"""

import functools

import numpy as np
from simulated_arithmetic import from_bf16
from tensor_maps import swizzled


@functools.lru_cache(maxsize=256)
def places(start: int, leading: int, stride: int, span: int, size: int, rows: int, terms: int, transposed: bool) -> np.ndarray:
    """The number of each [row, term], counted in elements of ``size`` bytes."""
    row, term = np.arange(rows)[:, None], np.arange(terms)[None]
    if transposed:
        panel = span // size
        found = start + row // panel * leading + term // 8 * stride + term % 8 * span + row % panel * size
    else:
        found = start + row // 8 * stride + row % 8 * span + term * size
    return swizzled(found, span) // size


def decode(raw: np.ndarray, kind: str) -> np.ndarray:
    if kind == "bf16":
        return from_bf16(raw.view(np.uint16))
    if kind == "f16":
        return raw.view(np.float16).astype(np.float32)
    return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)  # what the tensor core sees of a float32


def from_registers(registers: list, kind: str, terms: int) -> np.ndarray:
    """[row, term] of a lhs in registers: register i has half i % 2 of each 16 rows, part i // 2 of the terms."""
    raw = np.stack([np.broadcast_to(register, (128,)) for register in registers])
    parts = decode(raw.view(np.uint8), kind).reshape(-1, 2, 4, 8, terms // (len(registers) // 2))  # part, half, warp, row, term
    return parts.transpose(2, 1, 3, 0, 4).reshape(64, terms)


def multiply(lhs: np.ndarray, rhs: np.ndarray, sums: np.ndarray | None) -> np.ndarray:
    count = lhs.shape[1]
    terms = np.empty((count + (sums is not None), len(lhs), len(rhs)))  # the terms first: numpy adds whole planes 5 times as fast as short rows
    np.multiply(lhs.T.astype(np.float64)[:, :, None], rhs.T.astype(np.float64)[:, None], out=terms[:count])
    if sums is not None:
        terms[count] = sums
    largest = np.maximum(terms.max(0), -terms.min(0))
    usual = np.isfinite(largest) & (largest > 0)
    total = None if usual.all() else terms.sum(0)
    _, power = np.frexp(np.where(usual, largest, 1))
    np.trunc(np.multiply(terms, np.ldexp(1.0, 26 - power), out=terms), out=terms)
    exact = np.ldexp(terms.sum(0), power - 26)
    exact = exact if total is None else np.where(usual, exact, total)
    narrow = exact.astype(np.float32)
    low = np.where(np.abs(narrow.astype(np.float64)) > np.abs(exact), np.nextafter(narrow, np.float32(0)), narrow)  # cut, not rounded
    return np.where(np.isfinite(narrow), low, narrow)
