"""Running sums of one number are maps: as exact as torch's, in any type."""

import pytest
import torch
from checks import assert_right

import inferno


def detr(x):
    """Encodings of places as DETR makes them, of a mask of no padding."""
    seen = ~torch.zeros(x.shape[0], x.shape[2], x.shape[3], dtype=torch.bool)
    wide = torch.promote_types(x.dtype, torch.float32)
    down, right = seen.cumsum(1, dtype=wide), seen.cumsum(2, dtype=wide)
    return x + (down / (down[:, -1:] + 1e-6)).sin()[:, None] + right[:, None].cos()


def sam(x):
    ones = torch.ones(x.shape[2:], dtype=x.dtype)
    return x * ((ones.cumsum(0) - 0.5) / 5 + (ones.cumsum(1) - 0.5))


def places(x):
    return x * (torch.ones(x.shape[0], x.shape[-1], dtype=torch.long).cumsum(-1) - 1)[:, None, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("model", [detr, sam, places])
def test_right(model, dtype):
    assert_right(model, (torch.randn(2, 3, 6, 7, dtype=dtype),))


@pytest.mark.parametrize("model, kernels", [(detr, 3), (sam, 1), (places, 1)])
def test_no_scan_is_left(model, kernels):
    rows = inferno.compile(model, (torch.randn(2, 3, 6, 7),), target="sm_90a").explain().rows
    assert len(rows) <= kernels and not {r.generator for r in rows} & {"scans", "universal"}


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.float16])
def test_numbers_that_wrap_around_or_are_rounded(dtype):
    def model(x):
        return torch.full((2, 300), 3, dtype=dtype).cumsum(1, dtype=dtype) + x, (torch.full((40,), 0.1) * 3).cumsum(0)

    assert_right(model, (torch.zeros(300, dtype=dtype),))


@pytest.mark.parametrize("count", [100, 500])
def test_numbers_that_are_read_twice(count):
    """Which takes no longer than there are operations."""
    def model(x):
        y = torch.ones(3, 4)
        for _ in range(count):
            y = y * 0.5 + y * 0.25
        return y.cumsum(1) + x

    assert_right(model, (torch.randn(4),))
