"""Gradients of images that are sampled where a grid says: numbers against torch's in float64, and which kernels they are."""

import itertools

import pytest
import torch
from checks import check, scheduled
from universal_program import SimulatedModel

from inferno.capture.decompositions import own
from inferno.capture.devices import capturing_for

aten = torch.ops.aten
MODES, PADDINGS = {"bilinear": 0, "nearest": 1, "bicubic": 2}, {"zeros": 0, "border": 1, "reflection": 2}


def gradients(rank, mode, padding, align_corners, mask=(True, True)):
    op = getattr(aten, f"grid_sampler_{rank}d_backward").default
    return lambda grad, x, grid: op(grad, x, grid, MODES[mode], PADDINGS[padding], align_corners, list(mask))


def inputs(rank, channels, dtype=torch.float32, sizes=(6, 7, 5), points=(4, 5, 3)):
    """Points inside and outside of the image."""
    x, grid = torch.randn(2, channels, *sizes[:rank]), torch.rand(2, *points[:rank], rank) * 4 - 2
    return tuple(t.to(dtype) for t in (torch.randn(2, channels, *points[:rank]), x, grid))


@pytest.mark.covering
@pytest.mark.parametrize("channels", [3, 5])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("rank,mode", [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")])
def test_as_torch_has_them(rank, mode, padding, channels):
    """Elements one by one and rows of channels; also an image of one row."""
    for align_corners, sizes in itertools.product((True, False), ((6, 7, 5), (1, 7, 5))):
        args = inputs(rank, channels, torch.float64, sizes)
        op, more = getattr(aten, f"grid_sampler_{rank}d_backward").default, (MODES[mode], PADDINGS[padding], align_corners, [True, True])
        for ours, theirs in zip(own()[op](*args, *more), op(*args, *more), strict=True):
            assert ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-12, atol=1e-12), (align_corners, sizes)


def test_what_torch_asks_cudnn_for():
    grad, x, grid = inputs(2, 5, torch.float64)
    expected = aten.grid_sampler_2d_backward.default(grad, x, grid, 0, 0, True, [True, True])
    found = own()[aten.cudnn_grid_sampler_backward.default](x, grid, grad)
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(found, expected, strict=True))
    sampled = own()[aten.cudnn_grid_sampler.default](x, grid)
    assert torch.allclose(sampled, torch.nn.functional.grid_sample(x, grid, align_corners=True), rtol=1e-12, atol=1e-12)


def test_an_image_that_needs_no_gradient():
    op = aten.grid_sampler_2d_backward.default
    of_image, of_grid = own()[op](*inputs(2, 5), 0, 0, False, [False, True])
    assert of_image is None and of_grid.shape == (2, 4, 5, 2)


def test_an_infinite_element_outside_is_left_out():
    """What a point reads at the edge is no zero times an element that is infinite."""
    x = torch.full((1, 4, 2, 2), torch.inf)
    grid = torch.tensor([[[[-5.0, 0.0], [9.0, 9.0]]]])
    _, of_grid = own()[aten.grid_sampler_2d_backward.default](torch.ones(1, 4, 1, 2), x, grid, 0, 0, False, [True, True])
    assert torch.equal(of_grid, torch.zeros_like(of_grid))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("channels,mode", [(3, "bilinear"), (8, "bilinear"), (8, "nearest")])
def test_on_a_simulated_gpu(channels, mode, dtype):
    """What lies outside is left out there."""
    torch.manual_seed(0)
    model, args = gradients(2, mode, "zeros", False), inputs(2, channels, dtype)
    with capturing_for(True):
        built = SimulatedModel(model, args)
    found = check(built, model, args)
    assert found.right, str(found)


def test_rows_are_added_by_vectors():
    model, args = gradients(2, "bilinear", "zeros", False), inputs(2, 32, sizes=(50, 50), points=(300, 8))
    text = scheduled(model, args).stages["scheduled"]
    assert text.count('generator = "row_sums"') == 1 and 'generator = "universal"' not in text
