"""Reductions of few terms are computed by who reads them: how many kernels there are, what they move, and their numbers."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_right, check
from torch.export import Dim
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")


def squares(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def nearest(x, y):
    return squares(x, y).amin(1)


def places(x, y):
    return squares(x, y).min(1)


def gaussian(x, y):
    return torch.exp(-squares(x, y)).mean()


def ball(x, y):
    return squares(x, y) < 0.5


def lengths(x, y):
    return (x[:, None] - y[None]).abs().sum(-1).sqrt() + 1


def largest(x, y):
    return (x[:, None] * y[None].abs()).amax(-1).exp()


def chamfer(x, y):
    d = squares(x, y)
    return d.amin(1).mean() + d.amin(0).mean()


def gray(x, w):
    g = (x * w).sum(1, keepdim=True)
    return (x * 0.5 + g * 0.5).clamp(0, 1)


def contrast(x, w):
    m = (x * w).sum(1, keepdim=True).mean((2, 3), keepdim=True)
    return (x - m) * 1.5 + m


def normalized(x, w):
    return F.normalize(x, dim=1)


def stretched(x, w):
    low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    return (x - low) / (high - low + 1e-3)


def positive(x, w):
    return torch.where((x > 0).all(1, keepdim=True), x, -x)


def extent(x, w):
    d = x.amax(1) - x.amin(1)
    return d.sin(), d * x[:, 0]


def directions(x, y):
    return squares(F.normalize(x, dim=-1), F.normalize(y, dim=-1)).amin(1)


def log_sum(x, w):
    return x.exp().sum(1).log() * 2


POINTS = (nearest, places, gaussian, ball, lengths, largest, chamfer)
PLANES = (gray, contrast, normalized, stretched, positive, extent)


def arguments(model, sizes, dtype=torch.float32):
    torch.manual_seed(0)
    if model in POINTS:
        return tuple(torch.randn(n, 3).to(dtype) for n in sizes)
    return torch.randn(2, 3, *sizes).to(dtype), torch.rand(1, 3, 1, 1).to(dtype)


def kernels(model, *args):
    return inferno.compile(model, args, target="sm_90a").explain().rows


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", (*POINTS, *PLANES, log_sum))
def test_right_on_a_gpu(model, dtype):
    args = arguments(model, (24, 36), dtype)
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), expand=True)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.float16))
@pytest.mark.parametrize("model", [m for m in (*POINTS, *PLANES) if m is not gaussian])
def test_right_on_a_cpu(model, dtype):
    assert_right(model, arguments(model, (25, 33), dtype))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16))
def test_a_total_on_a_cpu(dtype):
    """Of float64 there is nothing wider to hold a total against, whatever order it is added up in."""
    assert_right(gaussian, arguments(gaussian, (25, 33), dtype))


def test_whole_numbers():
    x, y = (torch.randint(-9, 9, (n, 4)) for n in (20, 32))
    for model in (nearest, largest_difference):
        simulated = SimulatedModel(model, (x, y), choose=lambda k: assign.choose(k, TARGET), expand=True)
        assert len(simulated.program.plan.steps) == 1
        torch.testing.assert_close(simulated(x, y), model(x, y))


def largest_difference(x, y):
    return (x[:, None] - y[None]).amax(-1) * 2


def test_no_numbers():
    """An extremum of what is no number is none."""
    x = torch.randn(2, 3, 8, 12)
    x[0, 1, 2, 3] = x[1, 2, 0, 0] = float("nan")
    w = torch.rand(1, 3, 1, 1)
    for model in (stretched, extent):
        simulated = SimulatedModel(model, (x, w), choose=lambda k: assign.choose(k, TARGET), expand=True)
        for a, b in zip(*([r] if isinstance(r, torch.Tensor) else r for r in (simulated(x, w), model(x, w)))):
            assert torch.equal(a.isnan(), b.isnan())


@pytest.mark.parametrize("model", [m for m in POINTS if m is not chamfer])
def test_one_kernel_of_points(model):
    """Sums are not in memory between what makes and what reads them."""
    found = kernels(model, torch.randn(4096, 3), torch.randn(4096, 3))
    written = 4096 * 4096 * {ball: 1, lengths: 4, largest: 4}.get(model, 0)
    assert len(found) == 1
    assert found[0].bytes < written + (1 << 20)


def test_points_that_take_division():
    """Each pair's distance is computed once, as it was."""
    found = kernels(directions, torch.randn(4096, 3), torch.randn(4096, 3))
    assert sum(r.bytes for r in found) < 1 << 20


def test_two_reductions_of_points():
    """Each of them computes the distances."""
    found = kernels(chamfer, torch.randn(4096, 3), torch.randn(4096, 3))
    assert len(found) == 3
    assert sum(r.bytes for r in found) < 1 << 20


@pytest.mark.parametrize("model", [m for m in PLANES if m not in (contrast, positive)])
def test_one_kernel_of_planes(model):
    """Of maps of as many points as sums; what is taken off the planes goes over these, once."""
    found = kernels(model, torch.randn(16, 3, 512, 512), torch.rand(1, 3, 1, 1))
    assert [r.generator for r in found] == ["columns" if model in (gray, normalized, stretched) else "elementwise"]


def test_a_mean_of_sums_of_planes():
    assert [r.generator for r in kernels(contrast, torch.randn(16, 3, 512, 512), torch.rand(1, 3, 1, 1))] == ["reductions", "elementwise"]


def test_extrema_of_a_stack():
    tensors = [torch.randn(512, 256) for _ in range(4)]
    assert len(kernels(lambda *t: torch.stack(t).amax(0), *tensors)) == 1
    assert_right(lambda *t: torch.stack(t).amax(0), tuple(tensors))


def log_sum_exp(x):
    return x.logsumexp(1) * 2


def softmax(x):
    return x.softmax(1)


def norm(x):
    m = x.mean(1, keepdim=True)
    return (x - m) / (((x - m) ** 2).mean(1, keepdim=True) + 1e-5).sqrt()


def kept(x):
    n = x.norm(dim=1, keepdim=True).clamp_min(1e-6)
    return x / n, n


@pytest.mark.parametrize("model", (softmax, norm, kept, log_sum_exp))
def test_left(model):
    """What is one kernel that goes over the planes stays that."""
    assert [r.generator for r in kernels(model, torch.randn(16, 3, 512, 512))] == ["columns"]


def test_left_to_rows():
    assert [r.generator for r in kernels(lambda x: F.normalize(x, dim=-1), torch.randn(1 << 16, 3))] == ["columns"]


def test_left_to_columns():
    """Each point would read all planes."""
    assert [r.generator for r in kernels(lambda x: x - x.mean(1, keepdim=True), torch.randn(16, 8, 256, 256))] == ["columns"]
    assert [r.generator for r in kernels(normalized, torch.randn(1, 3, 2048, 2048), torch.rand(1))] == ["columns"]


def test_sizes_that_vary():
    """Nothing is unrolled, and all is right."""
    n = Dim("n", min=2, max=64)
    compiled = inferno.compile(nearest, (torch.randn(20, 3), torch.randn(30, 3)), dynamic_shapes=({0: n}, None))
    x, y = torch.randn(33, 3), torch.randn(30, 3)
    torch.testing.assert_close(compiled(x, y), nearest(x, y))
