"""Scans on a GPU: of all lengths, dimensions and types, with every kind of schedule, and the same bits each time."""

import pytest
import torch
from checks import check, poison_memory
from on_gpu import on_hopper
from scan_cases import FUSED, PASSES
from torch.utils._pytree import tree_leaves
from universal_program import compile_universal

from inferno.schedule.scans import scans
from inferno.schedule.scans.scan_schedule import Scans
from inferno.target import find_target

pytestmark = on_hopper
TARGET = find_target("sm_90a")


def right(shape, dim, dtype=torch.float32, schedule=None, function=torch.cumsum):
    torch.manual_seed(0)
    x = torch.randint(-9, 9, shape, device="cuda") if dtype == torch.int64 else torch.randn(shape, device="cuda").to(dtype)
    same(lambda x: function(x, dim), (1 + x / 100 if function is torch.cumprod else x,), schedule)


def same(model, args, schedule=None):
    """Right, and the same each time; how many kernels were launched."""
    used = []

    def choose(kernel):
        own = scans.read(kernel, TARGET)
        used.append(own)
        return own and (schedule or scans.pick(own, TARGET))

    compiled = compile_universal(model, args, args[0].device, TARGET.name, choose, passes=PASSES)
    poison_memory()
    found = check(compiled, model, args)
    assert any(used) and found.right, str(found)
    first = tree_leaves(compiled(*args))
    assert all(torch.equal(a, b) for _ in range(3) for a, b in zip(first, tree_leaves(compiled(*args)), strict=True))
    return compiled.explain().launches


SHAPES = [
    ((1, 1), 1), ((6, 1), 1), ((6, 1, 4), 1),
    ((7, 64), 1), ((3, 999), 1), ((33, 4097), 1), ((100000, 8), 1), ((300, 50257), 1), ((3, 300001), 1), ((1 << 24,), 0), ((2, 1 << 22), 1),
    ((64, 64), 0), ((500, 51), 0), ((3, 700, 50), 1), ((100000, 3), 0), ((5000, 5000), 0), ((1 << 18, 64), 0), ((9, 3, 1 << 16), 0), ((70, 512, 256), 1),
]


@pytest.mark.parametrize("shape, dim, dtype", [
    *((*x, t) for x in SHAPES for t in (torch.float32, torch.bfloat16)), *((*x, t) for x in SHAPES[2::4] for t in (torch.float16, torch.int64)),
])
def test_chosen(shape, dim, dtype):
    right(shape, dim, dtype)


@pytest.mark.parametrize("shape, dim, schedule", [
    *(((3, 1000000), 1, Scans(256, 256, 4, 4, group)) for group in (0, 1, 2, 32, 128)), ((1, 1 << 24), 1, Scans(512, 512, 4, 8, 64)),
    *(((3, 50000, 64), 1, Scans(256, 8, 4, 4, group)) for group in (0, 1, 4, 32)), ((40000, 1000), 0, Scans(512, 32, 4, 2, 2)),
    ((40000, 1000), 0, Scans(256, 8, 4, 8, 8, stages=1, resident=5)), ((3, 50000, 64), 1, Scans(256, 8, 4, 4, 32, stages=1)),
])
def test_schedules(shape, dim, schedule):
    right(shape, dim, torch.float32, schedule)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_packed(dtype):
    right((3, 1000000), 1, dtype, Scans(256, 256, 8, 8, 64, resident=3, packed=True))


@pytest.mark.parametrize("shape, dim", [((100, 3000), 1), ((3000, 100), 0), ((3, 100000), 1)])
def test_products(shape, dim):
    right(shape, dim, function=torch.cumprod)


@pytest.mark.parametrize("shape, dim", [((100, 3000), 1), ((3000, 100), 0), ((3, 100000), 1), ((5000000,), 0)])
def test_extrema_and_exponentials(shape, dim):
    for function in (torch.cummax, torch.cummin, torch.logcumsumexp):
        right(shape, dim, function=function)


@pytest.mark.parametrize("shape, dim, schedule", [
    ((5000000,), 0, Scans(256, 256, 4, 4, 128, resident=3)), ((300, 3000), 1, Scans(512, 512, 4, 2)),
    ((3, 50000, 64), 1, Scans(256, 8, 4, 2, 32)), ((3000, 100), 0, Scans(256, 8, 4, 2)),
])
def test_logarithms_of_sums(shape, dim, schedule):
    right(shape, dim, torch.float32, schedule, torch.logcumsumexp)


@pytest.mark.parametrize("shape, dim, dtype", [(*x, t) for x in SHAPES[3:] for t in (torch.float32, torch.bfloat16)])
def test_from_the_end(shape, dim, dtype):
    """By the schedules that are chosen, those of many tiles, groups and stages among them."""
    torch.manual_seed(0)
    x = torch.randn(shape, device="cuda").to(dtype)
    maxima = lambda x: tuple(y.flip(dim) for y in x.flip(dim).cummax(dim))  # noqa: E731
    for model in (lambda x: x.flip(dim).cumsum(dim).flip(dim), lambda x: x.cumsum(dim).flip(dim), maxima):
        assert same(model, (x,)) <= 2  # of groups' words one is the filling


@pytest.mark.parametrize("name", FUSED)
def test_one_kernel(name):
    torch.manual_seed(0)
    model, make, schedule = FUSED[name]
    launches = same(model, tuple(a.cuda() for a in make()), schedule)
    assert launches == (2 if schedule is not None and schedule.group else 1)
