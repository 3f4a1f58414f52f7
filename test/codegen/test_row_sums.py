"""Rows that are added to others in memory: their numbers on a simulated GPU, what they are fused with, and what is chosen."""

from functools import partial

import pytest
import torch
from added_row_cases import assert_launches_right, add, assert_extremes, put, simulated_with
from checks import check
from universal_program import assert_assembles

from inferno.capture.decompositions.scattered_extremes import extremes
from inferno.schedule.scatters import row_sums, sorted_rows
from inferno.schedule.scatters.row_sums import RowSums
from inferno.target import find_target

simulated = partial(simulated_with, row_sums)


def edges(x, i, y):
    """Rows that others get by way of a table of numbers."""
    return torch.zeros_like(x).index_add(0, i[0], x[i[1]])


def of(shape, type_=torch.float32):
    return lambda: torch.randn(shape).mul(4).to(type_)


def numbers(*shape, below=20):
    return lambda: torch.randint(0, below, shape)


BF16, F16 = torch.bfloat16, torch.float16
CASES = {
    "added": (add, of((20, 32)), numbers(90), of((90, 32)), 2),
    "put": (put, of((20, 32)), numbers(90), of((90, 32)), 2),
    "to zeros": (lambda x, i, y: torch.zeros_like(x).index_add(0, i, y), of((20, 32)), numbers(90), of((90, 32)), 2),
    "by pairs": (add, of((20, 6)), numbers(90), of((90, 6)), 2),
    "one by one": (add, of((20, 7)), numbers(90), of((90, 7)), 2),
    "bf16": (put, of((20, 24), BF16), numbers(100), of((100, 24), BF16), 3),
    "bf16, to zeros": (lambda x, i, y: torch.zeros_like(x).index_add(0, i, y), of((20, 24), BF16), numbers(100), of((100, 24), BF16), 3),
    "f16, of several dimensions": (add, of((30, 4, 6), F16), numbers(70), of((70, 4, 6), F16), 3),
    "float64": (put, of((20, 6), torch.float64), numbers(80), of((80, 6), torch.float64), 2),
    "whole numbers": (add, of((20, 5), torch.int32), numbers(90), of((90, 5), torch.int32), 2),
    "a part of rows": (lambda x, i, y: x.index_add(0, i, y[:, 8:]), of((20, 8)), numbers(80), of((80, 16)), 2),
    "of what is computed": (lambda x, i, y: x.index_put(((i * 3) % 20,), y * y - 1, accumulate=True), of((20, 8)), numbers(80), of((80, 8)), 2),
    "edges": (edges, of((20, 32)), numbers(2, 90), of(1), 2),
    "edges in bf16": (edges, of((20, 32), BF16), numbers(2, 90), of(1), 3),
    "edges with weights": (
        lambda x, i, y: x.index_add(0, i[0], torch.relu(x[i[1]] * y)), of((20, 32)), numbers(2, 90), of((90, 1)), 2),
    "of a table that is computed": (
        lambda x, i, y: torch.zeros_like(x).index_add(0, i[0], torch.relu(x)[i[1]]), of((20, 32)), numbers(2, 90), of(1), 3),
    "single elements": (lambda x, i, y: x.index_add(0, (i * 3) % 20, y * y - 1), of((20,)), numbers(90), of((90,)), 2),
    "single elements in bf16": (lambda x, i, y: torch.zeros_like(x).index_add(0, i, y.exp()), of((20,), BF16), numbers(90), of((90,), BF16), 3),
    "single elements by a matrix": (lambda x, i, y: x.index_add(0, i[0], y * x[i[1]]), of((20,)), numbers(2, 90), of((90,)), 2),
    "pairs": (lambda x, i, y: x.index_add(0, i, y * 2), of((20, 2)), numbers(90), of((90, 2)), 2),
    "of another type": (lambda x, i, y: torch.zeros(20, 32).index_add(0, i[0], x[i[1]].float()), of((20, 32), BF16), numbers(2, 90), of(1), 2),
}


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, *makers, kernels = CASES[name]
    args = tuple(m() for m in makers)
    assert_launches_right(simulated(model, args), model, args, kernels)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, BF16, torch.float64], ids=str)
