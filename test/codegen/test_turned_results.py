"""Maps that compute along what they read, and write their results through shared memory."""

from dataclasses import replace

import choices
import pytest
import torch
from scheduled_program import assert_right_changed, launches

from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.schedule.maps.pointwise import parse_pointwise
from inferno.schedule.maps.transposed_gathers import transposed_gathers
from inferno.schedule.maps.turned_results import turned, turning
from inferno.target import find_target

F = torch.nn.functional


def flat(x):
    return x.flatten(2).transpose(1, 2).contiguous()


def resized(x, y):
    return flat(F.interpolate(x * y[:, :, :1, :1], size=(x.shape[2] * 3 // 4, x.shape[3] * 3 // 4), mode="bilinear", align_corners=True))


def reflected(x, y):
    n, c, h, w = x.shape
    return flat(F.hardswish(F.pad((x + y).view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w), (1, 1, 1, 1), "reflect")))


def averaged(x, y):
    return flat(torch.sigmoid(F.avg_pool2d(x, 3, 1, 1)) + y)


def by_columns(x, y):
    """Of which each row of points is gathered."""
    return F.interpolate(x - y, scale_factor=2).permute(3, 2, 0, 1).contiguous()


def turn(kernel, schedule):
    """A tile of results wherever one is possible, however small."""
    point = parse_pointwise(kernel, views=True) if schedule.generator == "elementwise" else None
    if point is None or transposed_gathers(point) is not None or (across := turned(point)) is None:
        return schedule
    threads, tile = turning(point, across, 132)
    return replace(schedule, threads=threads, vector=1, unroll=1, across=1, tile=tile, windows=False)


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("program", [resized, reflected, averaged, by_columns])
@pytest.mark.parametrize("shape", [(2, 32, 24, 28), (1, 40, 23, 87), (3, 18, 30, 33)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_right(program, shape, dtype):
    text, schedule = assert_right_changed(program, shape, dtype, turn)
    assert launches(text) == 1 and schedule.tile, text[:4000]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("program", [resized, reflected, averaged])
@pytest.mark.parametrize("shape", [(1, 384, 56, 56), (11, 96, 32, 32)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_large_ones_have_tiles(program, shape, dtype):
    args = tuple(torch.ones(shape, dtype=dtype) for _ in range(2))
    text = build_from("torch", capture(program, args).text, find_target("sm_90a"), last="scheduled").stages["scheduled"]
    assert launches(text) == 1 and "tile = 0" not in text, text[:4000]


def test_few_points_have_none():
    args = (torch.ones(1, 32, 14, 14), torch.ones(1, 32, 14, 14))
    text = build_from("torch", capture(resized, args).text, find_target("sm_90a"), last="scheduled").stages["scheduled"]
    assert launches(text) == 1 and "tile = 0" in text, text[:4000]


def test_small_images_that_become_large_are_transposed_first():
    """What a thread computes of each of their points would take longer than vectors of channels."""
    def maps(*images):
        return torch.cat([F.interpolate(x, size=(128, 128), mode="bilinear") for x in images], 1).permute(0, 2, 3, 1).contiguous()

    args = tuple(torch.ones(4, 256, 16, 16, dtype=torch.bfloat16) for _ in range(2))
    text = build_from("torch", capture(maps, args).text, find_target("sm_90a"), last="scheduled").stages["scheduled"]
    assert launches(text) == 2 and "vector = 8" in text, text[:4000]


def test_sizes_that_vary_have_none():
    x = torch.randn(12, 64, 128)
    model = lambda x: x[:, :, torch.arange(256).clamp(max=127)].transpose(1, 2).contiguous()  # noqa: E731
    assert "tile = 0" in choices.scheduled(model, (x,), dynamic_shapes=({1: torch.export.Dim("n", min=2)},))
