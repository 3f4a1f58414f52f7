"""Concatenations that are turned: pieces that lie along another loop than the result are picked from tiles, in their branches alone."""

import pytest
import torch
from scheduled_program import assert_right

F = torch.nn.functional


def turned(x, y, z):
    return torch.cat((x, y), -1).t().contiguous()


def computed(x, y, z):
    return torch.cat((torch.where((a := x * z[:, :1]) > 0, a, y), z), -1).t().contiguous()


def from_both_orders(x, y, z):
    """Of pieces that lie as the result does, and that do not."""
    w = torch.tanh(torch.cat((x.t() * y.reshape(x.t().shape), z.t()), -1)).t()
    return torch.where(w > 0, w, torch.cat((y, x), 0)).contiguous()


def three(x, y, z):
    return F.gelu(torch.cat((x, y, z), -1)).t().contiguous()


def flipped(x, y, z):
    return torch.cat((x.flip(-1), y), -1).t().contiguous()


def of_images(x, y, z):
    x, y = (t.reshape(2, -1, t.shape[1]) for t in (x, y))
    return torch.cat((x, y), -1).permute(0, 2, 1).contiguous()


@pytest.mark.covering(most=12)
@pytest.mark.parametrize("program", [turned, computed, from_both_orders, three, flipped, of_images])
@pytest.mark.parametrize("shape", [(34, 20), (130, 30), (70, 66)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(program, shape, dtype):
    torch.manual_seed(0)
    tensors = tuple(torch.randn(shape).to(dtype) for _ in range(3))
    text = assert_right(program, tensors)
    kernels = text[text.index("func.func private"):]
    assert "tile = 64" in kernels or "tile = 32" in kernels, text[:3000]
