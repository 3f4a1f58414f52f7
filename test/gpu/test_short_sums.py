"""Products of few terms: what all tiles have in common is kept, and results are written as one piece of memory or by threads; numbers against float64."""

import pytest
import torch
from checks import assert_right
from fixed_schedules import F, right
from on_gpu import on_hopper

from inferno.schedule.matmul.wgmma_schedule import Wgmma

pytestmark = on_hopper


def normalized(x, w, mean, scale, shift):
    return F.silu((F.linear(x, w) - mean) * scale + shift)


@pytest.mark.parametrize("m, k, n, schedule", [
    (40100, 16, 96, Wgmma(256, 96, 20, 2, row=32, kept=1)), (40100, 24, 144, Wgmma(64, 144, 12, 2, pingpong=True, row=64, line=288, buffers=1, kept=1)),
    (40100, 40, 240, Wgmma(64, 240, 6, 2, pingpong=True, line=480, buffers=1, kept=1)), (40100, 96, 24, Wgmma(128, 24, 8, 2, pingpong=True, line=48, kept=2)),
    (40100, 32, 32, Wgmma(256, 32, 10, 2, row=64, by_threads=True, kept=1)), (6270, 112, 672, Wgmma(128, 96, 8, 2, pingpong=True, by_threads=True)),
    (330, 24, 40, Wgmma(128, 40, 4, 2, row=64, line=80, buffers=1, kept=1, inside=True)),
], ids=["boxes", "a piece", "wide", "two steps", "threads", "not kept", "inside"])
def test_numbers(m, k, n, schedule):
    right(schedule, normalized, (m, k), (n, k), (n,), (n,), (n,))


@pytest.mark.parametrize("images, inner, outer", [(32, 24, 144), (32, 40, 240), (8, 16, 96), (3, 72, 24)])
def test_layers_of_networks(images, inner, outer):
    """As they are chosen."""
    layer = torch.nn.Sequential(torch.nn.Conv2d(inner, outer, 1, bias=False), torch.nn.BatchNorm2d(outer), torch.nn.SiLU()).eval().cuda().bfloat16()
    image = torch.randn(images, inner, 29, 31, device="cuda").bfloat16().to(memory_format=torch.channels_last)
    assert_right(layer.to(memory_format=torch.channels_last), (image,))
