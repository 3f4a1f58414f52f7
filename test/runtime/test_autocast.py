"""Calls and compilations within torch.autocast give what the model gives there."""

import copy

import pytest
import torch

import inferno


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(24, 8), torch.nn.Softmax(-1)).eval()


def einsum(x):
    return torch.einsum("ab,cb->ac", x, x).softmax(-1)  # of its own operations torch casts the product


def within(dtype):
    return torch.autocast("cpu", dtype, enabled=dtype is not None)


def is_like(compiled, model, *args):
    """In its dtype, and as near to float64 as it is; which operations are cast differs by percents."""
    with torch.no_grad():
        got, wanted = compiled(*args), model(*args)
    assert got.dtype == wanted.dtype
    assert (got.double() - wanted.double()).abs().max() <= 2 * torch.finfo(wanted.dtype).eps * wanted.double().abs().max()


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("model, first", [(net(), None), (net(), torch.bfloat16), (einsum, None)], ids=["outside", "inside", "einsum"])
def test_calls_within_any_state(model, first):
    x = torch.randn(6, 24)
    with within(first):
        compiled = inferno.compile(model, (x,), target="cpu")
    for dtype in (torch.float16, None, torch.bfloat16, None):
        with within(dtype):
            is_like(compiled, model, x)


def test_casts_are_part_of_the_program():
    x = torch.randn(6, 24)
    with within(torch.bfloat16):
        compiled = inferno.compile(net(), (x,), target="cpu", fallback=False)
        assert "xbf16>" in compiled.ir("linalg")
        is_like(compiled, net(), x)
    assert "xbf16>" not in inferno.compile(net(), (x,), target="cpu").ir("linalg")


def test_what_the_model_turns_off_is_off():
    """In eager pieces too."""
    def model(x):
        with torch.autocast("cpu", enabled=False):
            y = torch.linalg.matrix_exp(x @ x.mT / 100)  # which runs in eager
            z = y @ y
        return z, y @ y

    x = torch.randn(6, 6)
    with within(torch.bfloat16), torch.no_grad():
        got, wanted = inferno.compile(model, (x,), target="cpu")(x), model(x)
    assert [t.dtype for t in got] == [t.dtype for t in wanted] == [torch.float32, torch.bfloat16]
    torch.testing.assert_close(got[0], wanted[0], rtol=1e-5, atol=1e-5)


def test_hooks_run_once():
    model, x, calls = net(), torch.randn(6, 24), []
    compiled = inferno.compile(model, (x,), target="cpu")
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    with within(torch.bfloat16), torch.no_grad():
        assert compiled(x).dtype == model(x).dtype
    assert len(calls) == 2


def test_copies_have_their_own():
    model, x = net(), torch.randn(6, 24)
    compiled = inferno.compile(model, (x,), target="cpu")
    with within(torch.bfloat16):
        is_like(compiled, model, x)
        other = copy.deepcopy(compiled)
        with torch.no_grad():
            other.get_parameter("0.weight").mul_(3)
            changed = copy.deepcopy(model)
            changed[0].weight.mul_(3)
        is_like(other, changed, x)
        is_like(compiled, model, x)
