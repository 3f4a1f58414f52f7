"""Convolutions in groups of three dimensions: the numbers, and that they are compiled."""

import pytest
import torch
from checks import check
from choices import generators
from torch import nn

import inferno
from inferno.capture.decompositions import grouped_volumes

LAYERS = {
    "depthwise": lambda: nn.Conv3d(8, 8, 3, padding=1, groups=8),
    "depthwise by 2": lambda: nn.Conv3d(8, 8, 3, 2, 1, groups=8, bias=False),
    "dilated": lambda: nn.Conv3d(8, 16, (3, 2, 3), (1, 2, 1), (2, 0, 1), (2, 1, 1), groups=4),
    "one tap": lambda: nn.Conv3d(8, 8, (1, 3, 3), padding=(0, 1, 1), groups=8),
    "along the first dimension": lambda: nn.Conv3d(8, 24, (5, 1, 1), (2, 1, 1), (2, 0, 0), groups=8),
    "around": lambda: nn.Conv3d(8, 8, 3, padding=1, groups=2, padding_mode="circular"),
    "many taps": lambda: nn.Conv3d(8, 8, (9, 1, 1), padding=(4, 0, 0), groups=8),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", LAYERS)
def test_numbers(monkeypatch, name, dtype):
    monkeypatch.setattr(grouped_volumes, "for_hopper", lambda tensor: True)
    torch.manual_seed(0)
    layer, args = LAYERS[name]().to(dtype).requires_grad_(False), (torch.randn(2, 8, 6, 7, 8, dtype=dtype),)
    found = check(inferno.compile(layer, args), layer, args)
    assert found.right, str(found)


@pytest.mark.parametrize("groups, generator", [(64, "windows"), (8, "group_windows")])
def test_they_are_compiled(groups, generator):
    layer = nn.Conv3d(64, 64, 3, padding=1, groups=groups).bfloat16().requires_grad_(False)
    assert generator in generators(layer, (torch.empty(4, 64, 8, 28, 28, dtype=torch.bfloat16),))
