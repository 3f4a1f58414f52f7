"""``as_strided`` and what fills it as reshapes: the gradient of a pooling to one element in channels last, and what stays."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture.restrides import replace_restrides

aten = torch.ops.aten
STRIDED = (aten.as_strided.default, aten.as_strided_scatter.default)


def left(function, *args):
    """How many calls are left; the results are the same."""
    module = make_fx(function, tracing_mode="fake")(*args)
    replace_restrides(module.graph)
    module.recompile()
    assert torch.equal(module(*args), function(*args))
    return sum(n.target in STRIDED for n in module.graph.nodes)


def filled(x, size, stride, elements=12, offset=0):
    flat = x.new_zeros(elements)
    part = aten.as_strided.default(flat, size, stride, offset)
    return aten.as_strided_scatter.default(flat, aten.copy.default(part, x.view(size)), size, stride, offset)


def test_what_fills_a_whole_tensor():
    def gradient(x):
        return aten.as_strided.default(filled(x, [3, 4], [4, 1]), [3, 4, 1, 1], [4, 1, 1, 1], 0).relu()

    assert left(gradient, torch.randn(3, 4)) == 0


@pytest.mark.parametrize("function", [
    lambda x: filled(x, [3, 4], [1, 3]),  # in another order
    lambda x: filled(x, [3, 4], [4, 1], elements=13), lambda x: filled(x, [3, 4], [4, 1], elements=14, offset=1),  # not all of it
], ids=["order", "more", "offset"])
def test_others_stay(function):
    assert left(function, torch.randn(3, 4)) == 2


def test_a_callers_tensor_stays():
    assert left(lambda x: aten.as_strided.default(x, [12], [1], 0).relu(), torch.randn(3, 4)) == 1
