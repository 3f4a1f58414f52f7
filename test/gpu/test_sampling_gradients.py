"""Gradients of what is sampled, pooled or put where a mask says: against float64.  Sums that meet in memory come in any order."""

import pytest
import torch

import inferno

F = torch.nn.functional


def right(model, given):
    """Of ``given`` those that are floating-point are trained; nothing runs in eager."""
    def gradients(function, args):
        args = [a.detach().requires_grad_() if a.is_floating_point() else a for a in args]
        result = function(*args)
        weights = torch.linspace(-1, 1, result.numel(), device=result.device, dtype=torch.float64).reshape(result.shape).to(result.dtype)
        return torch.autograd.grad((result * weights).sum(), [a for a in args if a.requires_grad])

    torch._dynamo.reset()
    inferno.stats(reset=True)
    found = gradients(torch.compile(model, backend="inferno"), given)
    assert inferno.stats().fallbacks == 0
    eager, exact = gradients(model, given), gradients(model, [a.double() if a.is_floating_point() else a for a in given])
    for ours, theirs, wide in zip(found, eager, exact, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        error = lambda t, w=wide: torch.linalg.vector_norm(t.double() - w) / torch.linalg.vector_norm(w).clamp(min=1e-30)  # noqa: E731
        assert error(ours) <= max(1.5 * error(theirs), torch.finfo(ours.dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("channels", [3, 32])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_pictures(mode, padding, channels, dtype):
    torch.manual_seed(0)
    x, grid = torch.randn(2, channels, 40, 50, device="cuda", dtype=dtype), (torch.rand(2, 60, 30, 2, device="cuda") * 2.4 - 1.2).to(dtype)
    if mode == "nearest":  # what it changes with the grid is nothing
        right(lambda x: F.grid_sample(x, grid.to(x.dtype), mode=mode, padding_mode=padding, align_corners=False), (x,))
        return
    if dtype == torch.float32:
        right(lambda x, g: F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=False), (x, grid))
        return
    # Of a grid of 16 bits float64 has the same places.
    right(lambda x: F.grid_sample(x, grid.to(x.dtype), mode=mode, padding_mode=padding, align_corners=False), (x,))


@pytest.mark.parametrize("align_corners", [True, False])
def test_volumes_and_what_cudnn_would_do(align_corners):
    torch.manual_seed(0)
    sample = lambda x, g: F.grid_sample(x, g, align_corners=align_corners)  # noqa: E731
    right(sample, (torch.randn(2, 8, 10, 11, 12, device="cuda"), torch.rand(2, 6, 7, 8, 3, device="cuda") * 2.4 - 1.2))
    right(sample, (torch.randn(2, 8, 40, 41, device="cuda"), torch.rand(2, 30, 20, 2, device="cuda") * 2.4 - 1.2))


def test_points_outside_are_left_out():
    """All of them, at one corner: nothing is added there."""
    x, grid = torch.randn(1, 8, 9, 9, device="cuda"), torch.full((1, 500, 500, 2), 7.0, device="cuda")
    found = torch.autograd.grad(torch.compile(lambda x: F.grid_sample(x, grid, align_corners=False), backend="inferno")(x.requires_grad_()).sum(), x)[0]
    assert not found.any()


@pytest.mark.parametrize("name", ["volume 3 by 2", "volume 3 by 1", "adaptive", "fractional", "antialiased", "masked"])
def test_others(name):
    torch.manual_seed(0)
    on = {"device": "cuda"}
    mask, samples = torch.rand(4, 100, 1, **on) > 0.5, torch.rand(2, 8, 2, **on)
    model, given = {
        "volume 3 by 2": (lambda x: F.max_pool3d(x, 3, 2, 1), [torch.randn(2, 8, 9, 20, 21, **on)]),
        "volume 3 by 1": (lambda x: F.max_pool3d(x, 3, 1, 1), [torch.randn(2, 8, 9, 20, 21, **on)]),
        "adaptive": (lambda x: F.adaptive_max_pool2d(x, (5, 7)), [torch.randn(4, 16, 32, 33, **on)]),
        "fractional": (lambda x: F.fractional_max_pool2d(x, 2, output_size=(13, 14), _random_samples=samples.to(x.dtype)), [torch.randn(2, 8, 20, 21, **on)]),
        "antialiased": (lambda x: F.interpolate(x, (17, 19), mode="bicubic", antialias=True), [torch.randn(2, 3, 40, 50, **on)]),
        "masked": (lambda x, s: x.masked_scatter(mask.expand(x.shape), s) * 2, [torch.randn(4, 100, 64, **on), torch.randn(400, 64, **on)]),
    }[name]
    right(model, given)
