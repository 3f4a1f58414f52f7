"""Padding by widths of both signs, of which one side may add what the other cuts off, and by elements; and more that the import gets wrong."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_right
from choices import generators

import inferno
from inferno.errors import CaptureError


@pytest.mark.covering
@pytest.mark.parametrize("widths", [(1, -1), (-2, 2, 3, -1), (-1, -1), (0, 2, -3, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_widths_of_both_signs(widths, dtype):
    x = torch.arange(35, dtype=dtype).reshape(5, 7)
    assert_right(lambda x: F.pad(x, widths, value=-2), (x,), target="cpu")


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("shape, widths", [
    ((2, 3, 5, 7), (3, 2, 1, 4)), ((3, 6), (2, 0)), ((2, 3, 4, 5, 6), (1, 2, 0, 1, 2, 1)), ((2, 3, 5, 7), (-1, 2, 1, -2)),
    ((2, 3, 5, 7), (0, 0, 1, 4)), ((2, 3, 5, 7), (2, 0, 0, 0)), ((2, 3, 4, 5, 6), (1, 2, 0, 0, 2, 1)), ((2, 3, 4, 5, 6), (0, 0, 3, 1, 0, 0)),
], ids=str)
def test_by_elements(mode, shape, widths):
    x = torch.randn(shape) if len(shape) != 4 else torch.randn(shape).to(memory_format=torch.channels_last)
    assert_right(lambda x: F.pad(x, widths, mode=mode), (x,), target="cpu")


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_by_nothing(mode):
    """As convolutions of one element pad that are made like their neighbours: a product alone is left, and what is given back is no view."""
    x, w = torch.randn(8, 16, 20, 20), torch.randn(8, 16, 1, 1)
    assert generators(lambda x, w: F.conv2d(F.pad(x, (0, 0, 0, 0), mode=mode), w), (x, w)) == generators(F.conv2d, (x, w))
    padded = inferno.compile(lambda x: F.pad(x, (0, 0, 0, 0), mode=mode), (x,), target="cpu", fallback=False)(x)
    assert torch.equal(padded, x) and padded.data_ptr() != x.data_ptr()


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("shifts, dims", [(-5, 0), (7, 1), ((1, -9), (0, 1)), ((2, 3), (1, 1)), (7, ()), (0, 0)], ids=str)
def test_rolls_beyond_the_length(shifts, dims):
    assert_right(lambda x: x.roll(shifts, dims), (torch.randn(2, 5),), target="cpu")


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("factor, mode", [(2, "nearest"), ((4, 1), "nearest"), (2, "nearest-exact"), (3, "nearest"), (1.5, "nearest")], ids=str)
@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_nearest(factor, mode, format):
    x = torch.randn(2, 3, 5, 7).to(memory_format=format)
    assert_right(lambda x: F.interpolate(x, scale_factor=factor, mode=mode), (x,), target="cpu")


def test_booleans_are_compared_with_integers():
    x = torch.arange(-9, 9, dtype=torch.int32)
    assert_right(lambda x: ((x > 3) >= x, (x > 3) < x, x <= (x > 3), (x > 3) > x.long()), (x,), target="cpu")


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [0, -1])
def test_scatters(dtype, dim):
    """Tables of places that are smaller than the tensor, and sources that are larger."""
    x, source = (torch.randn(s).mul(9).to(dtype) for s in ((6, 5, 7), (5, 5, 8)))
    places = torch.randperm(6)[:4].reshape(4, 1, 1).expand(4, 5, 6) if dim == 0 else torch.randperm(7)[:6].expand(4, 5, 6)
    assert_right(lambda x, i, s: (x.scatter(dim, i, s), x.scatter(dim, i, 1), x.scatter_add(dim, i, s)), (x, places.contiguous(), source), target="cpu")


def test_widths_that_vary():
    """What is known to cut off is a slice; what cuts off for some sizes, and adds for others, is refused: memory behind the result would be written."""
    sizes = ({1: torch.export.Dim("n", min=3, max=100)},)
    halved = lambda x: F.pad(x, (x.shape[1] - 2, -(x.shape[1] // 2))).exp()  # noqa: E731
    compiled = inferno.compile(halved, (torch.randn(3, 7),), dynamic_shapes=sizes, target="cpu", fallback=False)
    for n in (3, 5, 6, 40):
        x = torch.randn(3, n)
        torch.testing.assert_close(compiled(x), halved(x))
    with pytest.raises(CaptureError, match="a padding by .* elements, which for some sizes are less than none"):
        inferno.compile(lambda x: F.pad(x, (0, 5 - x.shape[1])).exp(), (torch.randn(3, 7),), dynamic_shapes=sizes, target="cpu", fallback=False)


@pytest.mark.covering
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("shape, pad", [((2, 3, 5, 6), (1, 2, 3, 1)), ((2, 3, 5), (0, 2)), ((3, 5), (5, 5)), ((3, 5), (-1, 2)), ((2, 3, 4, 5, 6), (1,) * 6)])
def test_borders_that_go_around_under_torch_compile(shape, pad, train):
    """They are one copy, with gradients as without, and lie as torch's."""
    def model(x):
        return F.pad(x, pad, mode="circular") * 2

    torch.manual_seed(0), torch._dynamo.reset()
    own = torch.randn(shape, requires_grad=train)
    other = own.detach().clone().requires_grad_(train)
    found, expected = torch.compile(model, backend="inferno", fullgraph=True)(own), model(other)
    assert torch.equal(found, expected) and found.stride() == expected.stride()
    if train:
        torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), x)[0] for y, x in ((found, own), (expected, other))))


def test_a_border_of_channels_last_lies_as_torch_has_it():
    x = torch.randn(2, 8, 5, 6).to(memory_format=torch.channels_last)

    def model(x):
        return F.pad(x, (1, 1, 1, 1), mode="circular") + 1

    for compiled in (inferno.compile(model, (x,)), torch.compile(model, backend="inferno")):
        assert compiled(x).stride() == model(x).stride()
