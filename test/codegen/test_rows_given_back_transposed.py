"""Rows that are gone over as they lie, and of which one launch gives back what they become in another order."""

import pytest
import torch
from scheduled_program import assert_right, launches

F = torch.nn.functional


def norms(x, y, z):
    x = F.rms_norm(F.rms_norm(x, x.shape[1:], y[0]), x.shape[1:], z[0])
    return torch.where(x > 0, x, z).t().contiguous()


def softmax(x, y, z):
    return torch.softmax(x * y, -1).t().contiguous()


def less_largest(x, y, z):
    x = x + y[0]
    return (torch.where(x > 0, x, z) - x.amax(-1, keepdim=True)).t().contiguous()


def images(x, y, z):
    x, y = x.reshape(2, -1, x.shape[1]), y.reshape(2, -1, y.shape[1])
    return (torch.softmax(x, -1) * y).permute(2, 0, 1).contiguous()


def two_results(x, y, z):
    x = F.normalize(x, dim=-1)
    return (x + y).t().contiguous(), x.sum(-1)


def both_orders(x, y, z):
    x = torch.log_softmax(x, -1)
    return x * y, (x + z).t().contiguous()


def transposed_before(x, y, z):
    """What is exchanged is imported as the result lies."""
    return (torch.softmax(x.t(), 0) * y.t()).contiguous()


def transposed_before_a_norm(x, y, z):
    x = (x * y).t()
    return F.normalize(x - x.amax(0), dim=0).contiguous(), x.sum(0)


@pytest.mark.covering(most=8)
@pytest.mark.parametrize("program", [norms, softmax, less_largest, images, two_results, both_orders, transposed_before, transposed_before_a_norm])
@pytest.mark.parametrize("shape", [(4, 48), (34, 49), (130, 12), (10, 300)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(program, shape, dtype):
    torch.manual_seed(0)
    tensors = tuple(torch.randn(shape).to(dtype) for _ in range(3))
    text = assert_right(program, tensors)
    if program not in (both_orders, transposed_before_a_norm):
        assert launches(text) == 1, text[:3000]
