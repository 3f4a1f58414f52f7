"""Variances and deviations on the CPU, whose squares are no float32 where the result is one."""

import pytest
import torch
from checks import assert_right

import inferno


def moments(x):
    return x.var(), x.std(), x.var(1), x.std(1, keepdim=True), *torch.std_mean(x, 0, correction=0), *torch.var_mean(x, 0), x.std(0, unbiased=False)


@pytest.mark.covering
@pytest.mark.parametrize("scale", [1e-25, 1.0, 3e18, 1e20, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_and_small_numbers(scale, dtype):
    compiled = assert_right(moments, ((torch.randn(5, 100) * scale).to(dtype),), target="cpu")
    assert compiled(torch.full((5, 100), 2.0, dtype=dtype))[1] == 0


def test_a_deviation_that_is_trained():
    x = (torch.randn(5, 100) * 1e19).requires_grad_()
    compiled = torch.compile(lambda x: x.std(1), backend="inferno")
    ours, eager, exact = (torch.autograd.grad(f(y).sum(), y)[0] for f, y in ((compiled, x), (lambda y: y.std(1), x), (lambda y: y.std(1), x.double())))
    assert (ours - exact).norm() <= 1.5 * (eager - exact).norm() + 1e-7 * exact.norm()


@pytest.mark.covering
@pytest.mark.parametrize("function", [lambda x: x.std(), lambda x: x.var(0), lambda x: torch.std_mean(x, 1)])
@pytest.mark.parametrize("shape", [(), (1, 1), (0, 3), (4, 1)])
def test_few_numbers(function, shape):
    if len(shape) < 2:
        function = lambda x: (x.std(), x.var(correction=0))  # noqa: E731
    x = torch.ones(shape)
    torch.testing.assert_close(inferno.compile(function, (x,))(x), function(x), equal_nan=True)
