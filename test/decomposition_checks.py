"""Shared by tests of decompositions: numbers, and what makes a decomposition right."""

import math

import torch
from torch.utils._pytree import tree_leaves

from inferno.capture.decompositions import own
from inferno.runtime.check.comparison import compare
from inferno.tools.check import to_float64

aten = torch.ops.aten
nan, inf = math.nan, math.inf
EDGES = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 3.5, 1e-4, -1e-4, 11.9, 12.1, -40.0, inf, -inf, nan])


# Functions of numbers, whose results are floating-point for integers too.
OF_NUMBERS = ("lgamma", "digamma", "i0", "special_i0e", "special_i1", "special_i1e", "erfc", "erfinv", "special_erfcx",
              "special_log_ndtr", "special_modified_bessel_i0", "special_modified_bessel_i1", "sinh", "cosh", "elu")


def name_of(op):
    return op.overloadpacket.__name__


def normal(*shape, scale=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)) * scale


def whole(*shape, low=0, high=5):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(2))


def check(op, *args, unit=None, **kwargs):
    """Ours is right by the project's rule, with dtypes and shapes of torch's."""
    mine = own()[op](*args, **kwargs)
    assert mine is not NotImplemented
    exact = [a.double() if isinstance(a, torch.Tensor) and name_of(op) in OF_NUMBERS else a for a in to_float64(args)]
    compared = compare(mine, op(*args, **kwargs), op(*exact, **to_float64(kwargs)), unit)
    assert compared.right, f"{op}: {compared}"
    return mine


def same(op, *args, **kwargs):
    """Ours is torch's, element for element; for what rounds nothing."""
    mine, theirs = own()[op](*args, **kwargs), op(*args, **kwargs)
    assert mine is not NotImplemented
    for a, b in zip(tree_leaves(mine), tree_leaves(theirs), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert torch.equal(torch.nan_to_num(a, 7.25), torch.nan_to_num(b, 7.25)), f"{op}: {a} where torch has {b}"
        if a.is_floating_point():
            assert torch.equal(torch.isnan(a), torch.isnan(b))
