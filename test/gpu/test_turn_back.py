"""Kernels that begin with the end of what the kernel before them has gone over, on a GPU."""

import pytest
import torch
from checks import assert_right
from on_gpu import on_hopper

pytestmark = on_hopper


def batch_norm(x):
    return torch.nn.functional.batch_norm(x, None, None, training=True)


@pytest.mark.parametrize("model, shape", [
    (lambda x: torch.softmax(x, 0), (100003, 222)), (lambda x: torch.softmax(torch.softmax(x, 0), -1).sum(-1), (70001, 300)),
    (lambda x: x * torch.tanh(x).sum(0), (9001, 4096)), (batch_norm, (200003, 96)),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_tensors(model, shape, dtype):
    torch.manual_seed(0)
    compiled = assert_right(model, (torch.randn(shape, device="cuda").to(dtype),))
    assert "backwards = true" in compiled.ir("scheduled")