@pytest.mark.parametrize("kind, include_self", [("amax", True), ("amin", False)])
def test_extremes(kind, include_self, dtype):
    """As whole numbers, which memory joins one by one."""
    gpu = assert_extremes(row_sums, kind, include_self, dtype).program.gpu
    assert f"red.relaxed.gpu.global.{kind[1:]}.s{64 if dtype == torch.float64 else 32} [a]" in gpu and "300x8" not in gpu
    assert_assembles(gpu, find_target("sm_90a"))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("generator", [row_sums, sorted_rows], ids=["row_sums", "sorted_rows"])
def test_rows_that_several_add(generator):
    """What comes to a node in several ways: each kernel looks up the rows itself, and squares them, and they are never written."""
    def model(x, i, z):
        rows = x[i[1]]
        best = extremes(z, 0, i[0][:, None].expand(-1, 8), rows, "amax", False)
        return z.index_add(0, i[0], rows), z.index_add(0, i[0], rows * rows), best

    torch.manual_seed(0)
    x, i, z = torch.randn(30, 8), torch.stack((torch.randint(0, 20, (90,)), torch.randint(0, 30, (90,)))), torch.randn(20, 8)
    made = simulated_with(generator, model, (x, i, z))
    rows = x[i[1]]
    found = made(x, i, z)
    torch.testing.assert_close(found[0], z.index_add(0, i[0], rows))
    torch.testing.assert_close(found[1], z.index_add(0, i[0], rows * rows))
    torch.testing.assert_close(found[2], z.scatter_reduce(0, i[0][:, None].expand(-1, 8), rows, "amax", include_self=False), rtol=0, atol=0)
    assert "90x8x" not in made.program.gpu and "memref<720xf32" not in made.program.gpu


def test_rows_that_others_read_are_looked_up_once():
    def model(x, i, z):
        rows = x[i[1]]
        return z.index_add(0, i[0], rows), z.index_add(0, i[0], rows * rows), rows

    torch.manual_seed(0)
    args = torch.randn(30, 8), torch.stack((torch.randint(0, 20, (90,)), torch.randint(0, 30, (90,)))), torch.randn(20, 8)
    made = simulated(model, args)
    for ours, theirs in zip(made(*args), model(*args)):
        torch.testing.assert_close(ours, theirs)
    assert sum("gather" in s.kernel for s in made.program.plan.steps) == 1


@pytest.mark.parametrize("dtype", [torch.float32, BF16], ids=str)
def test_tables_in_another_shape(dtype):
    """Attention over a graph's edges: rows of several heads, of a table whose rows are flat, are read where they are."""
    def model(x, i, w):
        heads = x.view(20, 4, 8)
        return torch.zeros_like(heads).index_add(0, i[0], heads[i[1]] * w[..., None])

    torch.manual_seed(0)
    args = torch.randn(20, 32).to(dtype), torch.randint(0, 20, (2, 90)), torch.rand(90, 4).to(dtype)
    made = simulated(model, args)
    found = check(made, model, args)
    assert found.right, str(found)
    assert "90x4x8" not in made.program.gpu and len(made.program.plan.steps) == (2 if dtype == torch.float32 else 3)


@pytest.mark.parametrize("schedule", [RowSums(64, 2, 1), RowSums(128, 4, 2), RowSums(64, 1, 4)], ids=str)
def test_schedules(schedule):
    args = torch.randn(9, 32), torch.randint(0, 9, (2, 90)), torch.randn(1)
    found = check(simulated(edges, args, schedule), edges, args)
    assert found.right, str(found)


@pytest.mark.parametrize("far, there", [(-1, True), (-20, True), (-21, False), (20, False), (1 << 40, False), ((1 << 32) + 1, False)])
def test_places(far, there):
    """Negative ones count from the end; those outside are left alone."""
    x, i, y = torch.randn(20, 8), torch.randint(0, 20, (70,)), torch.randn(70, 8)
    made = simulated(put, (x, i, y))
    i[2] = far
    kept = torch.ones(70, dtype=bool)
    kept[2] = there
    torch.testing.assert_close(made(x, i, y), put(x, i[kept], y[kept]))


def test_sixteen_bytes_at_a_time():
    """Rows of a table are read, and added to others, by vectors, and nothing of it is written before."""
    args = torch.randn(20, 32), torch.randint(0, 20, (2, 90)), torch.randn(1)
    made = simulated(edges, args)
    gpu = made.program.gpu
    assert gpu.count("add.v4.f32") == 1 and "tensor<90x32" not in gpu and "memref<90x32" not in gpu
    assert "vector.load" in gpu
    assert_assembles(gpu, find_target("sm_90a"))
