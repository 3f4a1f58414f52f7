"""Sums of rows that a vector weighs are sums of rows like any other, whatever is made of them: norms of norms, means of what is scaled."""

import pytest
import torch
from scheduled_program import assert_right_of, launches

F = torch.nn.functional

# What is computed, and in how many launches at most.
PROGRAMS = {
    "a norm of a norm": (lambda x, y: F.layer_norm(F.layer_norm(x, x.shape[1:], y[0]), x.shape[1:], y[1]), 1),
    "a norm of what is scaled": (lambda x, y: F.layer_norm(x * y[0], x.shape[1:]), 1),
    "a norm of what is gated": (lambda x, y: F.layer_norm(F.silu(x) * y[0], x.shape[1:], y[1]), 1),
    "a mean of a norm": (lambda x, y: F.layer_norm(x, x.shape[1:], y[0]).mean(-1), 1),
    "less a mean of a norm": (lambda x, y: (z := F.rms_norm(x, x.shape[1:], y[0])) - torch.tanh(z.mean(-1, keepdim=True)), 1),
    "weighed by its softmax": (lambda x, y: torch.sigmoid((torch.softmax(x, -1) * y[0]).sum(-1, keepdim=True)) * x, 1),
    "a layer of one feature": (lambda x, y: torch.sigmoid(F.linear(F.layer_norm(x, x.shape[1:], y[0]), y[1:2], y[2, :1])), 1),
    "norms, less means of columns, twice": (lambda x, y: _twice(F.layer_norm(F.layer_norm(x, x.shape[1:], y[0]), x.shape[1:], y[0])), 4),
}


def _twice(x):
    for _ in range(2):
        x = x - x.clamp(-2, 2).mean(0, keepdim=True)
    return (x * x).mean()


@pytest.mark.covering(most=10)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(4, 48), (34, 49), (130, 24), (3, 8448)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(name, shape, dtype):
    program, most = PROGRAMS[name]
    text = assert_right_of(program, shape, dtype, 2)
    assert launches(text) <= most, text[:3000]
