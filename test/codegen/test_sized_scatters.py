"""Scatters whose sizes vary on the simulator: rows that are added to others where they lie, and what the last generator does,
of other sizes than the example's.
"""

import pytest
import torch
from added_row_cases import add, put, simulated_with
from checks import assert_close_to_float64
from torch.export import Dim
from universal_program import SimulatedModel, assert_assembles

from inferno.capture.decompositions import scattering
from inferno.capture.decompositions.scattered_extremes import extremes
from inferno.schedule.scatters import row_sums
from inferno.schedule.scatters.row_sums import RowSums
from inferno.target import find_target

BF16, F16 = torch.bfloat16, torch.float16
ROWS, COLUMNS, BOTH = {0: Dim.AUTO}, {1: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}


def of(*shape, dtype=torch.float32):
    return torch.randn(shape).mul(4).to(dtype) if dtype.is_floating_point else torch.randint(-9, 10, shape).to(dtype)


def to_zeros(x, i, y):
    return torch.zeros_like(x).index_add(0, i, y)


def edges(x, i, y):
    """Rows that others get by way of a table of numbers."""
    return torch.zeros_like(x).index_add(0, i, torch.relu(x)[i.flip(0)] * y[:, :1])


def to_known(x, i, y):
    return torch.zeros(20, y.shape[1], dtype=y.dtype).index_add(0, i.clamp(max=19), y)


def gradients(x, i, y):
    """Of rows that were looked up: to the table that they are of."""
    return x.index_put((i,), y * y, accumulate=True)


