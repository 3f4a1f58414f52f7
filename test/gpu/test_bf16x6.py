"""Float32 contractions on Hopper's tensor cores against float64: sizes, layouts, bodies, and numbers that are hard to split."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from checks import assert_right
from on_gpu import on_hopper

from inferno.schedule.matmul import bf16x6
from inferno.schedule.matmul.contraction import oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.target import find_target

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import compile_universal

F = torch.nn.functional
TARGET = find_target("sm_90a")

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("exact_float32"),
]


def randn(*shape):
    return torch.randn(shape, device="cuda")


def right(function, args):
    """Right, by six products, of parts that the kernel or one in front of it splits into."""
    compiled = assert_right(function, args)
    assert {"bf16x6", "presplit"} & {row.generator for row in compiled.explain().rows}
    return compiled


SIZES = [
    (512, 512, 512), (512, 512, 1024), (1024, 1024, 1024), (2048, 2048, 512), (4096, 2304, 96), (64, 4096, 4096), (128, 768, 3072),
    (933, 777, 811), (1000, 1000, 1000), (129, 4100, 1028), (96, 100, 4000), (2000, 1999, 65), (3000, 3000, 65), (4000, 16, 2000),
]


@pytest.mark.parametrize("m, n, k", SIZES)
def test_sizes(m, n, k):
    right(lambda x, w: torch.relu(x @ w), (randn(m, k), randn(k, n)))


@pytest.mark.parametrize("m, n, k", SIZES)
def test_linear(m, n, k):
    right(lambda x, w, b: F.gelu(F.linear(x, w, b)), (randn(m, k), randn(n, k), randn(n)))


def choosing(schedule, compensated=True):
    """Chooses ``schedule``, as it fits a kernel."""
    def choose(kernel):
        c = oriented(parse_contraction(kernel), schedule.swapped)
        return replace(bf16x6.fit(schedule, c, bf16x6.tile(c), TARGET), compensated=compensated)

    return choose


COMPENSATED = [s for s, _ in (*bf16x6.CANDIDATES, *bf16x6._FEW) if s.tile_n <= 32 and s.split == 1]


@pytest.mark.parametrize("schedule", COMPENSATED, ids=lambda s: f"{s.tile_m}x{s.tile_n}{s.swapped * ' swapped'}")
@pytest.mark.parametrize("make", [torch.randn, torch.rand], ids=["normal", "positive"])
def test_long_sums_stay_exact(schedule, make):
    """Errors do not grow with the terms."""
    m, n, k = 12 if schedule.swapped else 192, 640, 8192
    x, w = make(m, k, device="cuda"), make(n, k, device="cuda")
    compiled = compile_universal(F.linear, (x, w), torch.device("cuda"), TARGET.name, choosing(schedule))
    true = x.double() @ w.double().t()
    ours, again = compiled(x, w), compiled(x, w)
    assert torch.equal(ours, again)
    error = ours.double() - true
    assert error.norm() <= 0.75 * torch.finfo(torch.float32).eps * true.norm()


@pytest.mark.parametrize("schedule, compensated", [
    *(pytest.param(s, True, id=f"{s.tile_m}x{s.tile_n}{s.swapped * ' swapped'} compensated") for s in COMPENSATED),
    *(pytest.param(s, False, id=f"{s.tile_m}x{s.tile_n}") for s, _ in bf16x6.CANDIDATES),
])
def test_whole_numbers_stay_whole(schedule, compensated):
    m = 12 if schedule.swapped else 192
    x, w = torch.randint(-31, 32, (m, 512), device="cuda").float(), torch.randint(-4000, 4001, (640, 512), device="cuda").float() / 2
    steps = [x[:, i:i + 32].double() @ w[:, i:i + 32].double().t() for i in range(0, 512, 32)]
    assert torch.stack(steps).cumsum(0).abs().max() < 2**22  # sums of halves that float32 holds, wherever they are cut
    compiled = compile_universal(F.linear, (x, w), torch.device("cuda"), TARGET.name, choosing(schedule, compensated))
    errors = compiled(x, w).double() - x.double() @ w.double().t()
    assert not errors.any(), f"{errors.count_nonzero()} of {errors.numel()} are off, by {errors.abs().max()} at most; rows {errors.nonzero()[:, 0].unique()}"


def share_cut_off(compiled, x, w):
    true = x.double() @ w.double().t()
    return -((compiled(x, w).double() - true) * true).sum() / true.square().sum()


@pytest.mark.parametrize("make", [torch.randn, torch.rand, lambda *s, **k: torch.relu(torch.randn(*s, **k))], ids=["normal", "positive", "relu"])
@pytest.mark.parametrize("m, k", [(2048, 96), (2048, 768), (300, 512), (48, 512), (64, 3072)])
def test_sums_are_as_large_as_they_should_be(make, m, k):
    """What is cut off from every sum would be of the same sign; a gradient has it from each product on its way."""
    x, w = make(m, k, device="cuda"), randn(1024, k)
    compiled = assert_right(F.linear, (x, w))
    assert {"bf16x6", "presplit", "direct_bf16x6", "direct"} & {row.generator for row in compiled.explain().rows}
    assert abs(share_cut_off(compiled, x, w)) < 1.5e-8


@pytest.mark.parametrize("schedule", [s for s, _ in bf16x6.CANDIDATES], ids=lambda s: f"{s.tile_m}x{s.tile_n}")
def test_every_tile_makes_up_for_what_is_cut_off(schedule):
    x, w = randn(512, 512), randn(640, 512)
    assert abs(share_cut_off(compile_universal(F.linear, (x, w), torch.device("cuda"), TARGET.name, choosing(schedule, False)), x, w)) < 1.5e-8


@pytest.mark.parametrize("m, n, k", [(512, 640, 320), (1536, 1100, 260), (260, 520, 2052), (300, 500, 701), (1100, 1200, 513)])
@pytest.mark.parametrize("function", [lambda x, w: x.t() @ w, lambda x, w: x.t() @ w.t().contiguous().t(), lambda x, w: (x.t() @ w).t()])
def test_layouts(function, m, n, k):
    right(function, (randn(k, m), randn(k, n)))


BODIES = {
    "scaled lhs": lambda x, w, s, r: torch.relu(x * s[:, 0]) @ w,
    "scaled rhs": lambda x, w, s, r: x @ (w * s),
    "both": lambda x, w, s, r: torch.tanh(x.abs() * 2) @ (w * s - 1),
    "residual": lambda x, w, s, r: r + F.silu(x @ w),
    "two results": lambda x, w, s, r: (torch.relu(x @ w), x @ w),
    "rounded": lambda x, w, s, r: (x @ w + r).bfloat16(),
    "triangles": lambda x, w, s, r: x.tril() @ w.triu(-3) + r.tril(),
    "whole rhs": lambda x, w, s, r: x @ (10 * w).to(torch.int32).to(x.dtype),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("m, n, k", [(512, 768, 384), (700, 600, 411)])
def test_bodies(name, m, n, k):
    assert_right(BODIES[name], (randn(m, k), randn(k, n), randn(k, 1), randn(m, n)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8, torch.int32], ids=str)
@pytest.mark.parametrize("m, n, k", [(2048, 3072, 333), (1024, 768, 1024)])
@pytest.mark.parametrize("side", [0, 1])
def test_a_factor_of_another_type(dtype, m, n, k, side):
    """What is widened only on one side is computed before its tiles are copied, or where they are read."""
    x, w = randn(m, k), randn(n, k)
    x, w = ((10 * x).to(dtype), w) if side == 0 else (x, (10 * w).to(dtype))
    widened = (lambda x, w: F.linear(x.to(w.dtype), w)) if side == 0 else (lambda x, w: F.linear(x, w.to(x.dtype)))
    right(lambda x, w: torch.tanh(widened(x, w) / 100), (x, w))


@pytest.mark.parametrize("shapes", [((16, 256, 128), (16, 128, 256)), ((6, 330, 170), (6, 170, 350)), ((2, 8, 256, 64), (2, 8, 64, 300))])
def test_batches(shapes):
    assert_right(torch.matmul, tuple(randn(*s) for s in shapes))


SPECIAL = [float("inf"), -float("inf"), float("nan"), 3.4028234e38, -3.4e38, 1e-38, 1e-45, 0.0, -0.0]


@pytest.mark.parametrize("side", [0, 1])
def test_numbers_that_are_not_finite(side):
    args = [randn(600, 520), randn(520, 700)]
    for i, value in enumerate(SPECIAL):
        args[side][37 * i + 1, 53 * i + 2] = value
    ours, eager = right(torch.matmul, tuple(args))(*args), args[0] @ args[1]
    assert torch.equal(ours.isnan(), eager.isnan()) and torch.equal(ours.isinf(), eager.isinf())
    assert torch.equal(ours[ours.isinf()], eager[eager.isinf()])


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e15, 1e18, 1e30])
def test_scales(scale):
    right(torch.matmul, (randn(512, 600) * scale, randn(600, 520) / scale))


def test_sums_that_overflow():
    x, w = torch.full((512, 600), 1e30, device="cuda"), torch.full((600, 520), 1e10, device="cuda")
    assert torch.equal(right(torch.matmul, (x, w))(x, w), x @ w) and (x @ w).isinf().all()


@pytest.mark.parametrize("value", [1.0, 1.00390625, 1.0078124, 1.9999999, 0.33333334, 16777215.0])
def test_all_equal(value):
    """Every product leaves out the same, so that errors add up instead of cancelling."""
    right(torch.matmul, (torch.full((512, 1024), value, device="cuda"), torch.full((1024, 640), value, device="cuda")))


def test_whole_numbers_are_exact():
    x, w = (torch.randint(-4000, 4000, s, device="cuda").float() for s in ((600, 640), (640, 520)))
    x, w = x / 64, torch.where(w.abs() < 100, w, w.sign())
    assert right(torch.matmul, (x.round(), w))
