"""Rows that are added to others, each of which looks for its own among all: of all types and widths, whichever rows get how much, the same bits each time."""

import pytest
import torch
from checks import assert_close_to_float64, poison_memory
from on_gpu import on_hopper
from universal_program import compile_universal

import inferno
from inferno.schedule import assign
from inferno.schedule.scatters import matched_rows
from inferno.schedule.scatters.matched_rows import MatchedRows
from inferno.target import find_target

pytestmark = on_hopper
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64]


def of(*shape, dtype=torch.float32):
    return torch.randint(-9, 10, shape, device="cuda").to(dtype) if not dtype.is_floating_point else torch.randn(shape, device="cuda").to(dtype)


def numbers(below, *shape):
    return torch.randint(0, below, shape, device="cuda")


MODELS = {
    "add": lambda x, i, y: x.index_add(0, i, y), "put": lambda x, i, y: x.index_put((i,), y, accumulate=True),
    "to zeros": lambda x, i, y: torch.zeros_like(x).index_add(0, i, y + 1), "in place": lambda x, i, y: x.index_add_(0, i, y),
    "weighted": lambda x, i, y: x.index_add(0, i, x[i] * y[:, :1]),
}


def right(model, args, schedule=None):
    """Close to float64, and the same bits each time; what is left of arguments that are written to, too."""
    def choose(kernel):
        found = matched_rows.fit(kernel)
        return (schedule or found[1]) if found else assign.choose(kernel, find_target("sm_90a"))

    compiled = compile_universal(model, args, args[0].device, "sm_90a", choose, passes="fuse-scatters{target=sm_90a always=1}")
    poison_memory()
    first = compiled(*(a.clone() for a in args))
    assert_close_to_float64(first, lambda *given: model(*(a.clone() for a in given)), args)
    assert all(torch.equal(first, compiled(*(a.clone() for a in args))) for _ in range(3))


@pytest.mark.parametrize("columns", [1, 4, 7, 66, 512, 2048])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_right(name, dtype, columns):
    right(MODELS[name], (of(500, columns, dtype=dtype), numbers(500, 300), of(300, columns, dtype=dtype)))


@pytest.mark.parametrize("count", [1, 31, 33, 256, 257, 4096, 20001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("hot", [1, 2, 1 << 20])
def test_whichever_rows_get_how_much(hot, dtype, count):
    """All go to one row, half of them, or one."""
    i = numbers(90, count)
    i[::hot] = 30
    right(MODELS["add"], (of(90, 256, dtype=dtype), i, of(count, 256, dtype=dtype)))


@pytest.mark.parametrize("schedule", [
    MatchedRows(4, 8, 2, 2, 2, 2), MatchedRows(4, 32, 1, 16, 8, 4), MatchedRows(2, 4, 8, 4, 1, 3), MatchedRows(1, 32, 4, 1, 8, 8),
], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_schedules(schedule, dtype):
    right(MODELS["weighted"], (of(900, 136, dtype=dtype), numbers(900, 2001), of(2001, 136, dtype=dtype)), schedule)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("rows, columns, count", [(100, 256, 64), (1024, 64, 1024), (64, 32, 16)])
def test_what_is_chosen(rows, columns, count, dtype):
    x, i, y = of(rows, columns, dtype=dtype), numbers(rows, count), of(count, columns, dtype=dtype)
    compiled = inferno.compile(MODELS["add"], (x, i, y), fallback=False)
    assert [r.generator for r in compiled.explain().rows] == ["matched_rows"], compiled.explain()
    assert_close_to_float64(compiled(x, i, y), MODELS["add"], (x, i, y))
    compiled = inferno.compile(MODELS["in place"], (x, i, y), fallback=False)
    expected = MODELS["add"](x.double(), i, y.double())
    found = compiled(x, i, y)
    assert torch.equal(found, x)
    torch.testing.assert_close(x, expected.to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=16 * torch.finfo(dtype).eps)
