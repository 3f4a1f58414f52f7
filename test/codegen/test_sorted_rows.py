"""Rows that are added to others in order, long ones in pieces: their numbers on a simulated GPU, whichever rows get how much."""

from functools import partial

import pytest
import torch
from added_row_cases import add, assert_extremes, assert_launches_right, put, simulated_with
from checks import check
from choices import generators
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from universal_program import assert_assembles

from inferno.capture.decompositions.scattering import embedding_dense_backward
from inferno.scatter_limits import worthwhile_order
from inferno.schedule.scatters import sorted_rows
from inferno.schedule.scatters.added_rows import AddedRows
from inferno.schedule.scatters.sorted_rows import SortedRows
from inferno.target import find_target

simulated = partial(simulated_with, sorted_rows)
BF16, F16 = torch.bfloat16, torch.float16


def of(shape, type_=torch.float32):
    return torch.randn(shape).mul(4).to(type_)


def uniform(rows, count):
    return torch.randint(0, rows, (count,))


def zipf(rows, count):
    """The k-th of all rows as often as 1 / k."""
    return torch.multinomial(1 / torch.arange(1, rows + 1), count, replacement=True)[torch.randperm(count)]


def equal(rows, count):
    return torch.full((count,), rows // 2)


def half_equal(rows, count):
    return torch.where(torch.rand(count) < 0.5, equal(rows, count), uniform(rows, count))


def scattered(rows, count):
    """Each row once at most, and negative ones from the end."""
    return torch.randperm(rows)[:count] - rows // 2


# Rows, columns, how many are added, of which type; the schedule, if not the chosen one.
SIZES = {
    "few long rows": (4, 320, 700, torch.float32, None), "bf16": (20, 48, 900, BF16, None), "f16, parts of rows": (5, 1040, 300, F16, None),
    "float64": (20, 6, 300, torch.float64, None), "whole numbers": (20, 4, 900, torch.int32, None), "more rows": (900, 8, 500, torch.float32, None),
    "short pieces": (30, 20, 900, torch.float32, SortedRows(4, 5, 3, 4, 2, 2, 2, 7, 4)),
    "one group": (30, 20, 400, BF16, SortedRows(4, 5, 1, 8, 8, 1, 4, 100, 1)),
    "a part that is narrower": (9, 28, 400, torch.float32, SortedRows(4, 4, 7, 2, 4, 8, 1, 2, 8)),
    "pairs": (9, 6, 300, BF16, SortedRows(2, 2, 16, 1, 4, 2, 8, 1, 2)),
}


@pytest.mark.covering(most=20)
@pytest.mark.parametrize("where", [uniform, zipf, equal, half_equal, scattered], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", SIZES)
def test_right(name, where):
    torch.manual_seed(0)
    rows, columns, count, type_, schedule = SIZES[name]
    x, i = of((rows, columns), type_), where(rows, count)
    args = x, i, of((len(i), columns), type_)
    found = check(simulated(put, args, schedule), put, args)
    assert found.right, str(found)


MODELS = {
    "of several dimensions": (add, (30, 4, 6), (200, 4, 6)), "to zeros": (lambda x, i, y: torch.zeros_like(x).index_add(0, i, y), (20, 32), (300, 32)),
    "rows of a table": (lambda x, i, y: x.index_add(0, i, x[i.flip(0)] * y), (20, 8), (300, 1)),
    "parts of rows": (lambda x, i, y: x.index_add(0, i, y[:, 8:]), (20, 8), (300, 16)),
    "of what is computed": (lambda x, i, y: x.index_put(((i * 3) % 20,), y * y - 1, accumulate=True), (20, 8), (300, 8)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    torch.manual_seed(0)
    model, shape, added = MODELS[name]
    args = of(shape), half_equal(shape[0], added[0]), of(added)
    assert_launches_right(simulated(model, args, SortedRows(4, 2, 8, 3, 4, 2, 4, 50, 4)), model, args, 6)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, BF16, torch.float64], ids=str)
@pytest.mark.parametrize("kind, include_self", [("amin", True), ("amax", False)])
def test_extremes(kind, include_self, dtype):
    """In pieces, too."""
    lanes = 2 if dtype == torch.float64 else 4
    assert_extremes(sorted_rows, kind, include_self, dtype, SortedRows(lanes, 8 // lanes, 3, 4, 2, 2, 2, 7, 4))


def test_extremes_are_in_order_where_there_are_many():
    """Memory joins them one by one: few columns are, or few rows."""
    for columns, ordered in ((4, False), (64, True)):
        assert worthwhile_order(20000, columns, 160000, 4, 4, begins=False, read=5 << 20, alone=True) == ordered
    assert not worthwhile_order(20000, 64, 160000, 4, 4, begins=False, read=5 << 20)


def test_rows_of_several_tables_are_fewer_on_their_way():
    """Whose registers are bounded."""
    held = []

    def model(x, z, i, w):
        return torch.zeros_like(x).index_add(0, i[0], x[i[1]] * (w / z[i[0]])[..., None])

    def plain(x, i, y):
        return x.index_add(0, i, y)

    for function, args in (
        (model, (of((20, 4, 32), BF16), of((20, 4), BF16), torch.randint(0, 20, (2, 900)), of((900, 4), BF16))),
        (plain, (of((20, 128), BF16), uniform(20, 900), of((900, 128), BF16))),
    ):
        kernels = []
        simulated_with(Recorded(kernels), function, args)
        held.append(kernels[-1].ahead)
    assert held == [4, 8]


class Recorded:
    """The generator, which tells what it chooses."""

    def __init__(self, chosen):
        self.chosen = chosen

    def fit(self, kernel):
        found = sorted_rows.fit(kernel)
        self.chosen += [found[1]] if found is not None else []
        return found


def test_kernels_that_nothing_needs():
    """Rows of which none can get many have no pieces, and where one block takes all of a row there is nothing to add behind."""
    for count, steps in ((8, 5), (100, 5), (300, 6)):
        args = of((20, 32)), equal(20, count), of((count, 32))
        made = simulated(add, args, SortedRows(4, 8, 8, 16, 16, 4, 4, 10, 4))
        assert len(made.program.plan.steps) == steps and ("gpu.barrier" in made.program.gpu) == (count > 16)
        found = check(made, add, args)
        assert found.right, str(found)


@pytest.mark.parametrize("far, there", [(-1, True), (-20, True), (-21, False), (20, False), (1 << 40, False), ((1 << 32) + 1, False)])
def test_places(far, there):
    """Negative ones count from the end; those outside are left alone."""
    x, i, y = of((20, 8)), uniform(20, 60), of((60, 8))
    made = simulated(put, (x, i, y), SortedRows(4, 2, 4, 2, 2, 2, 2, 30, 4))
    i[2:50] = far
    kept = torch.ones(60, dtype=bool)
    kept[2:50] = there
    torch.testing.assert_close(made(x, i, y), put(x, i[kept], y[kept]))


@pytest.mark.parametrize("rows, columns, count, lanes", [(512, 256, 64966, 4), (50257, 1024, 65536, 8), (8, 4, 1 << 20, 4), (3, 1004, 5000, 4)])
def test_no_thread_adds_much(rows, columns, count, lanes):
    """Wherever all is added to, by the chosen schedule."""
    c = AddedRows(None, None, 0, 0, None, None, rows, columns, count, False)
    s = sorted_rows.pick(c, lanes, 132)
    pieces = -(-count // s.piece)
    assert pieces <= s.pieces(c) + s.whole(c) and s.threads <= 256 and s.slices(c) * s.width * s.lanes >= columns
    assert s.few <= s.steps and s.steps + -(-pieces // s.groups) <= (128 if s.slices(c) == 1 else 160)


def test_in_place():
    """Rows that get nothing are there already."""
    x, i, y = of((20, 32)), half_equal(20, 300), of((300, 32))
    i[i == 7] = 6
    expected = add(x.double(), i, y.double())
    made = simulated(lambda x, i, y: x.index_add_(0, i, y), (x, i, y))
    assert made(x, i, y).equal(x)
    torch.testing.assert_close(x.double(), expected, rtol=1e-6, atol=1e-4)


def test_sixteen_bytes_at_a_time():
    args = of((600, 64), BF16), uniform(600, 3000), of((3000, 64), BF16)
    gpu = simulated(add, args).program.gpu
    assert gpu.count("nvvm.match.sync") == 1 and "vector<8xbf16>" in gpu
    assert_assembles(gpu, find_target("sm_90a"))


def empty(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def numbers(*shape):
    return empty(*shape, dtype=torch.int64)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("rows, columns, count, dtype, ordered", [
    (512, 256, 65000, torch.float32, True), (512, 256, 65000, BF16, True), (50000, 256, 65000, BF16, True), (50000, 64, 65000, BF16, True),
    (512, 64, 65000, torch.float32, False), (50000, 64, 65000, torch.float32, False), (4000, 64, 65000, BF16, False), (512, 256, 1000, torch.float32, False),
    (512, 7, 65000, torch.float32, False),
    (1 << 20, 64, 1000, torch.float32, False),  # which may be in place
    (32, 256, 65000, torch.float32, False),  # whose counts are a line of memory, that all updates wait for
    (2, 768, 16384, BF16, True),  # of which each gets much
])
def test_chosen_where_that_is_estimated_to_be_faster(rows, columns, count, dtype, ordered):
    found = generators(add, (empty(rows, columns, dtype=dtype), numbers(count), empty(count, columns, dtype=dtype)))
    assert found == ["sorted_rows"] if ordered else "sorted_rows" not in found


def test_rows_of_a_table_that_stays_in_the_cache():
    """Additions then read nothing from memory: a graph's edges."""
    edges = lambda x, i: torch.zeros_like(x).index_add(0, i[0], x[i[1]])  # noqa: E731
    assert generators(edges, (empty(20000, 128), numbers(2, 200000))) == ["row_sums"]
    assert generators(add, (empty(20000, 128), numbers(200000), empty(200000, 128))) == ["sorted_rows"]


def gradients(rows, shape, dtype):
    """An embedding's, as they are captured on a GPU; on the CPU.  None where torch's way is."""
    with FakeTensorMode():
        args = torch.empty(shape, dtype=dtype, device="cuda"), torch.empty(shape[:-1], dtype=torch.int64, device="cuda")
        if embedding_dense_backward(*args, rows, 3, False) is NotImplemented:
            return None
        model = make_fx(lambda y, i: embedding_dense_backward(y, i, rows, 3, False))(*args)
    for node in model.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": torch.device("cpu")}
    model.recompile()
    return model


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("rows, shape, dtype, some", [
    (30522, (16, 1024, 768), torch.float32, 256), (30522, (16, 1024, 768), BF16, 256), (50000, (2, 512, 768), BF16, 256), (512, (16384, 1024), F16, 512),
])
def test_gradients_of_an_embedding(rows, shape, dtype, some):
    """One kernel in the table's own type, also where most rows get nothing; the numbers of so many columns."""
    torch.manual_seed(0)
    model = gradients(rows, shape, dtype)
    assert generators(model, (empty(*shape, dtype=dtype), numbers(*shape[:-1]))) == ["sorted_rows"]
    y, i = torch.randn(*shape[:-1], some, dtype=torch.float64), torch.randint(0, rows, shape[:-1])
    i[::2] = 3  # the padding
    torch.testing.assert_close(gradients(rows, y.shape, dtype)(y, i), torch.ops.aten.embedding_dense_backward(y, i, rows, 3, False))


@pytest.mark.parametrize("rows, shape, dtype", [
    (500, (8, 128, 64), torch.float32), (50000, (0, 768), BF16), (50000, (8, 0), BF16), (1 << 20, (1000, 64), torch.float32), (512, (16384, 7), BF16),
])
def test_other_gradients(rows, shape, dtype):
    assert gradients(rows, shape, dtype) is None
