"""The decompositions of what works on images, as functions: resizing, windows, group norms."""

import pytest
import torch
from decomposition_checks import aten, check, inf, normal, same, whole

import inferno
from inferno.capture.decompositions import own
from inferno.runtime.check.comparison import compare
from inferno.tools.check import to_float64



@pytest.mark.parametrize("name,dims", [("upsample_linear1d", 1), ("upsample_bilinear2d", 2), ("upsample_trilinear3d", 3), ("upsample_bicubic2d", 2)])
@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_interpolation(name, dims, align_corners, dtype):
    packet = getattr(aten, name)
    for size in (4, 1, 7):
        x = normal(2, 3, *[size] * dims).to(dtype)
        for count in (6, 3, 1, 13):
            check(packet.default, x, [count] * dims, align_corners)
        check(packet.vec, x, None, align_corners, [1.7] * dims)
        check(packet.vec, x, [5] * dims, align_corners, None)
    x = normal(2, 3, *[4] * dims).to(memory_format={2: torch.channels_last, 3: torch.channels_last_3d}.get(dims, torch.contiguous_format))
    assert own()[packet.default](x, [5] * dims, align_corners).stride() == packet.default(x, [5] * dims, align_corners).stride()


@pytest.mark.parametrize("name", ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"])
@pytest.mark.parametrize("align", [True, False])
def test_antialiased_resizing(name, align):
    op = getattr(aten, name).default
    for size in ([4, 5], [20, 11], [1, 9], [9, 7]):
        check(op, normal(2, 3, 9, 7), size, align)
    if not align:
        check(op, normal(2, 3, 9, 7), [4, 14], align, 0.5, 2.0)


@pytest.mark.covering
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 1, 5), (2, 1, 1, 1), (2, 3, 4, 1, 6), (1, 2, 3, 2, 7)])
def test_affine_grids(size, align):
    """Also of one place in some direction, which is in the middle."""
    dims = len(size) - 2
    for dtype in (torch.float32, torch.float64):
        theta = normal(size[0], dims, dims + 1).to(dtype)
        check(aten.affine_grid_generator.default, theta, size, align)
        fast = inferno.compile(lambda t: torch.nn.functional.affine_grid(t, size, align_corners=align), (theta,), target="cpu", fallback=False)
        assert fast(theta).shape == (size[0], *size[2:], dims)


@pytest.mark.parametrize("shape, counts", [((2, 3, 4, 4), (0, 2)), ((2, 3, 4, 4), (0, 0)), ((2, 0, 4, 4), (2, 2)), ((0, 3, 4, 4), (0, 3))])
def test_adaptive_poolings_of_no_windows(shape, counts):
    means = lambda x: torch.nn.functional.adaptive_avg_pool2d(x, counts)  # noqa: E731
    maxima = lambda x: torch.nn.functional.adaptive_max_pool2d(x, counts, return_indices=True)  # noqa: E731
    x = torch.randn(shape)
    assert torch.equal(inferno.compile(means, (x,), target="cpu", fallback=False)(x), means(x))
    if shape[1]:  # of no channels there are no maxima
        for ours, eager in zip(inferno.compile(maxima, (x,), target="cpu", fallback=False)(x), maxima(x)):
            assert torch.equal(ours, eager) and ours.dtype == eager.dtype


def test_integer_maxima_of_windows():
    x = whole(2, 3, 9, 7, low=-50, high=50)
    for args in (([2],), ([3, 2], [2, 1], [1, 1]), ([2], [2], [0], [1], True), ([3], [2], [1], [1], True)):
        same(aten.max_pool2d_with_indices.default, x, *args)


