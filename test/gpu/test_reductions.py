"""Reductions over any dimensions on a GPU: the numbers of every schedule, and of all shapes."""

import pytest
import torch
from checks import check, poison_memory
from reduction_cases import CASES, SCHEDULES, choose
from universal_program import compile_universal

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a GPU of this kind")


def right(model, args, schedule="chosen"):
    args = tuple(a.cuda() for a in args)
    compiled = compile_universal(model, args, args[0].device, "sm_90a", choose(SCHEDULES[schedule]))
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", ["chosen", "chunks"])
def test_cases(name, schedule):
    torch.manual_seed(0)
    model, *args = CASES[name]()
    right(model, args, schedule)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 31), (1000, 999), (100000, 2), (1 << 20, 3), (3, 1 << 20), (70000, 24)])
def test_shapes(shape, dtype):
    torch.manual_seed(0)
    x = torch.randn(shape).to(dtype)
    for model in (lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.sum(), lambda x: x.argmax(0), lambda x: x.argmin(1)):
        right(model, (x,))


def test_beyond_two_to_the_31():
    x = torch.ones(32800, 65536, dtype=torch.int8, device="cuda")
    right(lambda x: x.sum(0), (x,))
    right(lambda x: x.sum(), (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2000, 304), (300, 5000), (1, 1 << 20)])
def test_several_of_the_same(shape, dtype):
    torch.manual_seed(0)
    x = torch.randn(shape).to(dtype).cuda()
    for model in (lambda x: (x.sum(0), x.amax(0)), lambda x: (x.sum(1), x.amin(1), (x * x).sum(1)), lambda x: (x.sum(), (x * x).sum())):
        compiled = compile_universal(model, (x,), x.device, "sm_90a", choose({}), passes="fuse-reductions{target=sm_90a}")
        poison_memory()
        found = check(compiled, model, (x,))
        assert found.right, str(found)
