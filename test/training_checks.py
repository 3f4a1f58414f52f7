"""Shared by tests: a step of training beside eager's and float64's."""

import copy

import torch
from torch import nn

from inferno.runtime.check.comparison import compare_leaf


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())


def step(call, model, x):
    """A training step: the result, the gradients, and the state behind it."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = call(x)
    (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)).sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in model.parameters()), *(b.clone() for b in model.buffers())]


def assert_trains_right(call, model, x):
    """One step beside eager's and float64's, from the same state."""
    same, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    for i, given in enumerate(zip(step(call, model, x), step(same, same, x), step(exact, exact, x.double()))):
        found = compare_leaf(f"result {i}", *given)
        assert found.right, str(found)
