"""Scans in kernels that go over rows on a GPU: every kind of schedule, many lengths and types, and the same bits each time."""

import pytest
import torch
from checks import check, poison_memory
from on_gpu import on_hopper
from row_scan_cases import CASES, PASSES, SCHEDULES, choose, norm_and_largest, top_p, twice
from torch.utils._pytree import tree_leaves
from universal_program import compile_universal

pytestmark = on_hopper
bf16 = torch.bfloat16


def right(model, args, schedule="chosen"):
    """Right, and the same each time, by one kernel."""
    args = tuple(a.cuda() for a in args)
    compiled = compile_universal(model, args, args[0].device, "sm_90a", choose(SCHEDULES[schedule]), passes=PASSES)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)
    first = tree_leaves(compiled(*args))
    assert all(torch.equal(a, b) for _ in range(3) for a, b in zip(first, tree_leaves(compiled(*args)), strict=True))
    assert compiled.explain().launches == 1


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    torch.manual_seed(0)
    model, make = CASES[name]
    right(model, make())


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("model, dtype", [(twice, torch.float32), (top_p, bf16), (twice, torch.float16)])
def test_schedules(model, dtype, schedule):
    torch.manual_seed(0)
    right(model, (torch.randn(700, 264, device="cuda").to(dtype),), schedule)


@pytest.mark.parametrize("dtype", [torch.float32, bf16])
@pytest.mark.parametrize("rows, columns", [
    (100000, 8), (56422, 43), (20000, 512), (20000, 1001), (4096, 8192), (1341, 2706), (3, 9001), (600, 20000), (4, 32000), (130, 50257), (5, 152064),
])
def test_lengths(rows, columns, dtype):
    torch.manual_seed(0)
    x = torch.randn(rows, columns, device="cuda").to(dtype)
    right(top_p, (x,))
    right(norm_and_largest, (x, torch.randn(columns, device="cuda").to(dtype)))
