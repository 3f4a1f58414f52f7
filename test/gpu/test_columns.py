"""Kernels that go over rows side by side on a GPU: the numbers of every schedule, and of rows of all lengths."""

import inferno
import pytest
import torch
from checks import check, poison_memory
from column_cases import CASES, SCHEDULES, TURNED, choose, softmax
from row_kernel_cases import PASSES
from universal_program import compile_universal

F = torch.nn.functional

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a GPU with clusters")


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


@pytest.mark.parametrize("name", TURNED)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_turned(unmeasured, name, schedule):
    right(*TURNED[name](), schedule)


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
