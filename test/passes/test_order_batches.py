"""Products side by side whose batch the program says innermost: right, and whole matrices in memory between."""

import pytest
import torch
from checks import check, scheduled

import inferno


def chunks(c, b, x, decay):
    """As a Mamba-2 layer's chunks."""
    scores = torch.einsum("clhn,cshn->clsh", c, b) * decay.permute(0, 2, 3, 1)
    return torch.einsum("clsh,cshp->clhp", scores, x)


def read_twice(c, b, x, decay):
    scores = torch.einsum("clhn,cshn->clsh", c, b)
    return torch.einsum("clsh,cshp->clhp", scores, x), scores.amax(1)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model", [chunks, read_twice])
def test_right(model, dtype):
    torch.manual_seed(0)
    args = tuple(torch.randn(s).to(dtype) for s in ((2, 24, 3, 16), (2, 24, 3, 16), (2, 24, 3, 8), (2, 3, 24, 24)))
    found = check(inferno.compile(model, args), model, args)
    assert found.right, str(found)
    assert model is read_twice or "tensor<2x24x24x3x" not in scheduled(model, args, last="fused").stages["fused"]
