"""The float32 that stands for a float64 in a comparison tells every float32 apart as that does."""

import ctypes
import itertools
import random
import struct

import pytest

from inferno.mlir import arith
from inferno.passes.narrow_comparisons import _float32

P = arith.CmpFPredicate
CASES = {P.OLT: lambda a, b: a < b, P.OGT: lambda a, b: a > b, P.OLE: lambda a, b: a <= b, P.OGE: lambda a, b: a >= b}
EDGES = (0.0, -0.0, 1e-12, 1e-46, -1e-46, 1e39, -1e39, float("inf"), -float("inf"), 3.4028235677973366e38, 1 + 2**-24, -1 - 2**-24, 2**-149, -(2**-150))


def near(c: float) -> list[float]:
    """Float32 numbers around one, and others."""
    (bits,) = struct.unpack("<i", struct.pack("<f", ctypes.c_float(c).value))
    around = [struct.unpack("<f", struct.pack("<i", max(-(2**31), min(2**31 - 1, bits + d))))[0] for d in range(-2, 3)]
    return [x for x in (*around, 0.0, -0.0, 1.5, -1.5, float("inf"), -float("inf")) if x == x]


@pytest.mark.parametrize("predicate", CASES, ids=lambda p: p.name)
def test_tells_apart_as_the_constant_does(predicate):
    random.seed(0)
    compare = CASES[predicate]
    for c, right in itertools.product((*EDGES, *(random.uniform(-3, 3) for _ in range(100))), (True, False)):
        d = _float32(c, predicate, right)
        for x in near(c):
            assert (compare(x, c) == compare(x, d)) if right else (compare(c, x) == compare(d, x)), (c, d, x)


def test_there_is_none_for_equality_with_what_is_no_float32():
    assert _float32(1 + 2**-30, P.OEQ, True) is None and _float32(float("nan"), P.OLT, True) is None and _float32(0.5, P.OEQ, False) == 0.5