@pytest.mark.parametrize("args", [
    ([2], [2], [0], [1], False), ([3, 3], [2, 2], [1, 1], [1, 1], False), ([3], [2], [1], [2], True), ([2], [3], [0], [1], False),
    ([2, 3], [1, 2], [1, 0], [1, 1], True), ([4], [1], [2], [1], False),
], ids=str)
def test_gradients_of_maxima_of_windows(args):
    x = normal(2, 3, 9, 7)
    places = aten.max_pool2d_with_indices.default(x, *args)[1]
    for dtype in (torch.float32, torch.bfloat16):
        check(aten.max_pool2d_with_indices_backward.default, normal(*places.shape).to(dtype), x.to(dtype), *args, places)


@pytest.mark.parametrize("args", [
    ([1, 3, 3], [1, 2, 2], [0, 1, 1], [1, 1, 1], False), ([1, 2, 3], [1, 2, 2], [0, 0, 0], [1, 1, 2], True), ([1, 2, 2], [], [0], [1], False),
], ids=str)
def test_maxima_of_windows_in_layers(args):
    """As those of images, with places in the volume; and their gradients."""
    x = normal(2, 3, 4, 9, 7)
    x[0, 1, 2, 3, 3] = torch.nan
    values, places = own()[aten.max_pool3d_with_indices.default](x, *args)
    expected = aten.max_pool3d_with_indices.default(x, *args)
    assert torch.equal(places, expected[1]) and torch.equal(values.nan_to_num(9), expected[0].nan_to_num(9))
    for dtype in (torch.float32, torch.bfloat16):
        check(aten.max_pool3d_with_indices_backward.default, normal(*places.shape).to(dtype), x.nan_to_num().to(dtype), *args, places)


