"""Scatters into rows that lie in shared memory: their numbers on a simulated GPU, and which there are."""

from functools import partial

import pytest
import torch
from added_row_cases import simulated_with
from checks import check
from choices import generators, scheduled
from universal_program import SimulatedModel

from inferno.capture.devices import capturing_for
from inferno.schedule.scatters import scatters
from inferno.schedule.scatters.scatters import Scatters
from inferno.target import find_target

simulated = partial(simulated_with, scatters)


def add(dim):
    return lambda x, i, y: x.scatter_add(dim, i, y)


def numbers(*shape, below, type_=torch.int64):
    return lambda: torch.randint(0, below, shape, dtype=type_)


def of(shape, type_=torch.float32):
    return lambda: torch.randn(shape).mul(4).to(type_)


CASES = {
    "the last dimension": (add(1), of((5, 70)), numbers(5, 90, below=70), of((5, 90))),
    "few rows given anything": (add(1), of((5, 64)), numbers(3, 33, below=64), of((3, 33))),
    "more elements than are read": (add(1), of((5, 64)), numbers(5, 30, below=64), of((6, 41))),
    "the first dimension": (add(0), of((20, 70)), numbers(33, 70, below=20), of((33, 70))),
    "the middle": (add(1), of((3, 20, 6)), numbers(3, 9, 6, below=20), of((3, 9, 6))),
    "the middle, of many": (add(-2), of((2, 3, 20, 40)), numbers(2, 3, 25, 40, below=20), of((2, 3, 25, 40))),
    "bf16": (add(1), of((4, 64), torch.bfloat16), numbers(4, 200, below=64), of((4, 200), torch.bfloat16)),
    "f16, the first": (add(0), of((8, 64), torch.float16), numbers(40, 64, below=8), of((40, 64), torch.float16)),
    "float64": (add(1), of((4, 30), torch.float64), numbers(4, 50, below=30), of((4, 50), torch.float64)),
    "i64": (add(1), of((4, 30), torch.int64), numbers(4, 50, below=30), of((4, 50), torch.int64)),
    "bytes": (add(1), of((4, 32), torch.int8), numbers(4, 500, below=32), of((4, 500), torch.int8)),
    "counts": (lambda x, i, y: torch.zeros_like(x).scatter_add(1, i, torch.ones_like(y)), of((4, 30)), numbers(4, 300, below=30), of((4, 300))),
    "of what is computed": (lambda x, i, y: x.scatter_add(1, (i * 3) % 30, y * y - 1), of((4, 30)), numbers(4, 50, below=30), of((4, 50))),
    "places in a part": (lambda x, i, y: x.scatter_add(1, i[1], y), of((4, 30)), numbers(2, 4, 50, below=30), of((4, 50))),
    "of zeros, an odd number": (lambda x, i, y: torch.zeros_like(x).scatter_add(1, i, y), of((40, 51)), numbers(40, 51, below=51), of((40, 51))),
    "of zeros": (lambda x, i, y: torch.zeros_like(x).scatter_add(1, i, y), of((40, 30)), numbers(40, 51, below=30), of((40, 51))),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, *makers = CASES[name]
    args = tuple(m() for m in makers)
    made = simulated(model, args)
    assert len(made.program.plan.steps) == 1
    found = check(made, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("share", [1.0, 0.8, 0.3])
@pytest.mark.parametrize("dim", [0, 1])
def test_many_to_one_place(dim, share):
    x, y = torch.randn(9, 64), torch.randn(80, 64) if dim == 0 else torch.randn(9, 300)
    i = torch.where(torch.rand(y.shape) < share, 4, torch.randint(0, x.shape[dim], y.shape))
    found = check(simulated(add(dim), (x, i, y)), add(dim), (x, i, y))
    assert found.right, str(found)


@pytest.mark.parametrize("schedule", [Scatters(128, 1, 2, 2), Scatters(256, 1, 1, 3), Scatters(64, 1, 2, 1)], ids=str)
def test_schedules(schedule):
    x, i, y = torch.randn(3, 600), torch.randint(0, 600, (3, 1000)), torch.randn(3, 1000)
    found = check(simulated(add(1), (x, i, y), schedule), add(1), (x, i, y))
    assert found.right, str(found)


@pytest.mark.parametrize("columns", [4, 8, 24])
def test_columns(columns):
    x, i, y = torch.randn(2, 9, 30), torch.randint(0, 9, (2, 50, 30)), torch.randn(2, 50, 30)
    found = check(simulated(add(1), (x, i, y), Scatters(128, columns, 1, 2)), add(1), (x, i, y))
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("type_", [torch.float32, torch.bfloat16, torch.bool, torch.uint8, torch.int64], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_put(dim, type_):
    """No two elements go to one place."""
    x, y = (torch.randn(24, 24).mul(9).to(type_) for _ in range(2))
    i = torch.stack([torch.randperm(24)[:20] for _ in range(24)], 1 - dim)
    y = y[:20] if dim == 0 else y[:, :20]
    model = lambda x, i, y: x.scatter(dim, i, y)  # noqa: E731
    found = check(simulated(model, (x, i, y)), model, (x, i, y))
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dim, dtype, kind", [
    (1, torch.float32, "amax"), (0, torch.bfloat16, "amin"), (1, torch.int64, "amin"), (0, torch.uint8, "amax"),
], ids=str)
def test_extremes(dim, dtype, kind, include_self):
    """Shared memory joins whole numbers, in whose order floats are: exactly, and so with what is infinite or no number."""
    x, y = (torch.randn(n, 24).mul(9).abs().to(dtype) for n in (24, 90 if dim == 0 else 24))
    if dtype.is_floating_point:
        x[3, 2], y[5, 1], y[7, 3], y[9] = torch.nan, torch.inf, -torch.inf, -0.0
    if not dtype.is_floating_point:
        include_self = True  # otherwise each place is first given what changes nothing, by several threads, which the simulator takes for a race
    i = torch.randint(0, 20, y.shape)
    model = lambda x, i, y: x.scatter_reduce(dim, i, y, kind, include_self=include_self)  # noqa: E731
    torch.testing.assert_close(simulated(model, (x, i, y))(x, i, y), model(x, i, y), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_means(dtype, include_self):
    """Both the sums and how many they are of."""
    x, i, y = torch.randn(24, 24).to(dtype), torch.randint(0, 20, (24, 60)), torch.randn(24, 60).to(dtype)
    model = lambda x, i, y: x.scatter_reduce(1, i, y, "mean", include_self=include_self)  # noqa: E731
    found = check(simulated(model, (x, i, y)), model, (x, i, y))
    assert found.right, str(found)


@pytest.mark.parametrize("far", [1 << 40, -1, -24, (1 << 32) + 1, 24])
def test_places_outside_are_left_alone(far):
    x, y = torch.randn(6, 24), torch.randn(6, 12)
    i = torch.randint(0, 24, (6, 12))
    made = simulated(add(1), (x, i, y))
    i[2, 3] = far
    y[2, 3], i[2, 3], at, moved = 0, 0, far, y[2, 3].clone()
    expected = x.scatter_add(1, i, y)
    y[2, 3], i[2, 3] = moved, at
    torch.testing.assert_close(made(x, i, y), expected)


def test_chosen():
    """Rows that fit, enough of them, to which enough goes."""
    target = find_target("sm_90a")
    sizes = {(400, 4096): 4096, (400, 20000): None, (20, 4096): None, (401, 4096): 100}
    for (rows, places), updates in sizes.items():
        used = []
        args = torch.empty(rows, places), torch.empty(rows, updates or 4096, dtype=torch.int64), torch.empty(rows, updates or 4096)
        made = _schedules(args, target, used)
        assert any(isinstance(s, Scatters) for s in made) == (updates == 4096), (rows, places, made)


def _schedules(args, target, used):
    from inferno.capture import capture
    from inferno.mlir import idle_context, ir
    from inferno.passes.manager import run_pipeline
    from inferno.runtime.workers import jobs
    from inferno.schedule.assign import kernels
    from inferno.schedule.attributes import ATTRIBUTE, from_attribute

    linalg, _ = jobs.lower_to_linalg(capture(add(1), args, {}, None).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, f"inferno-fuse,fuse-scatters{{target={target.name}}},assign-schedules{{target={target.name}}}")
        return [from_attribute(k.attributes[ATTRIBUTE]) for k in kernels(module)]


ROUTER = torch.randn(6, 16), torch.stack([torch.randperm(16)[:4] for _ in range(6)])
FEW = {
    "put": (lambda x, i, y: x.scatter(1, i, y), (*ROUTER, torch.randn(6, 5))),
    "several at one place": (lambda x, i, y: x.scatter(0, i, y), (torch.randn(16, 6), torch.tensor([[3] * 6, [5] * 6, [3] * 6]), torch.randn(3, 6))),
    "marks": (lambda x, i: torch.zeros_like(x, dtype=torch.bool).scatter(-1, i, True), ROUTER),
    "added": (lambda x, i, y: x.scatter_add(1, i, y), (ROUTER[0], ROUTER[1] // 3, torch.randn(6, 4))),
    "added in 16 bits": (lambda x, i, y: x.scatter_add(1, i, y), (ROUTER[0].bfloat16(), ROUTER[1] // 3, torch.randn(6, 4).bfloat16())),
    "of experts": (lambda x, i: torch.zeros_like(x).scatter(1, i, x.gather(1, i).softmax(-1)), ROUTER),
}


@pytest.mark.parametrize("name", FEW)
def test_few_are_compared(name):
    """An elementwise operation, in which the last of several stays."""
    model, args = FEW[name]
    with capturing_for(True):
        made = SimulatedModel(model, args)
    found = check(made, model, args)
    assert found.right, str(found)
    assert not any("scatter" in s.kernel for s in made.program.plan.steps)


@pytest.mark.covering
@pytest.mark.parametrize("shape, count, few", [
    ((4096, 128), 8, True), ((4096, 256), 8, True), ((8, 64), 9, False), ((65536, 128), 8, False), ((8, 1024, 512), 2, False), ((64, 4096), 3, True),
    ((8192, 4096), 1, True),
])
def test_which_are_few(shape, count, few):
    """Not so many that comparing them takes longer than launches; one each always."""
    index = torch.empty(shape[0], count, *shape[2:], dtype=torch.int64)
    found = generators(lambda x, i, y: x.scatter(1, i, y), (torch.empty(shape), index, torch.empty(index.shape)))
    assert (found == ["elementwise"]) == few, found


def test_one_each_is_written_where_it_lies():
    """Into an argument that is changed, the rest of which stays."""
    def put(x, i, y):
        x.scatter_(1, i, y)

    args = torch.empty(4096, 5000), torch.empty(4096, 1, dtype=torch.int64), torch.empty(4096, 1)
    schedules = scheduled(put, args)
    assert "tm_tensor.scatter" in schedules and "tensor<4096x5000xi1>" not in schedules
    assert generators(put, args) == ["elementwise", "universal"]  # the places, and the elements
