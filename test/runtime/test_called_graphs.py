"""The branches of a condition and the steps of loops are compiled: the operation that calls them runs in eager."""

import pytest
import torch
from checks import assert_close_to_float64
from torch._higher_order_ops import scan, while_loop

import inferno
from inferno.runtime.check.comparison import compare
from inferno.tools.check import reference


def branches(x, y):
    return torch.cond(x.sum() > 0, lambda x, y: (x.sin() * 2 + x.cos() @ y, x + 1), lambda x, y: ((x.cos() - y).exp(), y * 2), (x, y))[0] * 2


def steps(x, y):
    return scan(lambda carry, v: (carry * 0.9 + v.sin(), (carry.exp() * v).tanh()), y[0].clone(), x, dim=1)


def loop(x, y):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, (x.sin() @ y).tanh()), (torch.zeros((), dtype=torch.int64), x))[1]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    inferno.stats(reset=True)


@pytest.mark.covering
@pytest.mark.parametrize("function, graphs", [(branches, 3), (steps, 2), (loop, 3)])
def test_inference(function, graphs):
    x, y = torch.randn(5, 5), torch.randn(5, 5)  # scan gives its step columns
    fast = torch.compile(function, backend="inferno")
    with torch.no_grad():
        for given in ((x, y), (-x, y)):
            found = compare(fast(*given), function(*given), reference(function, given), unit=2**-21)  # several products one after another
            assert found.right, str(found)
    assert inferno.stats().graphs == graphs and inferno.stats().kernels >= graphs


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("sign", [1, -1])
def test_training(sign):
    x, y = sign * torch.ones(4, 4), torch.randn(4, 4)
    gradients = []
    for call, dtype in ((torch.compile(branches, backend="inferno"), torch.float32), (branches, torch.float64)):
        given = x.detach().to(dtype, copy=True).requires_grad_()
        call(given, y.to(dtype)).square().sum().backward()
        gradients.append(given.grad.double())
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)
    assert inferno.stats().graphs == 6


def test_sizes_that_vary():
    fast = torch.compile(branches, backend="inferno", dynamic=True)
    for size in (3, 6):
        x, y = torch.randn(size, size), torch.randn(size, size)
        with torch.no_grad():
            assert_close_to_float64(fast(x, y), branches, (x, y))


def test_the_time_of_what_is_called_counts_once():
    x, y = torch.ones(4, 4), torch.randn(4, 4)
    fast = torch.compile(branches, backend="inferno")
    with torch.no_grad():
        report = inferno.explain(fast, x, y)
    assert "called: 1 segments" in str(report) and "cond" in str(report) and "segment 1" in str(report)


class Choice(torch.nn.Module):
    """A layer before a condition, whose branches read its weight, too."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(5, 5)

    def forward(self, x):
        y = self.layer(x).relu()
        return torch.cond(x.sum() > 0, lambda y: (y.sin() @ self.layer.weight).softmax(-1), lambda y: (y.cos() * 2).exp(), (y,)) + y


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("function", [branches, steps, loop])
def test_a_whole_capture(function):
    """The same through ``inferno.compile``, which names what it compiled of them."""
    x, y = torch.randn(5, 5), torch.randn(5, 5)
    compiled = inferno.compile(function, (x, y))
    for given in ((x, y), (-x, y)):
        found = compare(compiled(*given), function(*given), reference(function, given), unit=2**-21)
        assert found.right, str(found)
    assert len(compiled.called) >= 1 and all(r.programs for r in compiled.called)
    assert sum(len(p.kernels) for r in compiled.called for p in r.programs) <= len(compiled.explain().rows)


def test_a_model_with_a_condition():
    model, x = Choice().eval(), torch.randn(3, 5)
    compiled = inferno.compile(model, (x,), check=True)
    for given in (x, -x, x.abs(), -x.abs()):
        assert_close_to_float64(compiled(given), model, (given,))
    with torch.no_grad():
        model.layer.weight.mul_(2)
    assert_close_to_float64(compiled(x.abs()), model, (x.abs(),))
    assert "cond" in str(compiled.explain(x)) and len(compiled.called) == 2


def test_without_a_fallback_nothing_calls():
    with pytest.raises(inferno.UnsupportedOperation, match="cond"):
        inferno.compile(branches, (torch.randn(5, 5), torch.randn(5, 5)), fallback=False)
