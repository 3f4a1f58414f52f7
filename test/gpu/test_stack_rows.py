"""First convolutions of networks on a GPU, with the rows that windows span stacked as channels."""

import pytest
import torch
from checks import assert_right
from torch import nn

import inferno

# channels, features, window, stride, padding, size
STEMS = {
    "resnet": (3, 64, 7, 2, 3, 224),
    "mobilenet": (3, 32, 3, 2, 1, 224),
    "efficientnet, odd": (3, 48, 3, 2, 0, 299),
    "vgg": (3, 64, 3, 1, 1, 112),
    "gray": (1, 32, 5, 1, 2, 128),
    "segformer": (3, 64, 7, 4, 3, 224),
}


def stem(channels, features, window, stride, padding, dtype=torch.bfloat16):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(channels, features, window, stride, padding, bias=False), nn.BatchNorm2d(features), nn.ReLU()).eval().to("cuda", dtype)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", STEMS)
def test_right(name, layout):
    *form, size = STEMS[name]
    model = stem(*form).to(memory_format=layout)
    compiled = assert_right(model, (torch.randn(16, form[0], size, size, device="cuda").bfloat16().contiguous(memory_format=layout),))
    stacked = name != "gray"  # by the estimates
    assert ("arith.remui" in compiled.ir("fused") and '"wgmma"' in compiled.ir("scheduled")) == stacked


def test_frozen_and_any_number_of_images():
    *form, size = STEMS["resnet"]
    x = torch.randn(8, 3, size, size, device="cuda").half()
    assert_right(stem(*form, dtype=torch.float16), (x,), freeze=True)
    assert_right(stem(*form, dtype=torch.float16), (x,), dynamic_shapes=({0: torch.export.Dim("n", max=64)},))


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_what_is_not_finite_stays_in_its_windows(number):
    *form, size = STEMS["resnet"]
    model, x = stem(*form)[0], torch.randn(2, 3, size, size, device="cuda").bfloat16()
    x[0, 1, 7, 8] = number
    assert torch.equal(inferno.compile(model, (x,), fallback=False)(x).isfinite(), model(x).isfinite())