CASES = {  # the model, its columns, the type, what varies of the tensor, the numbers and the rows
    "added": (add, 32, torch.float32, (ROWS, ROWS, ROWS)),
    "put": (put, 32, torch.float32, (ROWS, ROWS, ROWS)),
    "rows of a known number": (put, 32, torch.float32, (ROWS, None, None)),
    "to a known number": (to_known, 24, BF16, (None, ROWS, ROWS)),
    "to zeros": (to_zeros, 6, torch.float32, (ROWS, ROWS, ROWS)),
    "to zeros in bf16": (to_zeros, 24, BF16, (ROWS, ROWS, ROWS)),
    "bf16": (put, 24, BF16, (ROWS, ROWS, ROWS)),
    "f16, an odd number": (add, 7, F16, (ROWS, ROWS, ROWS)),
    "whole numbers": (add, 5, torch.int64, (ROWS, ROWS, ROWS)),
    "float64": (add, 8, torch.float64, (ROWS, ROWS, ROWS)),
    "any columns": (put, 24, torch.float32, (BOTH, ROWS, BOTH)),
    "any columns in bf16": (to_zeros, 24, BF16, (BOTH, ROWS, BOTH)),
    "edges": (edges, 32, torch.float32, (ROWS, ROWS, ROWS)),
    "edges in bf16": (edges, 16, BF16, (ROWS, ROWS, ROWS)),
    "gradients": (gradients, 16, torch.float32, (ROWS, ROWS, ROWS)),
}
SIZES = [(20, 90), (3, 70), (77, 5), (2, 333)]  # rows, and rows that are added to them


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("schedule", [None, RowSums(64, 1, 1), RowSums(32, 1, 3), RowSums(64, 2, 2)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_right(name, schedule):
    model, columns, dtype, varying = CASES[name]
    torch.manual_seed(0)
    if schedule is not None and schedule.vector > 1 and (columns % 2 or 1 in (varying[0] or ()) or dtype in (torch.float64, torch.int64)):
        pytest.skip("no vectors of these")
    run = None
    for rows, count in SIZES:
        rows, count = rows if varying[0] else 20, count if varying[1] else 90
        for width in (columns, columns + 5) if 1 in (varying[0] or ()) else (columns,):
            args = of(rows, width, dtype=dtype), torch.randint(0, rows, (count,)), of(count, width, dtype=dtype)
            run = run or simulated_with(row_sums, model, args, schedule, varying)
            found = run(*args)
            if dtype.is_floating_point:
                assert_close_to_float64(found, model, args)
            else:
                assert torch.equal(found, model(*args))


@pytest.mark.covering
@pytest.mark.parametrize("columns", [8, 5])
@pytest.mark.parametrize("kind, include_self, dtype", [("amax", True, BF16), ("amin", False, torch.float32), ("amax", False, F16)])
def test_extremes_of_rows(kind, include_self, dtype, columns):
    """With one index for each row."""
    def on_gpu(x, i, y):
        return extremes(x, 0, i[:, None].expand(y.shape), torch.relu(y) - y / 2, kind, include_self)

    torch.manual_seed(0)
    run = None
    for rows, count in SIZES:
        args = of(rows, columns, dtype=dtype), torch.randint(0, rows, (count,)), of(count, columns, dtype=dtype)
        run = run or simulated_with(row_sums, on_gpu, args, None, (ROWS, ROWS, ROWS))
        x, i, y = args
        expected = x.scatter_reduce(0, i[:, None].expand(y.shape), torch.relu(y) - y / 2, kind, include_self=include_self)
        torch.testing.assert_close(run(*args), expected, rtol=0, atol=0)


@pytest.mark.covering
@pytest.mark.parametrize("far, there", [(-1, True), (-31, True), (-32, False), (31, False), (1 << 40, False), ((1 << 32) + 1, False)])
def test_places(far, there):
    """Negative ones count from the end, at every size; those outside are left alone."""
    run = simulated_with(row_sums, put, (of(20, 8), torch.randint(0, 20, (90,)), of(90, 8)), None, (ROWS, ROWS, ROWS))
    x, i, y = of(31, 8), torch.randint(0, 31, (70,)), of(70, 8)
    i[2] = far
    kept = torch.ones(70, dtype=bool)
    kept[2] = there
    torch.testing.assert_close(run(x, i, y), put(x, i[kept], y[kept]))


def test_what_is_in_no_memory_is_counted_by_64_bits():
    """Where the rows that are added are an argument, nobody calls it with more than 31 bits count to; of what is read for each, any number may be."""
    args = of(20, 32), torch.randint(0, 20, (90,)), of(90, 32)
    picked = lambda x, i, y: torch.zeros_like(x).index_add(0, i, torch.relu(x)[i.flip(0)])  # noqa: E731
    held, computed = (simulated_with(row_sums, model, args, None, (ROWS, ROWS, ROWS)).program.gpu for model in (add, picked))
    adding = [text.split("gpu.func @tm_scatter_1_1" if "@tm_scatter_1_1" in text else "gpu.func @tm_scatter_1(")[1] for text in (held, computed)]
    assert "mad.wide.u32" in adding[0] and "mad.lo.u64" in adding[1]
    for text in (held, computed):
        assert text.count("add.v4.f32") == 1
        assert_assembles(text, find_target("sm_90a"))


UNIVERSAL = {  # the model, the inputs for rows and a count, what varies
    "numbers of bf16": (lambda x, i, y: torch.zeros(x.shape[0], dtype=x.dtype).index_add(0, i, y[:, 0]), (ROWS, ROWS, ROWS)),
    "rows of bf16": (put, (ROWS, ROWS, ROWS)),
    "rows of any columns": (put, (BOTH, ROWS, BOTH)),
    "added to some": (lambda x, i, y: (x * 2).index_put((i,), y, accumulate=True), (ROWS, ROWS, ROWS)),
}


@pytest.mark.parametrize("name", UNIVERSAL)
def test_sums_of_16_bits_are_made_in_float32(name):
    """By additions to memory, and not by a search of all that is added for each element of the result."""
    model, varying = UNIVERSAL[name]
    torch.manual_seed(0)
    run = None
    for rows, count in [(20, 120), (5, 300), (50, 70)]:
        args = of(rows, 12, dtype=BF16), torch.randint(0, rows, (count,)), of(count, 12, dtype=BF16)
        if run is None:
            run = SimulatedModel(model, args, varying)
            assert "red.relaxed" in run.program.gpu or "memref.atomic_rmw addf" in run.program.gpu
        assert_close_to_float64(run(*args), model, args)


PLACES = {  # the function, eager's, whether no place is told twice
    "put at": (lambda x, i, y: scattering.scatter(x, 0, i, y), lambda x, i, y: x.scatter(0, i, y), True),
    "one number": (lambda x, i, y: scattering.scatter_value(x, 0, i, 1.0), lambda x, i, y: x.scatter(0, i, 1.0), True),
    "added at": (lambda x, i, y: scattering.scatter_add(x, 0, i, y), lambda x, i, y: x.scatter_add(0, i, y), False),
    "rows": (
        lambda x, i, y: scattering.add_rows(x, 0, i[:, :1].expand(y.shape), y), lambda x, i, y: x.index_add(0, i[:, 0], y), False),
    "largest": (lambda x, i, y: extremes(x, 0, i, y, "amax", True), lambda x, i, y: x.scatter_reduce(0, i, y, "amax"), False),
    "smallest": (lambda x, i, y: extremes(x, 0, i, y, "amin", True), lambda x, i, y: x.scatter_reduce(0, i, y, "amin"), False),
}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", PLACES)
def test_places_of_single_elements(name):
    """One number for each, whatever the sizes."""
    function, eager, once = PLACES[name]
    torch.manual_seed(0)
    run = None
    for rows, count in [(96, 9), (70, 17), (200, 70)]:
        x, y = of(rows, 5), of(count, 5)
        numbers = [torch.randperm(rows)[:count] if once else torch.randint(0, rows, (count,)) for _ in range(5)]
        args = x, torch.stack(numbers, 1), y
        run = run or SimulatedModel(lambda x, i, y: function(x, i, y + i * 0), args, (ROWS, ROWS, ROWS))  # as many rows, as far as is known
        torch.testing.assert_close(run(*args), eager(*args))


ROWS_OF = {"rows": (0,), "columns": (1,), "rows and columns": (0, 1)}


@pytest.mark.covering
@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("name", ROWS_OF)
def test_indices_of_several_dimensions(name, accumulate):
    """Of which each may vary: the gradient of what was looked up for a batch of texts."""
    varying, run = {d: Dim.AUTO for d in ROWS_OF[name]}, None
    for sizes in [(3, 5), (4, 2), (2, 6)]:
        sizes = [n if d in varying else (3, 5)[d] for d, n in enumerate(sizes)]
        args = of(20, 8), torch.randperm(20)[: sizes[0] * sizes[1]].reshape(sizes), of(*sizes, 8)
        put_at = lambda x, i, y: torch.ops.aten.index_put(x, [i], y, accumulate)  # noqa: E731
        run = run or SimulatedModel(put_at, args, (None, varying, varying))
        torch.testing.assert_close(run(*args), put_at(*args))
