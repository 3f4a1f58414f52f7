"""Loops over tokens that Python unrolls: what they become, what stays, and their numbers."""

import pytest
import torch
from checks import check
from choices import generators

import inferno
from inferno.capture.capture import capture
from inferno.capture.running import recurrence
from inferno.capture.value_ranges import value_range

F, randn = torch.nn.functional, torch.randn


def written(a, b):
    """States are written to a tensor, token by token."""
    a, out, h = torch.sigmoid(a), torch.zeros_like(b), torch.zeros_like(b[:, 0])
    for i in range(a.shape[1]):
        h = a[:, i] * h + b[:, i]
        out[:, i] = h
    return out * 2


def state_space(dt, a, b, c, x):
    """Mamba's: each state is multiplied by what its token says, and the last one is given back."""
    step = torch.exp(-torch.exp(a)[None, :, None] * F.softplus(dt)[..., None])
    term = dt[..., None] * b[:, None] * x[..., None]
    h, out = torch.zeros_like(term[:, :, 0]), []
    for i in range(x.shape[2]):
        h = step[:, :, i] * h + term[:, :, i]
        out.append((h @ c[:, i].unsqueeze(-1))[:, :, 0])
    return torch.stack(out, -1), h


def begun(a, b, h):
    """From a state that is given, and what is added is computed in each step."""
    out = []
    for i in range(a.shape[0]):
        h = torch.tanh(a[i]) * h + b[i] * 2
        out.append(h)
    return torch.stack(out)


def mixed(a, b):
    """An average that goes with the token."""
    h, out = torch.zeros_like(b[..., 0]), []
    for i in range(b.shape[-1]):
        g = torch.sigmoid(a[..., i])
        h = (1 - g) * h + g * b[..., i]
        out.append(torch.relu(h) + a[..., i])
    return torch.stack(out, -1)


CASES = {
    "written": (written, lambda: (randn(2, 24, 16), randn(2, 24, 16))),
    "a state space": (state_space, lambda: (randn(2, 8, 20).abs(), randn(8, 16), randn(2, 20, 16), randn(2, 20, 16), randn(2, 8, 20))),
    "from a state": (begun, lambda: (randn(24, 5, 8), randn(24, 5, 8), randn(5, 8))),
    "along memory": (mixed, lambda: (randn(6, 30), randn(6, 30))),
}


def targets(model, args):
    return [n.target for n in capture(model, args).graph.nodes if n.op == "call_function"]


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", CASES)
def test_right_and_rolled(name):
    torch.manual_seed(0)
    model, make = CASES[name]
    args = make()
    assert targets(model, args).count(recurrence) == 1 and len(targets(model, args)) <= 50
    found = check(inferno.compile(model, args), model, args)
    assert found.right, str(found)


def test_torch_compile():
    args = CASES["written"][1]()
    fast = torch.compile(written, backend="inferno")
    found = check(fast, written, args)
    assert found.right, str(found)
    assert len(inferno.explain(fast).rows) <= 3


@pytest.mark.thorough
def test_one_kernel():
    args = randn(2, 64, 256), randn(2, 64, 256)
    assert generators(written, args) == ["scans"]



def begun_with(a, b):
    h, out = torch.zeros_like(b[:, 0]), []
    for i in range(a.shape[1]):
        h = a[:, i] * h + b[:, i]
        out.append(h)
    return torch.stack(out, 1)


def backwards(a, b):
    a, h, out = torch.sigmoid(a), torch.zeros_like(b[:, 0]), []
    for i in reversed(range(a.shape[1])):
        h = a[:, i] * h + b[:, i]
        out.append(h)
    return torch.stack(out, 1)


def of_the_state(a, b):
    h, out = torch.zeros_like(b[:, 0]), []
    for i in range(a.shape[1]):
        h = torch.sigmoid(a[:, i] + h) * h + b[:, i]
        out.append(h)
    return torch.stack(out, 1)


def other_step(a, b):
    """One of the steps is another one."""
    a, h, out = torch.sigmoid(a), torch.zeros_like(b[:, 0]), []
    for i in range(a.shape[1]):
        h = a[:, i] * h + (b[:, i] if i != 11 else 2 * b[:, i])
        out.append(h)
    return torch.stack(out, 1)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("model", [begun_with, backwards, of_the_state, other_step])
def test_what_stays(model):
    """Factors that may be anything, and what is not the same in each step."""
    torch.manual_seed(0)
    args = randn(2, 12, 8) / 2, randn(2, 12, 8)
    assert recurrence not in targets(model, args)
    found = check(inferno.compile(model, args), model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("model, expected", [
    (lambda x: torch.sigmoid(x), (0, 1)), (lambda x: torch.exp(-F.softplus(x) * torch.exp(x)), (0, 1)), (lambda x: 1 - torch.sigmoid(x).bfloat16(), (0, 1)),
    (lambda x: torch.exp(-8 * torch.sigmoid(x)), (2.718281828459045**-8, 1)), (lambda x: torch.tanh(x) * torch.cos(x), (-1, 1)),
    (lambda x: torch.exp(x.abs()), (1, float("inf"))), (lambda x: torch.exp(F.softplus(x)), (1, float("inf"))),
    (lambda x: x * 0.5, (-float("inf"), float("inf"))),
    (lambda x: (x > 0) * torch.sigmoid(x).sqrt(), (0, 1)),
])
def test_ranges(model, expected):
    graph = capture(model, (randn(8),)).graph
    found = value_range(graph.output_node().args[0][0])
    assert found == pytest.approx(expected)
    made = model(torch.linspace(-20, 20, 401))
    assert found[0] <= made.min() and made.max() <= found[1]


def all_states(a, b):
    a, out, h, states = torch.sigmoid(a), torch.zeros_like(b), torch.zeros_like(b[:, 0]), []
    for i in range(a.shape[1]):
        h = a[:, i] * h + b[:, i]
        out[:, i] = h
        states.append(h)
    return out, *states, states[2].view(-1), states[3][:, None]


@pytest.mark.parametrize("batch", [1, 2])
def test_states_that_are_given_back(batch):
    """They are memory of their own, with the strides of eager's, though they are parts of one tensor here."""
    a, b = randn(batch, 9, 4), randn(batch, 9, 4)
    with torch.no_grad():
        found = torch.compile(all_states, backend="inferno", options={"fallback": False})(a, b)
    expected = all_states(a.double(), b.double())
    assert [t.stride() for t in found] == [t.stride() for t in expected]
    for ours, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-6, atol=1e-6)


@pytest.mark.thorough
def test_states_that_the_backward_reads():
    inputs = [randn(2, 12, 16, requires_grad=True) for _ in range(2)]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    gradient = randn(2, 12, 16)
    torch.compile(written, backend="inferno", options={"fallback": False})(*inputs).backward(gradient)
    written(*exact).backward(gradient.double())
    for mine, t in zip(inputs, exact):
        assert (mine.grad - t.grad).norm() <= 4 * torch.finfo(torch.float32).eps * t.grad.norm()
