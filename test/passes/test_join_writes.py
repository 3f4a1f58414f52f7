"""Writes to parts of parts whose dimensions of one element lie otherwise, under torch.compile."""

import pytest
import torch


def moved(x, y):
    x[0:1].view(6, 1)[1:3] = y
    return y * 2


def put_elsewhere(x, y):
    x[2:3][:, 1:].squeeze(0).unsqueeze(1)[2:4] = y
    return y * 2


def of_nothing(x, y):
    x[1:2][0:0] = 1
    return y * 2


def of_a_row(x, y):
    x[1:, 2:4][0] = y[:, 0]
    return x[0]


@pytest.mark.covering
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [moved, put_elsewhere, of_nothing, of_a_row])
def test_ones_elsewhere(function, dynamic):
    torch._dynamo.reset()
    x, y = torch.randn(4, 6), torch.randn(2, 1)
    other = x.clone()
    found = torch.compile(function, backend="inferno", dynamic=dynamic, options={"fallback": False})(x, y)
    assert torch.equal(found, function(other, y)) and torch.equal(x, other)
