"""Kernels that go over rows side by side on a GPU: the numbers of every schedule, and of rows of all lengths."""

import inferno
import pytest
import torch
from checks import check, poison_memory
from column_cases import CASES, GROUPED, NORMS, ODD, ONCE, SCHEDULES, TRANSPOSED, choose, softmax
from on_gpu import on_hopper
from row_kernel_cases import PASSES
from universal_program import compile_universal

F = torch.nn.functional

pytestmark = on_hopper


def right(model, args, schedule="chosen"):
    args = tuple(a.cuda() for a in args)
    compiled = compile_universal(model, args, args[0].device, "sm_90a", choose(SCHEDULES[schedule]), passes=PASSES)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cases(name, schedule):
    torch.manual_seed(0)
    model, args = CASES[name]()
    right(model, args, schedule)


@pytest.mark.parametrize("name", TRANSPOSED)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_transposed(unmeasured, name, schedule):
    right(*TRANSPOSED[name](), schedule)


@pytest.mark.covering
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("schedule", ONCE)
def test_moments(unmeasured, monkeypatch, name, schedule):
    monkeypatch.setitem(SCHEDULES, "once", {"across": 2, "threads": 64, "unroll": 4, "run": 1, **ONCE[schedule]})
    right(*NORMS[name](), "once")


@pytest.mark.parametrize("name", GROUPED)
def test_groups(unmeasured, name):
    torch.manual_seed(0)
    right(*GROUPED[name]())


@pytest.mark.parametrize("run", [2, 4])
@pytest.mark.parametrize("name", ["float32", "threads of no row", "to float32"])
def test_transposed_in_runs(unmeasured, monkeypatch, name, run):
    monkeypatch.setitem(SCHEDULES, "run", {"unroll": 4, "run": run, "kept": 1})
    right(*TRANSPOSED[name](), "run")


@pytest.mark.parametrize("name", ODD)
def test_many_rows_of_an_odd_number(name):
    torch.manual_seed(0)
    model, args = ODD[name]()
    args = tuple(a.cuda() for a in args)
    compiled = inferno.compile(model, args)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right and [row.generator for row in compiled.explain().rows] == ["columns"], str(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(64, 256, 64, 64), (5, 72, 33, 31), (2, 512, 150, 149)])
@pytest.mark.parametrize("norm", [
    F.instance_norm, lambda x: F.group_norm(x, 8), lambda x: F.silu(F.group_norm(x, 8, x[0, :, 0, 0], x[0, :, 1, 1])),
], ids=["instances", "groups", "weighted groups"])
def test_channels_last(unmeasured, norm, shape, dtype):
    x = (torch.randn(shape, device="cuda") + 1).to(dtype).contiguous(memory_format=torch.channels_last)
    found = check(inferno.compile(norm, (x,)), norm, (x,))
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(100, 64), (8192, 40), (3000, 264), (300, 4096), (70000, 24), (2, 512)])
def test_lengths(shape, dtype):
    torch.manual_seed(0)
    right(softmax, (torch.randn(shape).to(dtype),))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape, groups", [
    ((2, 320, 64, 64), 32), ((1, 960, 32, 32), 32), ((2, 960, 64, 64), 32), ((1, 1920, 48, 48), 32), ((4, 96, 28, 28), 32), ((8, 64, 56, 56), 1),
    ((2, 64, 33, 31), 8),
])
@pytest.mark.parametrize("flag", ["0", "1"])
def test_group_norms_between_convolutions(monkeypatch, shape, groups, dtype, flag):
    """One kernel reads what the first convolution wrote with channels last, and writes what the second one reads."""
    monkeypatch.setenv("INFERNO_UNMEASURED", flag)
    torch.manual_seed(0)
    channels = shape[1]
    layers = torch.nn.Conv2d(channels, channels, 1), torch.nn.GroupNorm(groups, channels), torch.nn.SiLU(), torch.nn.Conv2d(channels, channels, 1)
    model, x = torch.nn.Sequential(*layers).cuda().to(dtype), torch.randn(shape, device="cuda", dtype=dtype)
    with torch.no_grad():
        compiled = inferno.compile(model, (x,))
        found = check(compiled, model, (x,))
    assert found.right, str(found)
    assert 'generator = "universal"' not in compiled.ir("scheduled")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(32, 64, 56, 56), (8, 256, 28, 28), (3, 40, 33, 31)])
def test_batch_norms_in_training(shape, dtype):
    """With channels last: what channels have in common is computed once, and the two sums of the backward are one kernel."""
    torch.manual_seed(0)
    x, gradient = ((torch.randn(shape, device="cuda") + 1).to(dtype).contiguous(memory_format=torch.channels_last) for _ in range(2))
    weight, mean, scale = (torch.rand(shape[1], device="cuda") + 0.5 for _ in range(3))

    def forward(x, w):
        return F.relu(F.batch_norm(x, None, None, w, w, True))

    def backward(gy, x, w, m, i):
        return torch.ops.aten.native_batch_norm_backward.default(gy, x, w, None, None, m, i, True, 1e-5, [True, True, True])

    for model, args in ((forward, (x, weight)), (backward, (gradient, x, weight, mean, scale))):
        found = check(inferno.compile(model, args), model, args)
        assert found.right, str(found)
