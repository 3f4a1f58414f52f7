"""Images that are cropped, shuffled, resized and put together on a GPU: one kernel each, and the numbers, small and large."""

import sys
from pathlib import Path

import pytest
import torch
from checks import assert_right

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from test_lift_slices import F, cropped_pixels, cropped_then_shuffled, resized, rolled_pixels, shuffle, shuffled_then_cropped
from test_merge_phases import focused, merged

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SHAPES = ((2, 8, 14, 14), (3, 64, 28, 31), (8, 96, 56, 56))


def gated(x, y):
    """A residual, a channel shuffle, squeeze and excite, and a crop."""
    x = shuffle(x + y)
    return (x * torch.sigmoid(x.mean((2, 3), keepdim=True)) + y)[:, :, 1:, 1:]


def normalised(x, y):
    return F.group_norm(shuffle(x * y), 4)[:, :, 2:, 1:-1]


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("last", (False, True), ids=("first", "last"))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("model", (cropped_then_shuffled, shuffled_then_cropped, cropped_pixels, rolled_pixels, gated, normalised))
def test_images(model, shape, last, dtype):
    torch.manual_seed(0)
    layout = torch.channels_last if last else torch.contiguous_format
    args = tuple(torch.randn(shape, device="cuda").to(dtype).contiguous(memory_format=layout) for _ in range(2))
    launches = assert_right(model, args).explain().launches
    assert launches == 1 or last or model is normalised or (model is gated and shape == SHAPES[-1])  # (long rows are cropped behind their kernel)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_resized(shape, dtype):
    torch.manual_seed(0)
    assert_right(resized, (torch.randn(shape, device="cuda").to(dtype), torch.randn(shape[1], 1, 1, device="cuda").to(dtype)))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("shape", ((2, 6, 8, 16), (1, 56, 56, 96), (16, 28, 28, 192)), ids=str)
def test_merged_patches(shape, dtype):
    torch.manual_seed(0)
    x, w = torch.randn(shape, device="cuda").to(dtype), torch.randn(4 * shape[-1], device="cuda").to(dtype)
    assert assert_right(merged, (x, w)).explain().launches == 1
    image = x.permute(0, 3, 1, 2).contiguous()
    assert assert_right(focused, (image, w)).explain().launches == 1
