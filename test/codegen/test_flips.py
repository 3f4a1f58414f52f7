"""Flips that nobody makes: sums of what is flipped, what rows are reduced to and what is flipped behind it, flips of flips with something between."""

import pytest
import torch
from scheduled_program import assert_right_of, launches

F = torch.nn.functional

# What is computed, and in how many launches at most.
PROGRAMS = {
    "a sum of a flip": (lambda x, y: (F.silu(x - x.amax(-1, keepdim=True)) * y).flip(-1).sum(-1), 1),
    "the largest of a flip": (lambda x, y: (x * torch.tanh(y)).flip(-1).amax(-1), 1),
    "a flip beside what it is not": (lambda x, y: (x.flip(-1) * y).sum(-1), 1),
    "normalized, flipped": (lambda x, y: F.normalize(x + y[0], dim=-1).flip(-1), 1),
    "a norm of a product, flipped": (lambda x, y: F.layer_norm(x * y, x.shape[1:], y[0]).flip(-1), 1),
    "a softmax of a sum, flipped": (lambda x, y: torch.softmax(x + y, -1).flip(-1), 2),
    "returned, too": (lambda x, y: ((z := x + y), F.normalize(z, dim=-1).flip(-1)), 2),
    "flipped twice, transposed": (lambda x, y: torch.where((z := (x.flip(-1) * y[:, :1]).flip(-1).t()) > 0, z, y.t()).logsumexp(-1), 1),
    "summed along columns": (lambda x, y: (F.rms_norm(x, x.shape[1:], y[0]).flip(-1) * y * x).sum(0), 3),
    "a product, summed along columns": (lambda x, y: torch.tanh((x * y).flip(-1)).sum(0), 1),
    "a scaled row, summed along columns": (lambda x, y: (torch.tanh(x * y[0]) * y[:, :1]).flip(-1).sum(0), 1),
    "running sums of a flip": (lambda x, y: (z := x.clamp(-2, 2).flip(-1).cumsum(-1) / 64) - z.amax(-1, keepdim=True), 1),
    "columns from the end": (lambda x, y: torch.softmax(x * y, 0).flip(0), 2),
}


@pytest.mark.covering(most=10)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(4, 48), (34, 49), (130, 24), (3, 520), (3, 521)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(name, shape, dtype):
    program, most = PROGRAMS[name]
    text = assert_right_of(program, shape, dtype, 2)
    assert launches(text) <= most, text[:3000]
