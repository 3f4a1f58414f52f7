"""Slices next to reshapes go in front of what is computed, and gathers behind reshapes: a crop and a channel shuffle are one kernel."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")


def shuffle(x, groups=2):
    n, c, h, w = x.shape
    return x.reshape(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


def cropped_then_shuffled(x, y):
    return shuffle((x * y)[:, :, 1:, 1:]) + 1


def shuffled_then_cropped(x, y):
    return torch.relu(shuffle(x + y))[:, :, 1:, 2:]


def cropped_pixels(x, y):
    """Pixels of which a border is cut off: its rows are parts of no rows of channels."""
    return F.pixel_shuffle(x + y, 2)[:, :, 1:-1, 3:] * 2


def rolled_pixels(x, y):
    return F.pixel_shuffle(torch.relu(x), 2).roll((1, 2), (2, 3)) + F.pixel_shuffle(y, 2)


def every_second(x, y):
    """Every second row of pairs is a part of the reshaped argument."""
    return x[:, 1::2].unflatten(1, (-1, 2)).sum(2) * 3 + y


def resized(x, y):
    return F.interpolate(shuffle((x * y)[:, :, 1:, 1:]), scale_factor=2, mode="bilinear")


def tokens_as_images(x, y):
    return (x + y)[:, 1:].reshape(2, 4, 6, -1).permute(0, 3, 1, 2) * 2


def windows_put_together(x, y):
    """Of windows of 3x3 that cover more than the image."""
    return x.view(2, 2, 2, 3, 3, 16).permute(0, 1, 3, 2, 4, 5).reshape(2, 6, 6, 16)[:, :5, :4].reshape(2, 20, 16) + y


def halves(x, y):
    """Two slices of one tensor that is computed, each reshaped."""
    a, b = (x * y).chunk(2, 1)
    return shuffle(a[:, :, 1:]) + 1, b.flatten(2)[..., 2:] * 2


IMAGES = (cropped_then_shuffled, shuffled_then_cropped, cropped_pixels, rolled_pixels)
ROWS = {
    every_second: ((2, 16, 24), (2, 4, 24)), tokens_as_images: ((2, 25, 16), (25, 16)), windows_put_together: ((8, 9, 16), (2, 20, 16)),
    resized: ((2, 4, 9, 40), (4, 1, 1)),
}


def _images(dtype: torch.dtype, last: bool) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    layout = torch.channels_last if last else torch.contiguous_format
    return tuple(torch.randn(2, 8, 6, 8).mul(4).to(dtype).contiguous(memory_format=layout) for _ in range(2))


def _check_one_kernel(model, args) -> None:
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), expand=True)
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("last", (False, True), ids=("first", "last"))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("model", IMAGES)
def test_images(model, dtype, last):
    _check_one_kernel(model, _images(dtype, last))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("model", ROWS)
def test_rows(model, dtype):
    torch.manual_seed(0)
    _check_one_kernel(model, tuple(torch.randn(s).mul(4).to(dtype) for s in ROWS[model]))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_several_slices(dtype):
    args = _images(dtype, False)
    found = check(SimulatedModel(halves, args, choose=lambda k: assign.choose(k, TARGET), expand=True), halves, args)
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize(
    ("size", "mode", "dtype"), ((13, "bilinear", torch.bfloat16), (20, "nearest", torch.float32), (5, "bicubic", torch.float32)), ids=str,
)
def test_shuffled_images_are_resized_where_they_lie(size, mode, dtype):
    """No shuffled image is written, nor the weights of its channels."""
    def model(x, s):
        return F.interpolate(shuffle((x * s)[:, :, 1:, 1:]), size=(size, size), mode=mode)

    args = torch.empty(1, 384, 24, 24, dtype=dtype), torch.empty(1, 384, 1, 1, dtype=dtype)
    report = inferno.compile(model, args, target="sm_90a").explain()
    assert report.launches <= (1 if mode != "bicubic" else 2)


def test_what_is_made_of_sums_is_computed_whole():
    """A slice of a norm's result is taken behind it: its rows are gone over once."""
    def model(x):
        return F.layer_norm(x, (64,)).unflatten(-1, (8, 8))[..., 1:]

    assert inferno.compile(model, (torch.empty(32, 64),), target="sm_90a").explain().launches <= 2
