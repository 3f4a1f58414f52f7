"""Depthwise convolutions of large windows, groups of few channels, and groups in three dimensions, on a GPU."""

import pytest
import torch
from checks import check, poison_memory
from large_windows import LAYERS
from torch import nn

import inferno


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LAYERS)
def test_large_windows(name, dtype, last):
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    layer, x = make().to("cuda", dtype).requires_grad_(False), torch.randn(shape, device="cuda", dtype=dtype)
    x = x.contiguous(memory_format=torch.channels_last) if last and x.dim() == 4 else x
    compiled = inferno.compile(layer, (x,))
    poison_memory()
    found = check(compiled, layer, (x,))
    assert found.right, str(found)


@pytest.mark.parametrize("channels", [4, 8, 16])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [7, 28])
def test_merged_groups(channels, stride, size):
    """By TF32, whose rounding unit is 2**-10."""
    torch.manual_seed(0)
    layer = nn.Conv2d(32 * channels, 32 * channels, 3, stride, 1, groups=32).cuda().requires_grad_(False)
    x = torch.randn(8, 32 * channels, size, size, device="cuda")
    compiled = inferno.compile(layer, (x,))
    poison_memory()
    found = check(compiled, layer, (x,), unit=2**-10)
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("groups, stride", [(32, 1), (32, 2), (4, 1)])
def test_volumes(groups, stride, dtype):
    torch.manual_seed(0)
    layer = nn.Conv3d(32, 32, 3, stride, 1, groups=groups).to("cuda", dtype).requires_grad_(False)
    x = torch.randn(2, 32, 8, 14, 15, device="cuda", dtype=dtype)
    compiled = inferno.compile(layer, (x,))
    poison_memory()
    found = check(compiled, layer, (x,), unit=2**-10 if dtype == torch.float32 else None)
    assert found.right, str(found)
