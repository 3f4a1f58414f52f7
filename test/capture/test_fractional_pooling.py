"""Maxima of windows that random numbers place, and gradients of what maxima were found: against torch's, element for element."""

import pytest
import torch
from checks import check, scheduled
from decomposition_checks import same
from universal_program import SimulatedModel

from inferno.capture.decompositions import own

aten, nan, inf = torch.ops.aten, torch.nan, torch.inf


def pooling(rank):
    return getattr(aten, f"fractional_max_pool{rank}d").default


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rank,sizes,kernel,count", [
    (2, (13, 17), [3, 2], [5, 7]), (2, (9, 9), [2, 2], [1, 8]), (2, (6, 5), [6, 5], [1, 1]), (3, (8, 9, 7), [2, 3, 2], [4, 3, 5]),
])
def test_as_torch_has_them(rank, sizes, kernel, count, dtype):
    torch.manual_seed(0)
    for x, samples in ((torch.randn(3, 4, *sizes), torch.rand(3, 4, rank)), (torch.randn(4, *sizes), torch.rand(1, 4, rank))):
        same(pooling(rank), x.round().to(dtype), kernel, count, samples.to(dtype))  # of which several are equal


def test_numbers_that_are_none_and_infinite_ones():
    x = torch.full((1, 1, 6, 6), -inf)
    same(pooling(2), x, [2, 2], [3, 3], torch.rand(1, 1, 2))
    x[0, 0, 2:4, 1] = nan
    same(pooling(2), x, [3, 3], [2, 2], torch.rand(1, 1, 2))


def test_large_windows_are_left_to_torch():
    assert own()[pooling(2)](torch.randn(1, 1, 20, 20), [7, 7], [3, 3], torch.rand(1, 1, 2)) is NotImplemented


@pytest.mark.parametrize("rank,model", [(2, torch.nn.functional.fractional_max_pool2d), (3, torch.nn.functional.fractional_max_pool3d)])
def test_one_kernel(rank, model):
    sizes, count = [9, 10, 8][:rank], [4, 5, 3][:rank]
    pooled = lambda x, s: model(x, 2, count, _random_samples=s)  # noqa: E731
    args = torch.randn(2, 3, *sizes), torch.rand(2, 3, rank)
    assert scheduled(pooled, args).stages["scheduled"].count("generator") == 1
    found = check(SimulatedModel(pooled, args), pooled, args)
    assert found.right, str(found)


def placed(forward, backward, x, *args):
    """The gradient by our decomposition and by torch's operation."""
    values, places = forward(x, *args)
    grad = torch.randn_like(values)
    return own()[backward](grad, x, *backward_arguments(backward, args, places)), backward(grad, x, *backward_arguments(backward, args, places))


def backward_arguments(backward, args, places):
    name = backward.overloadpacket.__name__
    return (places,) if "adaptive" in name else (*args[:2], places) if "fractional" in name else (*args, places)


@pytest.mark.parametrize("forward,backward,x,args", [
    (aten.adaptive_max_pool2d, aten.adaptive_max_pool2d_backward, (2, 3, 9, 10), ([4, 7],)),
    (aten.adaptive_max_pool3d, aten.adaptive_max_pool3d_backward, (2, 3, 5, 9, 10), ([3, 4, 7],)),
    (aten.adaptive_max_pool2d, aten.adaptive_max_pool2d_backward, (3, 9, 10), ([4, 7],)),
    (aten.fractional_max_pool2d, aten.fractional_max_pool2d_backward, (2, 3, 9, 10), ([2, 3], [4, 5], torch.rand(2, 3, 2))),
    (aten.fractional_max_pool3d, aten.fractional_max_pool3d_backward, (2, 3, 6, 9, 8), ([2, 3, 2], [4, 5, 3], torch.rand(2, 3, 3))),
    (aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward, (2, 3, 7, 9, 8), ([3, 2, 3], [2, 2, 2], [1, 1, 0], [1, 1, 1], False)),
    (aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward, (2, 3, 7, 9, 8), ([3, 3, 3], [1, 1, 1], [1, 1, 1], [1, 1, 1], False)),
    (aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward, (3, 7, 9, 8), ([2, 2, 2], [3, 2, 1], [0, 1, 0], [2, 1, 1], True)),
    (aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward, (2, 3, 9, 9, 9), ([4, 4, 4], [1, 1, 1], [0, 0, 0], [1, 1, 1], False)),
], ids=lambda v: v.__name__ if hasattr(v, "__name__") else None)
def test_gradients_of_what_was_found(forward, backward, x, args):
    """Of windows that meet in few elements, in many, and anywhere."""
    torch.manual_seed(0)
    ours, theirs = placed(forward.default, backward.default, torch.randn(*x, dtype=torch.float64), *args_of(args))
    assert ours is not NotImplemented and ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-13, atol=1e-13)


def args_of(args):
    return [a.double() if isinstance(a, torch.Tensor) else a for a in args]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("window,stride,pad,scattered", [((3, 3, 3), (2, 2, 2), 1, True), ((2, 2, 2), (2, 2, 2), 0, False), ((3, 3, 3), (1, 1, 1), 1, False)])
def test_the_gradient_of_a_volume_is_scattered_where_windows_are_few(window, stride, pad, scattered):
    model = lambda g, x, i: aten.max_pool3d_with_indices_backward.default(g, x, window, stride, [pad] * 3, [1, 1, 1], False, i)  # noqa: E731
    x = torch.randn(1, 2, 8, 8, 8)
    values, places = aten.max_pool3d_with_indices.default(x, window, stride, [pad] * 3)
    text = scheduled(model, (values, x, places)).stages["scheduled"]
    assert ("tm_tensor.scatter" in text) == scattered and (scattered or 'generator = "universal"' not in text)


def test_places_of_windows_are_no_tables():
    """Neighbours that ask the same windows read these once."""
    model = lambda g, x, i: aten.max_pool2d_with_indices_backward.default(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, i)  # noqa: E731
    x = torch.randn(8, 16, 64, 64)
    values, places = aten.max_pool2d_with_indices.default(x, [3, 3], [2, 2], [1, 1])
    text = scheduled(model, (values, x, places)).stages["scheduled"]
    assert text.count("generator = ") == 1 and "windows = true" in text and "vector = 4" in text


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.thorough
def test_a_gradient_that_is_the_same_each_time_is_gathered(deterministic):
    model = lambda g, x, i: aten.max_pool3d_with_indices_backward.default(g, x, [3] * 3, [2] * 3, [1] * 3, [1] * 3, False, i)  # noqa: E731
    values, places = aten.max_pool3d_with_indices.default(x := torch.randn(1, 2, 8, 8, 8), [3] * 3, [2] * 3, [1] * 3)
    assert "tm_tensor.scatter" not in scheduled(model, (values, x, places)).stages["scheduled"]
