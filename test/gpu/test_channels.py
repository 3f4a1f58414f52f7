"""Images with few channels, which lie last, and results in which they are first, as torch has those of up to 15 channels, on a GPU."""

import pytest
import torch
from checks import assert_right
from torch import nn

F = nn.functional


def image(*shape, dtype):
    return torch.randn(shape, device="cuda").to(dtype).contiguous(memory_format=torch.channels_last)


MODES = {
    "bilinear": {"scale_factor": 2, "mode": "bilinear"}, "smaller": {"size": (75, 71), "mode": "bilinear"}, "nearest": {"scale_factor": 2},
    "corners": {"size": (200, 300), "mode": "bilinear", "align_corners": True}, "bicubic": {"size": (150, 201), "mode": "bicubic"},
}


@pytest.mark.parametrize("channels", [2, 3, 4, 6, 8, 12, 15, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_right(mode, dtype, channels):
    torch.manual_seed(0)
    x = image(4, channels, 100, 128, dtype=dtype)
    assert_right(lambda x: F.interpolate(x, **MODES[mode]).contiguous(), (x,))
    assert_right(lambda x: F.interpolate(x, **MODES[mode]), (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_thread_has_all_channels(dtype):
    torch.manual_seed(0)
    compiled = assert_right(lambda x, y: F.interpolate(x, scale_factor=2, mode="bilinear").contiguous() + y,
                            (image(4, 8, 64, 64, dtype=dtype), torch.randn(4, 8, 128, 128, device="cuda").to(dtype)))
    assert any("across = 8" in str(r.schedule) or "across=8" in str(r.schedule) for r in compiled.explain().rows), compiled.explain()
