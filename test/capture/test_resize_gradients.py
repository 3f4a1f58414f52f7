"""Gradients of resizing as sums of what is known to be in each element: numbers against torch's in float64, and which kernels they are."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

import inferno
from inferno.capture.decompositions import own
from inferno.schedule.maps.elementwise import Elementwise

aten = torch.ops.aten
FILTERS = {"linear1d": 1, "bilinear2d": 2, "trilinear3d": 3, "bicubic2d": 2}


def gradient(name):
    return getattr(aten, f"upsample_{name}_backward" if "exact" not in name else f"_upsample_{name}_backward").default


def right(op, *args, dtype=torch.float32, memory_format=torch.contiguous_format):
    grad = torch.randn(2, 3, *args[0], dtype=torch.float64).to(dtype).to(memory_format=memory_format)
    found = own()[op](grad, *args)
    expected = op(grad.double(), *args)
    assert found is not NotImplemented and found.dtype == dtype and found.shape == expected.shape
    assert found.is_contiguous(memory_format=memory_format)
    eps = 4 * torch.finfo(dtype).eps
    assert torch.linalg.vector_norm(found.double() - expected) <= eps * torch.linalg.vector_norm(expected) + 1e-9


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("name", FILTERS)
def test_filters(name, align_corners):
    """Twice the size, several times, odd ratios, fewer, the same, of one element, and so many that they are products."""
    dims = FILTERS[name]
    for size, count in ((4, 8), (3, 12), (5, 7), (9, 4), (7, 7), (1, 5), (6, 1), (2, 40), (3, 47)):
        right(gradient(name), [count] * dims, [2, 3, *[size] * dims], align_corners)
    mixed = ([16, 5, 9][:dims], [2, 3, *[1, 7, 4][:dims]])
    right(gradient(name), *mixed, align_corners)
    right(gradient(name), *mixed, align_corners, dtype=torch.bfloat16)


@pytest.mark.parametrize("name", FILTERS)
def test_factors(name):
    """Places are those of the factor, not of the sizes; a factor that is no ratio of small numbers is left to torch."""
    dims = FILTERS[name]
    for size, factor in ((4, 1.7), (9, 0.6), (5, 2.5)):
        right(gradient(name), [int(size * factor)] * dims, [2, 3, *[size] * dims], False, *[factor] * dims)
    grad = torch.randn(2, 3, *[5] * dims)
    assert own()[gradient(name)](grad, [5] * dims, [2, 3, *[4] * dims], False, *[2**0.5] * dims) is NotImplemented


@pytest.mark.parametrize("name,dims", [("nearest1d", 1), ("nearest2d", 2), ("nearest3d", 3), ("nearest_exact2d", 2)])
def test_nearest(name, dims):
    for size, count in ((4, 8), (3, 9), (5, 7), (9, 4), (1, 6)):
        right(gradient(name), [count] * dims, [2, 3, *[size] * dims])
    right(gradient(name), [10] * dims, [2, 3, *[4] * dims], *[2.5] * dims)


def test_channels_last():
    for name, more in (("bilinear2d", [False]), ("bicubic2d", [True]), ("nearest2d", [])):
        right(gradient(name), [8, 12], [2, 3, 4, 6], *more, memory_format=torch.channels_last)


@pytest.mark.parametrize("size,dtype,schedule", [((16, 32), torch.bfloat16, Elementwise(64, 8, windows=True)), ((24, 24), torch.float32, Elementwise(64, 4))])
def test_one_kernel(size, dtype, schedule):
    """Of an image of twice the size: as chosen, and by few elements."""
    model = lambda g: gradient("bilinear2d")(g, list(size), [1, 2, size[0] // 2, size[1] // 2], False)  # noqa: E731
    args = (torch.randn(1, 2, *size).to(dtype),)
    built = SimulatedModel(model, args, choose=lambda kernel: schedule, expand=True)
    found = check(built, model, args)
    assert found.right, str(found)
    assert built.program.gpu.count("gpu.func") == 1


@pytest.mark.covering
@pytest.mark.parametrize("size,count,generators", [
    ((64, 64), (128, 128), ["elementwise"]), ((1, 1), (33, 33), ["rows"]), ((32, 32), (96, 96), ["rows"]),
])
def test_what_memory_moves_once(size, count, generators):
    """By vectors, in kernels that read the gradient once: x2 filters, of one element, and repeated ones."""
    op, more = (gradient("nearest2d"), []) if count[0] == 96 else (gradient("bilinear2d"), [False])
    program = inferno.compile(lambda g: op(g, list(count), [2, 256, *size], *more), (torch.randn(2, 256, *count).bfloat16(),), target="sm_90a")
    rows = program.explain().rows
    assert [r.generator for r in rows] == generators
    assert sum(r.bytes for r in rows) <= 2 * 2 * 256 * (count[0] * count[1] + size[0] * size[1])


def test_eight_times_is_two_products():
    model = lambda g: gradient("bilinear2d")(g, [128, 128], [2, 64, 16, 16], False)  # noqa: E731
    program = inferno.compile(model, (torch.randn(2, 64, 128, 128).bfloat16(),), target="sm_90a")
    assert program.explain().launches <= 3 and "scatter" not in program.ir("linalg")


@pytest.mark.parametrize("name", ["_upsample_bilinear2d_aa_backward", "_upsample_bicubic2d_aa_backward"])
@pytest.mark.parametrize("align_corners", [True, False])
def test_antialiased(name, align_corners):
    """Fewer elements, whose filter is wider, and more."""
    op = getattr(aten, name).default
    for size, count in (((12, 15), (5, 7)), ((6, 7), (13, 9)), ((8, 8), (8, 3))):
        right(op, list(count), [2, 3, *size], align_corners)
    right(op, [5, 7], [2, 3, 12, 15], align_corners, dtype=torch.bfloat16)
    right(op, [6, 6], [2, 3, 10, 10], False, 0.6, 0.6)