def test_windows_that_meet_too_often_are_left_alone():
    x = normal(1, 1, 9, 9)
    value, places = aten.max_pool2d_with_indices.default(x, [5], [1])
    assert own()[aten.max_pool2d_with_indices_backward.default](value, x, [5], [1], [0], [1], False, places) is NotImplemented


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_group_norm(dtype):
    for shape, offset in (((2, 6, 5, 4), 0), ((1, 6, 3), 100), ((3, 6), 0)):
        x = (normal(*shape) + offset).to(dtype)
        size = x[0, 0].numel()
        for weight, bias in ((None, None), (normal(6).to(dtype), normal(6).to(dtype))):
            check(aten.native_group_norm.default, x, weight, bias, shape[0], 6, size, 3, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_group_norm_channels_last(monkeypatch, dtype):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    for shape, order in (((2, 6, 5, 4), torch.channels_last), ((2, 6, 3, 2, 4), torch.channels_last_3d), ((2, 6, 1, 1), torch.channels_last)):
        x = (normal(*shape) + 1).to(dtype).contiguous(memory_format=order)
        for weight, bias in ((None, None), (normal(6).to(dtype), normal(6).to(dtype))):
            check(aten.native_group_norm.default, x, weight, bias, 2, 6, x[0, 0].numel(), 3, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_group_norm_that_transposes_images(dtype):
    from inferno.capture.decompositions.normalisation import transposed_group_norm

    for shape, order in (((2, 6, 5, 4), torch.channels_last), ((2, 6, 3, 2, 4), torch.channels_last_3d)):
        x = (normal(*shape) + 1).to(dtype).contiguous(memory_format=order)
        for weight, bias in ((None, None), (normal(6).to(dtype), normal(6).to(dtype)), (normal(6).to(dtype), None)):
            mine, exact = transposed_group_norm(x, 3, weight, bias, 1e-5), to_float64((x, weight, bias))
            compared = compare(mine, aten.group_norm.default(x, 3, weight, bias), aten.group_norm.default(exact[0], 3, *exact[1:]))
            assert compared.right and mine.is_contiguous(), str(compared)


@pytest.mark.parametrize("shape, order, dtype, transposed", [
    ((2, 64, 8, 8), torch.channels_last, torch.float32, True),
    ((2, 64, 8, 8), torch.channels_last, torch.bfloat16, False),
    ((2, 64, 8, 8), torch.contiguous_format, torch.float32, False),
    ((2, 32, 8, 8), torch.channels_last, torch.float32, False),  # 32 bytes of a pixel
    ((0, 64, 8, 8), torch.channels_last, torch.float32, False),
])
def test_group_norm_of_images_on_a_gpu(shape, order, dtype, transposed):
    """Which torch would copy to channels first; its result has them first in any case."""
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(shape, dtype=dtype, device="cuda", memory_format=order)
        found = own()[aten.group_norm.default](x, 4)
    assert (found is not NotImplemented) == transposed
    assert not transposed or (found.stride() == (4096, 64, 8, 1) and found.device.type == "cuda")


@pytest.mark.parametrize("shape, kernel, padding, stride", [
    ((14, 14), (3, 3), (1, 1), (2, 2)), ((8, 12), (4, 2), (0, 1), (2, 2)), ((9, 9), (3, 3), (1, 1), (1, 1)), ((7, 9), (2, 2), (1, 0), (3, 3)),
    ((5, 6), (4, 4), (3, 1), (1, 3)),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fold(shape, kernel, padding, stride, dtype):
    """Windows that overlap, that lie side by side, and that leave something out."""
    places = [(n + 2 * p - k) // s + 1 for n, p, k, s in zip(shape, padding, kernel, stride)]
    x = normal(2, 3 * kernel[0] * kernel[1], places[0] * places[1]).to(dtype)
    x[0, 0, 0] = inf
    check(aten.col2im.default, x, shape, kernel, (1, 1), padding, stride)
    check(aten.col2im.default, x[1], shape, kernel, (1, 1), padding, stride)


def test_fold_is_one_kernel():
    fold = torch.nn.Fold((14, 14), 3, padding=1, stride=2)
    program = inferno.compile(fold, (torch.randn(2, 36, 49),), target="sm_90a", fallback=False)
    assert program.explain().launches == 1


@pytest.mark.parametrize("shape, dim, size, step", [
    ((3, 10), 1, 3, 1), ((3, 10, 4), 1, 4, 2), ((7,), 0, 2, 3), ((5, 6), -1, 6, 1), ((2, 9, 3), 0, 2, 1), ((2, 9, 3), 1, 3, 4),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_windows(shape, dim, size, step, dtype):
    """Along one dimension: they overlap, lie side by side, and leave something out."""
    grad = torch.randn(shape).unfold(dim, size, step).to(dtype)
    check(aten.unfold_backward.default, torch.randn_like(grad), list(shape), dim, size, step)


def test_gradients_of_windows_are_sums():
    """Nothing is scattered, as where attention goes over neighbours."""
    def gradient(x):
        return aten.unfold_backward.default(aten.unfold_backward.default(x, [2, 10, 10, 8, 3], 2, 3, 1), [2, 12, 10, 8], 1, 3, 1)

    program = inferno.compile(gradient, (torch.randn(2, 10, 8, 8, 3, 3),), target="sm_90a", fallback=False)
    assert "scatter" not in program.ir("linalg") and program.explain().launches == 2


@pytest.mark.parametrize("shape, kernel, padding, stride, dilation", [
    ((9, 11), (5, 5), (2, 2), (1, 1), (1, 1)), ((12, 9), (7, 4), (3, 1), (1, 1), (1, 1)), ((23, 23), (21, 20), (0, 1), (1, 2), (1, 1)),
    ((5, 6), (3, 2), (2, 1), (1, 1), (2, 3)), ((12, 13), (3, 5), (1, 4), (2, 3), (3, 2)), ((30, 31), (5, 6), (2, 0), (2, 1), (5, 4)),
    ((9, 9), (3, 3), (0, 0), (4, 5), (2, 4)), ((40, 3), (30, 1), (0, 0), (3, 1), (1, 2)),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_fold_of_many_terms(shape, kernel, padding, stride, dilation, dtype):
    """Windows of many elements that meet, few windows that are large, and elements that lie apart."""
    places = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(shape, padding, dilation, kernel, stride)]
    x = normal(2, 3 * kernel[0] * kernel[1], places[0] * places[1]).to(dtype)
    x[0, 0, 0] = inf
    check(aten.col2im.default, x, shape, kernel, dilation, padding, stride)
    check(aten.col2im.default, x[1], shape, kernel, dilation, padding, stride)


def test_fold_of_many_terms_is_one_sum():
    fold = torch.nn.Fold((56, 56), 5, padding=2)
    program = inferno.compile(fold, (torch.randn(2, 32 * 25, 56 * 56),), target="sm_90a", fallback=False)
    assert "scatter" not in program.ir("linalg") and sum(row.bytes > 1e6 for row in program.explain().rows) == 1


@pytest.mark.parametrize("shape, dim, size, step", [((3, 30), 1, 20, 1), ((40, 4), 0, 20, 1), ((2, 60, 3), 1, 40, 2), ((2, 20), 1, 18, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_large_windows(shape, dim, size, step, dtype):
    grad = torch.randn(shape).unfold(dim, size, step).to(dtype)
    check(aten.unfold_backward.default, torch.randn_like(grad), list(shape), dim, size, step)


@pytest.mark.parametrize("size, window", [
    ((2, 4, 12, 12), ([2, 2], [], [0, 0], False, True, None)), ((2, 3, 11, 13), ([3, 3], [2, 2], [1, 1], True, False, None)),
    ((2, 3, 11, 13), ([3, 2], [1, 2], [1, 1], True, True, None)), ((3, 10, 9), ([2, 3], [2, 3], [0, 0], False, True, 5)),
    ((2, 3, 1, 40), ([1, 25], [1, 1], [0, 0], False, True, None)), ((2, 3, 9, 12), ([7, 5], [1, 1], [3, 1], False, False, None)),
    ((2, 3, 9, 12), ([5], [1], [2], False, True, 3)), ((2, 3, 19, 22), ([9, 7], [2, 1], [4, 0], True, False, None)),
])
def test_gradients_of_averages(size, window):
    """Windows of a few places, and larger ones: of steps of one, and along one dimension after the other."""
    x = normal(*size)
    assert own()[aten.avg_pool2d_backward.default](normal(*aten.avg_pool2d.default(x, *window).shape), x, *window) is not NotImplemented
    grad = normal(*aten.avg_pool2d.default(x, *window).shape)
    check(aten.avg_pool2d_backward.default, grad, x, *window)


@pytest.mark.parametrize("size, counts", [((12, 10), (5, 7)), ((12, 10), (7, 16)), ((12, 10), (1, 9)), ((5, 7, 9), (2, 3, 4))])
def test_gradients_of_averages_in_windows_that_differ(size, counts):
    """A place is in as many windows as begin before it and end behind it."""
    op = aten._adaptive_avg_pool2d_backward.default if len(size) == 2 else aten._adaptive_avg_pool3d_backward.default
    for dtype in (torch.float32, torch.float16):
        check(op, normal(2, 3, *counts).to(dtype), normal(2, 3, *size).to(dtype))
    assert own()[op](normal(1, 1, *[90] * len(size)), normal(1, 1, *[7] * len(size))) is NotImplemented


def test_gradients_of_averages_in_windows_of_one_length():
    check(aten._adaptive_avg_pool2d_backward.default, normal(2, 3, 4, 2), normal(2, 3, 12, 12))
    check(aten.avg_pool3d_backward.default, normal(2, 3, 3, 4, 5), normal(2, 3, 6, 4, 5), [2, 1, 1], [2, 1, 1], [0, 0, 0], False, True, None)
    x = normal(2, 3, 7, 4, 5)
    window = [5, 3, 3], [1, 1, 1], [2, 1, 0], False, False, None
    check(aten.avg_pool3d_backward.default, normal(*aten.avg_pool3d.default(x, *window).shape), x, *window)
