"""Models that write to ``p.data`` in their forward, as a PixelCNN masks its kernels, compile whole; what gives a parameter other memory runs in eager."""

import copy

import pytest
import torch
from torch import nn

import inferno


class Writes(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("mask", torch.ones(4, 4).tril())
        self.write = write

    def forward(self, x):
        self.write(self.linear, self.mask)
        return self.linear(x).relu()


def multiply(linear, mask):
    linear.weight.data *= mask


def clamp(linear, mask):
    linear.weight.data = linear.weight.data.clamp_(-0.2, 0.2).mul_(mask)


def give(linear, mask):
    linear.weight.data = linear.weight.data * mask


def turn(linear, mask):
    linear.weight.data = linear.weight.data.t_()


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("trained", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("write, whole", [(multiply, True), (clamp, True), (give, False), (turn, False)])
def test_a_parameter_that_is_written_to(write, whole, trained):
    torch._dynamo.reset()
    model = Writes(write)
    expected, x = copy.deepcopy(model), torch.randn(3, 4)
    with torch.set_grad_enabled(trained):
        compiled = torch.compile(model, backend="inferno")
        for _ in range(2):
            ours, eager = compiled(x), expected(x)
            torch.testing.assert_close(ours, eager)
            torch.testing.assert_close(model.linear.weight, expected.linear.weight)
            if trained:
                ours.sum().backward()
                eager.sum().backward()
                torch.testing.assert_close(model.linear.weight.grad, expected.linear.weight.grad)
    found = inferno.explain(compiled).fallbacks
    assert not found if whole else any("set_" in f for f in found)


def test_compiled_masks_are_written_too():
    model, x = Writes(multiply).eval(), torch.randn(3, 4)
    expected = copy.deepcopy(model)(x)
    compiled = inferno.compile(model, (x,))
    torch.testing.assert_close(compiled(x), expected)
    assert not model.linear.weight.triu(1).any()
