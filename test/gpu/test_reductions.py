"""Reductions over any dimensions on a GPU: the numbers of every schedule, and of all shapes."""

import pytest
import torch
from checks import assert_right, check, poison_memory
from chosen_cases import CASES as CHOSEN
from gather_cases import CASES as GATHERS
from on_gpu import on_hopper
from reduction_cases import CASES, EXTREMA, MAPPED, SCHEDULES, choose, each_extremum, hard, variances
from torch.export import Dim
from universal_program import compile_universal

from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")
pytestmark = on_hopper


def right(model, args, schedule="chosen", passes=""):
    args = tuple(a.cuda() for a in args)
    compiled = compile_universal(model, args, args[0].device, "sm_90a", choose(SCHEDULES[schedule]), passes=passes)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", ["chosen", "chunks"])
def test_cases(name, schedule):
    torch.manual_seed(0)
    model, *args = CASES[name]()
    right(model, args, schedule)


@each_extremum
def test_extrema(name, schedule, dtype, shape):
    torch.manual_seed(0)
    x = hard(*shape, dtype).cuda()
    compiled = compile_universal(EXTREMA[name], (x,), x.device, "sm_90a", choose(SCHEDULES[schedule]))
    poison_memory()
    for a, b in zip(compiled(x), EXTREMA[name](x.cpu())):
        torch.testing.assert_close(a.cpu(), b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", MAPPED)
def test_a_map_of_each_sum(name):
    torch.manual_seed(0)
    model, *args = MAPPED[name]()
    right(model, args, passes="fuse-reductions{target=sm_90a always=1}")


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


@pytest.mark.parametrize("mean", [0, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_variances_by_one_read(mean, dtype):
    torch.manual_seed(0)
    for model, args in variances((torch.randn(32, 128, 28, 28) + mean).to(dtype).cuda()):
        passes = "merge-variances{target=sm_90a}"
        compiled = compile_universal(model, args, args[0].device, "sm_90a", lambda k: assign.choose(k, TARGET), passes=passes)
        poison_memory()
        found = check(compiled, model, args)
        assert found.right, str(found)


@pytest.mark.parametrize("mean", [0, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_deviations_by_one_read(mean, dtype):
    torch.manual_seed(0)
    model, x = lambda x: (x.std(0), x.var(0, correction=0)), (torch.randn(100000, 96, device="cuda") + mean).to(dtype)
    passes = "fuse-reductions{target=sm_90a},merge-variances{target=sm_90a},fuse-sum-maps{target=sm_90a}"
    compiled = compile_universal(model, (x,), x.device, "sm_90a", lambda k: assign.choose(k, TARGET), passes=passes)
    poison_memory()
    found = check(compiled, model, (x,))
    assert found.right, str(found)


@pytest.mark.parametrize("model", [lambda x: x.sum(-1), lambda x: (x.amax(-1), (x * x).sum(-1)), lambda x: x.argmax(-1), lambda x: x.var(-1)])
@pytest.mark.parametrize("length", [48, 8192])
def test_sums_whose_number_varies(model, length):
    torch.manual_seed(0)
    x = torch.randn(70000 if length < 100 else 5000, length, device="cuda").mul(16).round() / 16  # whose sums are exact: of one row there is one
    varying = ({0: Dim("n", min=1, max=1 << 20)},)
    compiled = compile_universal(model, (x[:9],), x.device, "sm_90a", lambda k: assign.choose(k, TARGET), varying)
    for rows in (9, 1, len(x)):
        poison_memory()
        found = check(compiled, model, (x[:rows].clone(),))
        assert found.right, f"{rows}: {found}"


@pytest.mark.parametrize("scale", [1, 20])
@pytest.mark.parametrize("name", GATHERS)
def test_terms_from_tables(name, scale):
    """Also of what a library has kernels for, and of so many terms that they are first made."""
    torch.manual_seed(0)
    model, make = GATHERS[name]
    compiled = assert_right(model, tuple(a.cuda() for a in make(scale)))
    assert "universal" not in {row.generator for row in compiled.explain().rows}


@pytest.mark.parametrize("scale", [1, 37])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CHOSEN)
def test_pieces_are_read_where_they_lie(name, dtype, scale):
    torch.manual_seed(0)
    model, *shapes = CHOSEN[name]
    args = tuple(torch.randn(s[0] * (scale if name not in ("all", "nested") else 1), *s[1:], device="cuda", dtype=dtype) for s in shapes)
    assert "universal" not in {row.generator for row in assert_right(model, args).explain().rows}
