"""Gradients of gradients on the GPU, whose backward runs in a thread of its own, and whose generator is another one."""

import copy

import pytest
import torch
from torch import nn

import inferno
from inferno.runtime.region.backend import inferno as backend  # by function: a checkout need not be installed

_OLD = torch.torch_version.TorchVersion(torch.__version__) < "2.13"
pytestmark = pytest.mark.skipif(not torch.cuda.is_available() or _OLD, reason="needs a GPU, and torch 2.13: before it AOTAutograd asks nobody else")


@pytest.fixture(autouse=True)
def fresh(exact_float32):
    torch.manual_seed(0)
    torch._dynamo.reset()


def penalise(function, x):
    x = x.detach().requires_grad_()
    gradient, = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    (gradient.norm(dim=1) - 1).square().mean().backward()
    return x.grad


def test_penalties():
    model, x = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.LayerNorm(128), nn.Linear(128, 1)).cuda(), torch.randn(32, 64, device="cuda")
    reference = copy.deepcopy(model).double()
    fast = torch.compile(model, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(penalise(fast, x).double(), penalise(reference, x.double()), rtol=1e-3, atol=1e-5)
    for ours, exact in zip(model.parameters(), reference.parameters(), strict=True):
        if exact.grad is not None:
            torch.testing.assert_close(ours.grad.double(), exact.grad, rtol=1e-3, atol=1e-5)


def test_dropout_drops_the_same():
    model, x = nn.Sequential(nn.Linear(64, 128), nn.Dropout(.5), nn.Tanh(), nn.Linear(128, 1)).cuda(), torch.randn(32, 64, device="cuda")
    found = []
    for function in (torch.compile(model, backend=backend), model):
        torch.manual_seed(1)
        found.append([*(penalise(function, x) for _ in range(2)), torch.rand(3, device="cuda")])
    for ours, eager in zip(*found, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-3, atol=1e-5)


def test_dropout_of_trained_attention_is_an_error():
    """Its numbers are not eager's."""
    attend = torch.compile(lambda q: nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=.5), backend=backend)
    q = torch.randn(2, 4, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    gradient, = torch.autograd.grad(attend(q).sum(), q, create_graph=True)
    with pytest.raises(inferno.UnsupportedOperation, match="other random numbers than eager, for dropout in attention"):
        gradient.sum().backward()
