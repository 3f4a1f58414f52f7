"""Kernels that go over rows on a GPU: the numbers of every schedule, and of rows of all lengths."""

import pytest
import torch
from checks import check, poison_memory
from on_gpu import on_hopper
from row_kernel_cases import (
    CASES, PASSES, PERSISTENT, RAGGED, RAGGED_SCHEDULES, SCHEDULES, choose, choose_ragged, layer_norm, residual_norm, softmax,
)
from universal_program import compile_universal

from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")
pytestmark = on_hopper


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda").to(dtype)


def right(model, args, schedule="chosen"):
    """Right, and the same twice; how many kernels were launched."""
    args = tuple(a.cuda() for a in args)
    compiled = compile_universal(model, args, args[0].device, "sm_90a", choose(SCHEDULES[schedule]), passes=PASSES)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)
    return compiled.explain().launches


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    torch.manual_seed(0)
    model, args, launches = CASES[name]()
    assert right(model, args) == (1 if name == "transposed rows" else launches)  # of the few that are fused after rows


@pytest.mark.parametrize("name", [
    "softmax bf16", "layer_norm", "group_norm", "batch_norm, odd sizes", "booleans", "residual and rms_norm", "what neighbours share",
])
@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s != "chosen"])
def test_schedules(name, schedule):
    torch.manual_seed(0)
    model, args, _ = CASES[name]()
    right(model, args, schedule)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows, columns", [
    (1, 31), (1000, 999), (100000, 2), (5000, 256), (300, 8192), (33, 50257), (64, 16384), (3, 19008), (9, 131072), (2, 300001), (3, 1 << 20),
    (40, 262144), (15, 1 << 20),
])
def test_lengths(rows, columns, dtype):
    torch.manual_seed(0)
    x = randn(rows, columns, dtype=dtype)
    w = randn(columns, dtype=dtype)
    assert right(softmax, (x,)) == 1
    assert right(layer_norm, (x, w, w)) == 1
    assert right(residual_norm, (x, x.flip(0), w)) == 1


@pytest.mark.parametrize("columns", [1001, 50257])
@pytest.mark.parametrize("name", RAGGED)
@pytest.mark.parametrize("schedule", RAGGED_SCHEDULES)
def test_rows_that_begin_anywhere(name, columns, schedule):
    if columns > 10000 and schedule in ("held", "packed"):
        return  # more than registers hold
    torch.manual_seed(0)
    model, args = RAGGED[name](columns)
    args = tuple(a.cuda() for a in args)
    compiled = compile_universal(model, args, args[0].device, "sm_90a", choose_ragged(RAGGED_SCHEDULES[schedule]), passes=PASSES)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)


def persistent(model, args, choose):
    """Right, and the same ten times: many rows go through each place."""
    compiled = compile_universal(model, args, args[0].device, "sm_90a", choose, passes=PASSES)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)
    first, *others = (compiled(*args) for _ in range(10))
    for other in others:
        torch.testing.assert_close(first, other, rtol=0, atol=0)


@pytest.mark.parametrize("schedule", PERSISTENT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_that_go_over_all_rows(schedule, dtype):
    torch.manual_seed(0)
    x, w = randn(400, 4096, dtype=dtype), randn(4096, dtype=dtype)
    change = {**PERSISTENT[schedule], "threads": 128, "across": 128, "kept": 2 if schedule == "a part" else 9, "persistent": 40}
    if PERSISTENT[schedule].get("cluster"):
        change["cluster"] = 4
    for model, args in ((softmax, (x,)), (layer_norm, (x, w, w)), (residual_norm, (x, x.flip(0), w))):
        persistent(model, args, choose(change))


@pytest.mark.parametrize("name", ["softmax", "softmax f32", "layer_norm"])
@pytest.mark.parametrize("schedule", ["blocks", "clusters", "weights"])
def test_blocks_that_go_over_rows_that_begin_anywhere(name, schedule):
    torch.manual_seed(0)
    model, args = RAGGED[name](10007)
    args = tuple(a.cuda() for a in args)
    args = args[0].repeat(60, 1) + torch.randn(len(args[0]) * 60, 1, device="cuda").to(args[0].dtype), *args[1:]
    persistent(model, args, choose_ragged({**PERSISTENT[schedule], "threads": 256, "across": 256, "persistent": 48}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_taken_with_the_largest_of_clusters(dtype):
    """Of rows with points that are infinite, or no number, too."""
    torch.manual_seed(0)
    x = randn(40, 50000) * 20
    x[0, 5], x[1, 7], x[2, 3], x[3], x[4] = torch.nan, torch.inf, -torch.inf, -torch.inf, x[4] * 1e5
    x = x.to(dtype)
    change = {"threads": 256, "across": 256, "cluster": 8, "held": False, "unroll": 2, "kept": 4, "sends": True, "online": True}
    for more in ({}, {"persistent": 6}, {"cluster": 16, "kept": 2, "persistent": 3}):
        for model in (softmax, lambda x: torch.log_softmax(x, -1)):
            compiled = compile_universal(model, (x,), x.device, "sm_90a", choose({**change, **more}), passes=PASSES)
            torch.testing.assert_close(compiled(x), model(x), equal_nan=True)


@pytest.mark.parametrize("rows, columns, dtype", [
    (40, 70, torch.float32), (600, 8192, torch.bfloat16), (530, 8200, torch.float32), (1000, 50257, torch.bfloat16),
])
def test_losses(rows, columns, dtype):
    """Cross entropy, whose kernel takes each row's element at its target, too."""
    torch.manual_seed(0)
    x, targets = randn(rows, columns, dtype=dtype), torch.randint(0, columns, (rows,), device="cuda")
    targets[1] = -100
    passes = "split-terms{target=sm_90a},fuse-reductions{target=sm_90a}"
    for reduction in ("mean", "none"):
        def model(x, t, reduction=reduction):
            return torch.nn.functional.cross_entropy(x, t, reduction=reduction)

        compiled = compile_universal(model, (x, targets), x.device, "sm_90a", lambda k: assign.choose(k, TARGET), passes=passes)
        poison_memory()
        found = check(compiled, model, (x, targets))
        assert found.right, str(found)
