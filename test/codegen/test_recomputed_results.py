"""What a kernel over rows made, and others read, is computed by these: never written, and right."""

import pytest
import torch
from scheduled_program import assert_right, launches

F = torch.nn.functional


def gated_columns(x, y):
    """The rows of the softmax are the columns of what is added up."""
    x = torch.softmax(x[:, : y.shape[0]], -1).t()
    return torch.where(F.silu(x) * y > 0, F.silu(x) * y, y).square().mean()


def normed_columns(x, y):
    """The rows of exponentials are normed, and columns of these compared."""
    x = torch.exp(x[:, : y.shape[0]])
    x = x / (x.square().sum(-1, keepdim=True) + 1).sqrt()
    return (x.t() - y).abs().amax(-1)


@pytest.mark.parametrize("program, shapes", [(gated_columns, [(140, 2100), (1001, 140)]), (normed_columns, [(140, 1100), (1001, 140)])])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["f32", "bf16", "f16"])
def test_right(program, shapes, dtype):
    torch.manual_seed(0)
    text = assert_right(program, tuple(torch.randn(s).to(dtype) for s in shapes))
    assert "@recomputed" in text and launches(text) == 2, text[:3000]
