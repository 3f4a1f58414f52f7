"""Gradients through ``x[mask] = y`` under torch.compile: one graph, forward and backward, without what a mask picks."""

import pytest
import torch

import inferno

A, MASK = torch.arange(20.0).reshape(5, 4).sin(), torch.zeros(5, 4, dtype=torch.bool)
MASK[0, 1] = MASK[1, 0] = MASK[3, 2] = MASK[4, 0] = True


def several(x, y, mask):
    z = torch.zeros_like(x)
    z[mask] = y[:4] * 2
    return z + x


def one(x, y, mask):
    z = x * 1
    z[mask] = y.log().sum()  # of nothing that is put is the gradient infinite
    return z


def rows(x, y, mask):
    z = x.sin()
    z[mask[:, 0]] = y[:8].view(2, 4)
    return z


def columns_of_a_part(x, y, mask):
    z = torch.stack([x, x * 2], 1)
    z[1:, 1, mask[0]] = y[:4].view(4, 1)
    return z


def broadcast(x, y, mask):
    z = torch.stack([x, x * 2])
    z[..., mask[3]] = y[0]
    z[1, mask] = y[4:8]
    return z


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("function", [several, one, rows, columns_of_a_part, broadcast])
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients(function, dynamic):
    torch._dynamo.reset()
    fast = torch.compile(function, backend="inferno", dynamic=dynamic, options={"fallback": False})

    def step(function, dtype):
        x, y = (t.to(dtype).requires_grad_() for t in (A.clone(), torch.arange(1.0, 9)))
        z = function(x, y, MASK)
        (z * torch.arange(z.numel()).reshape(z.shape).cos()).sum().backward()
        return z.detach(), x.grad, y.grad

    for found, expected in zip(step(fast, torch.float32), step(function, torch.float64), strict=True):
        if expected is not None:
            torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
    assert not inferno.explain(fast).fallbacks


def test_places_that_do_not_fit_are_an_error():
    torch._dynamo.reset()

    def function(x, y):
        z = x * 1
        z[MASK[:, :3]] = y
        return z

    with pytest.raises(IndexError, match=r"shape of the mask \[5, 3\] at index 1 does not match"):
        torch.compile(function, backend="inferno")(A.clone().requires_grad_(), torch.ones(4, requires_grad=True))


def test_values_of_another_type_are_an_error():
    torch._dynamo.reset()

    def function(x, y):
        z = x * 1
        z[MASK] = y
        return z

    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        torch.compile(function, backend="inferno")(A.clone().requires_grad_(), torch.ones(int(MASK.sum()), dtype=torch.float64, requires_grad=True))


def test_no_values_have_a_gradient():
    torch._dynamo.reset()

    def function(x, y):
        z = x * 1
        z[MASK & False] = y
        return z

    y = torch.ones(0, requires_grad=True)
    torch.compile(function, backend="inferno")(A.clone(), y).sum().backward()
    assert y.grad.shape == (0,)
