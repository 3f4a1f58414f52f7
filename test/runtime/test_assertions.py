"""What a model asserts of a call's tensors stops the program as in eager, beside what is compiled."""

import pytest
import torch
from checks import assert_close_to_float64
from models import asserting

import inferno
from inferno.errors import UnsupportedOperation


def with_text(x, n):
    torch._assert_async((x < 100).all(), "x is too large")
    return (x * n).exp().sum(1)


def without_text(x, n):
    y = x * n
    torch._assert_async(n > 0)
    return y.exp().sum(1)


GOOD = torch.linspace(-1, 1, 12).view(3, 4), torch.tensor(2)
CASES = [
    (with_text, (GOOD[0] * 1000, GOOD[1]), "x is too large"), (asserting, (GOOD[0] * 1000, GOOD[1]), "y is too large"),
    (without_text, (GOOD[0], -GOOD[1]), "Expected Tensor with single nonzero value"),
]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    inferno.stats(reset=True)


@pytest.mark.covering
@pytest.mark.parametrize("function, bad, text", CASES)
@pytest.mark.parametrize("compile_", [
    lambda f: inferno.compile(f, GOOD), lambda f: torch.compile(f, backend="inferno"), lambda f: torch.compile(f, backend="inferno", dynamic=True),
], ids=["compile", "backend", "dynamic"])
def test_inference(function, bad, text, compile_):
    fast = compile_(function)
    with torch.no_grad():
        assert_close_to_float64(fast(*GOOD), function, GOOD)
        for kind in (RuntimeError, AssertionError, inferno.AssertionFailed):  # one of which is eager's
            with pytest.raises(kind, match=text):
                fast(*bad)
        assert_close_to_float64(fast(*GOOD), function, GOOD)
    assert inferno.stats().fallbacks == 0


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("function, bad, text", CASES)
def test_training(function, bad, text):
    fast = torch.compile(function, backend="inferno")
    x = GOOD[0].clone().requires_grad_()
    fast(x, GOOD[1]).sum().backward()
    torch.testing.assert_close(x.grad, 2 * (2 * GOOD[0]).exp())
    with pytest.raises(inferno.AssertionFailed, match=text):
        fast(bad[0].clone().requires_grad_(), bad[1])


def test_they_cut_no_graph():
    fast = inferno.compile(with_text, GOOD)
    report = str(fast.explain())
    assert "aten._assert_async.msg" in report and "it stops the program where a tensor holds a zero" in report
    assert report.count("segment ") == 1


def test_without_fallback_they_are_an_error():
    with pytest.raises(UnsupportedOperation, match="_assert_async.msg at .* is not supported: it stops the program where a tensor holds a zero"):
        inferno.compile(with_text, GOOD, fallback=False)


def test_the_check_of_a_factorization_is_named():
    report = str(inferno.compile(lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(3)), (torch.randn(3, 3),)).explain())
    assert "aten._linalg_check_errors.default" in report and "with_effects" not in report
