"""Sorts and selections on a GPU: the same as eager's stable sort, twice, for rows of all lengths and every dtype."""

import pytest
import torch
from checks import poison_memory
from sort_cases import CASES, OF_ANY_NUMBER, PASSES, choose, first, numbers, other_rows, sort, values, whole
from test_sorts import same
from torch.export import Dim
from universal_program import compile_universal

from inferno.schedule.sorts.select import Select
from inferno.schedule.sorts.sorts import Sorts

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def right(model, x, schedule=None):
    """Right, and the same twice; how many kernels were launched.  What is right the CPU's sort says: CUDA's orders what is not a number by
    its sign."""
    wanted = model(x)
    wanted, x = wanted.cuda() if isinstance(wanted, torch.Tensor) else [t.cuda() for t in wanted], x.cuda()
    compiled = compile_universal(model, (x,), x.device, "sm_90a", choose(schedule), passes=PASSES)
    poison_memory()
    assert same(compiled(x), wanted) and same(compiled(x), wanted)
    return compiled.explain().launches


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    torch.manual_seed(0)
    model, make, schedule, launches = CASES[name]
    assert right(model, make(), schedule) == launches


@pytest.mark.parametrize("name", OF_ANY_NUMBER)
def test_any_number_of_rows(name):
    torch.manual_seed(0)
    model, make, schedule, launches = CASES[name]
    x = make()
    dims = ({0: Dim("n", min=2, max=1 << 20)},)
    compiled = compile_universal(model, (x.cuda(),), torch.device("cuda", 0), "sm_90a", choose(schedule), dims, passes=PASSES)
    assert compiled.explain().launches == launches
    for other in (x, *other_rows(x)):
        wanted = model(other)
        poison_memory()
        assert same(compiled(other.cuda()), wanted.cuda() if isinstance(wanted, torch.Tensor) else [t.cuda() for t in wanted]), other.shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int16])
@pytest.mark.parametrize("rows, columns", [
    (70000, 3), (9001, 8), (70000, 2), (20011, 17), (16400, 32), (5001, 33), (300, 1000), (33, 4096), (9, 8192), (5, 20000), (2, 300001),
])
@pytest.mark.parametrize("descending", [False, True])
def test_sorts(rows, columns, dtype, descending):
    torch.manual_seed(0)
    right(sort(-1, descending), (numbers if dtype.is_floating_point else whole)(rows, columns, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.int16, torch.int64])
@pytest.mark.parametrize("shape, dim", [
    ((70001, 2), 1), ((20000, 5), 1), ((9001, 8), 1), ((17001, 17), 1), ((17000, 32), 1), ((8, 70000), 0), ((9000, 7, 3), 1),
])
@pytest.mark.parametrize("descending", [False, True])
def test_values(shape, dim, dtype, descending):
    """Of short rows, whose places nobody reads."""
    torch.manual_seed(0)
    right(values(dim, descending), (numbers if dtype.is_floating_point else whole)(*shape, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("rows, columns, count", [
    (1000, 33, 5), (1000, 500, 32), (300, 1000, 8), (300, 1000, 64), (33, 5001, 8), (33, 8192, 700), (9, 16384, 2000), (5, 50257, 50), (3, 1 << 20, 300),
])
def test_selections(rows, columns, count, dtype):
    torch.manual_seed(0)
    make = numbers if dtype.is_floating_point else whole
    for data in (make(rows, columns, dtype=dtype), torch.randint(0, 3, (rows, columns)).to(dtype), torch.arange(rows * columns).view(rows, columns).to(dtype)):
        right(first(count), data)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows, columns", [(100, 500), (33, 8191), (9, 16384)])
def test_medians(rows, columns, dtype):
    torch.manual_seed(0)
    x = torch.randn(rows, columns).to(dtype).cuda()
    compiled = compile_universal(lambda x: x.median(-1), (x,), x.device, "sm_90a", choose(), passes=PASSES)
    value, place = compiled(x)
    assert torch.equal(value, x.median(-1)[0]) and torch.equal(x.gather(-1, place.unsqueeze(-1)).squeeze(-1), value)


@pytest.mark.parametrize("schedule", [Sorts(64, 8), Sorts(128, 16), Sorts(256, 4), Select(64, 64, 16, 64), Select(256, 256, 8, 128)])
def test_schedules(schedule):
    torch.manual_seed(0)
    right(first(20), numbers(70, 2000), schedule)
