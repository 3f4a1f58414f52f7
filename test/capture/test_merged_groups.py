"""Groups of few channels that become one: the numbers, and when they do."""

import pytest
import torch
from checks import check
from choices import generators
from torch import nn

import inferno
from inferno.capture.decompositions import merged_groups
from inferno.capture.devices import capturing_for

LAYERS = {
    "4 channels": (lambda: nn.Conv2d(32, 32, 3, padding=1, groups=8), (2, 32, 9, 10)),
    "8 channels by 2": (lambda: nn.Conv2d(64, 32, 3, 2, 1, groups=8, bias=False), (1, 64, 9, 10)),
    "16 channels, dilated": (lambda: nn.Conv2d(64, 64, 3, padding=2, dilation=2, groups=4), (2, 64, 9, 10)),
    "more features": (lambda: nn.Conv2d(32, 96, 1, groups=4), (2, 32, 5, 5)),
    "1d": (lambda: nn.Conv1d(64, 64, 5, padding=2, groups=8), (2, 64, 33)),
    "3d": (lambda: nn.Conv3d(32, 32, 3, padding=1, groups=4), (1, 32, 4, 5, 5)),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", LAYERS)
def test_numbers(monkeypatch, name):
    monkeypatch.setattr(merged_groups, "for_hopper", lambda tensor: True)
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    layer, args = make().requires_grad_(False), (torch.randn(shape),)
    assert merged_groups._together(args[0], layer.weight, layer.groups) == 32 // layer.weight.shape[1]
    found = check(inferno.compile(layer, args), layer, args)
    assert found.right, str(found)


def _generators(layer: nn.Module, *shape: int, target: str = "sm_90a") -> list[str]:
    return generators(layer.requires_grad_(False), (torch.empty(shape).contiguous(memory_format=torch.channels_last),), target)


def test_by_tensor_cores():
    assert "im2col" in _generators(nn.Conv2d(256, 256, 3, padding=1, groups=32), 16, 256, 28, 28)


@pytest.mark.parametrize("layer, images", [
    (nn.Conv2d(128, 128, 3, padding=1, groups=32), 1),  # cuDNN has a kernel in float32
    (nn.Conv2d(64, 64, 3, padding=1, groups=64), 16),  # depthwise
    (nn.Conv2d(96, 96, 3, padding=1, groups=16), 16),  # 6 channels
    (nn.Conv2d(40, 40, 3, padding=1, groups=5), 16),  # 4 groups of 5
    (nn.Conv2d(128, 128, 3, padding=1, groups=4), 16),  # enough channels
])
def test_what_stays(layer, images):
    x = torch.empty(images, layer.in_channels, 28, 28)
    with capturing_for(True):
        assert merged_groups._together(x, layer.weight, layer.groups) == 1


def test_only_where_float32_may_be_rounded(monkeypatch):
    layer, x = nn.Conv2d(256, 256, 3, padding=1, groups=32), torch.empty(16, 256, 28, 28)
    with capturing_for(True):
        assert merged_groups._together(x, layer.weight, layer.groups) == 4
        assert merged_groups._together(x.bfloat16(), layer.weight.bfloat16(), layer.groups) == 1
        with monkeypatch.context() as patch:
            patch.setattr(merged_groups, "takes_tf32_convolutions", lambda: False)
            assert merged_groups._together(x, layer.weight, layer.groups) == 1
    assert merged_groups._together(x, layer.weight, layer.groups) == 1, "for a CPU"
