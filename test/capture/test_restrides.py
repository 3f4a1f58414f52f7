"""``as_strided`` and what fills it as reshapes, or as places in the flat tensor: the gradient of a pooling to one element in channels last, the windows of a
Longformer, and what stays."""

import pytest
import torch
from checks import assert_right
from torch.fx.experimental.proxy_tensor import make_fx

import inferno
from inferno.capture.restrides import replace_restrides
from inferno.capture.strided_places import read_strided

aten = torch.ops.aten
STRIDED = (aten.as_strided.default, aten.as_strided_scatter.default)


def left(function, *args, replace=replace_restrides):
    """How many calls are left; the results are the same."""
    module = make_fx(function, tracing_mode="fake")(*args)
    replace(module.graph)
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


def windows(x):
    """A Longformer's: of 8 rows each, every 4."""
    x = (x * 2).contiguous()
    return x.as_strided((3, 7, 8, 6), (x.stride(0), 4 * x.stride(1), *x.stride()[1:]))


PLACES = {
    "windows": (windows, (3, 32, 6)), "order": (lambda x: (x.mT + x.mT).as_strided((4, 3), (2, 1), 1), (5, 6)),
    "diagonal": (lambda x: x.exp().as_strided((5,), (6,)), (5, 5)),
    "slice": (lambda x: x.exp()[1:].as_strided((3, 5), (5, 1), 2), (5, 6)), "repeated": (lambda x: x.exp().as_strided((2, 3), (0, 1)), (3,)),
    "one": (lambda x: x.exp().as_strided((2, 1), (0, 7), 2), (3,)), "scalar": (lambda x: x.sum().as_strided((2,), (0,)), (3,)),
    "part": (lambda x: x.exp().split(2)[1].as_strided((2, 2), (3, 1), 7), (4, 5)),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_of_what_the_graph_makes(name):
    function, shape = PLACES[name]
    assert left(lambda x: function(x).relu(), torch.randn(shape), replace=read_strided) == 0
    assert left(function, torch.randn(shape), replace=read_strided) == 1  # what is returned stays a view


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_windows_are_whole(target):
    if target == "cpu":
        assert_right(lambda x: windows(x).softmax(2), (torch.randn(3, 32, 6),), target=target)
    else:
        inferno.compile(lambda x: windows(x).softmax(2), (torch.randn(3, 32, 6),), target=target, fallback=False)


def test_places_of_a_callers_tensor_stay():
    assert left(lambda x: x[1:].as_strided((4, 3), (2, 1), 1).relu(), torch.randn(5, 6), replace=read_strided) == 1
