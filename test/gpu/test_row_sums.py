"""Rows that are added to others by atomic additions: computed on the way, of all types and widths, by one and by sixteen bytes."""

import pytest
import torch
from checks import assert_close_to_float64, check, poison_memory
from universal_program import compile_universal

import inferno
from inferno.schedule import assign
from inferno.schedule.scatters import row_sums, sorted_rows
from inferno.schedule.scatters.row_sums import RowSums
from inferno.target import find_target

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64]


def of(*shape, dtype=torch.float32):
    """Whole numbers, whose sums are the same in any order."""
    return torch.randint(-9, 10, shape, device="cuda").to(dtype)


def numbers(below, *shape):
    return torch.randint(0, below, shape, device="cuda")


def expanded(x, i, y):
    return x.scatter_add(0, i[:, None].expand(y.shape), y)


def edges(x, i, y):
    return torch.zeros_like(x).index_add(0, i, x[i.flip(0)] * 2)


MODELS = {
    "add": lambda x, i, y: x.index_add(0, i, y), "put": lambda x, i, y: x.index_put((i,), y, accumulate=True), "scatter_add": expanded, "edges": edges,
    "to zeros": lambda x, i, y: torch.zeros_like(x).index_add(0, i, y + 1), "in place": lambda x, i, y: x.index_add_(0, i, y),
    "weighted": lambda x, i, y: x.index_add(0, i, x[i] * y[:, :1]),
}


@pytest.mark.parametrize("columns", [4, 7, 66, 512])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_right(name, dtype, columns):
    model, x, y, i = MODELS[name], of(500, columns, dtype=dtype), of(3000, columns, dtype=dtype), numbers(500, 3000)
    compiled = inferno.compile(model, (x, i, y), fallback=False)
    if name != "scatter_add" or dtype.is_floating_point:
        assert [r.generator for r in compiled.explain().rows].count("row_sums") == 1, compiled.explain()
    exact = model(x.double() if dtype.is_floating_point else x.clone(), i, y.double() if dtype.is_floating_point else y)
    poison_memory()
    found = compiled(x, i, y)
    torch.testing.assert_close(found, exact.to(dtype), rtol=torch.finfo(dtype).eps if dtype.is_floating_point else 0, atol=0)
    if name == "in place":
        assert torch.equal(x, found)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["to places that are computed", "by a matrix", "pairs"])
def test_single_elements(name, dtype):
    """What is added and where is computed by the kernel that adds."""
    shape = (500, 2) if name == "pairs" else (500,)
    x, i, y = of(*shape, dtype=dtype), numbers(500, 2, 30000), of(30000, *shape[1:], dtype=dtype)
    model = {
        "to places that are computed": lambda x, i, y: x.index_add(0, (i[0] * 3 + i[1]) % 500, y + 1), "pairs": lambda x, i, y: x.index_add(0, i[0], y + 1),
        "by a matrix": lambda x, i, y: torch.zeros_like(x).index_add(0, i[0], y * x[i[1]]),
    }[name]
    compiled = inferno.compile(model, (x, i, y), fallback=False)
    assert [r.generator for r in compiled.explain().rows].count("row_sums") == 1, compiled.explain()
    exact = model(x.double() if dtype.is_floating_point else x, i, y.double() if dtype.is_floating_point else y)
    poison_memory()
    torch.testing.assert_close(compiled(x, i, y), exact.to(dtype), rtol=torch.finfo(dtype).eps if dtype.is_floating_point else 0, atol=0)


@pytest.mark.parametrize("columns, ordered", [(4, False), (7, False), (64, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind, include_self", [("amax", True), ("amin", False)])
def test_extremes(kind, include_self, dtype, columns, ordered):
    """Exactly those of eager, where one index stands for each row: joined in memory, or in order where there is much."""
    def model(x, i, j):
        return x.scatter_reduce(0, i[:, None].expand(-1, columns), x[j], kind, include_self=include_self)

    count = 160000 if ordered else 9000
    x, i, j = torch.randn(20000, columns, device="cuda").to(dtype), numbers(15000, count), numbers(20000, count)
    x[3, 2], x[5, 1], x[7, 3] = torch.nan, torch.inf, -torch.inf
    compiled = inferno.compile(model, (x, i, j), fallback=False)
    made = {r.generator for r in compiled.explain().rows}
    assert ("sorted_rows" if ordered else "row_sums") in made and "universal" not in made, compiled.explain()
    poison_memory()
    torch.testing.assert_close(compiled(x, i, j), model(x, i, j), rtol=0, atol=0, equal_nan=True)


def test_attention_over_edges():
    """Rows of several heads are computed where they are added."""
    def model(x, i, j, w):
        heads = x.view(20000, 4, 32)
        return torch.zeros_like(heads).index_add(0, i, heads[j] * w[..., None])

    args = torch.randn(20000, 128, device="cuda"), numbers(20000, 200000), numbers(20000, 200000), torch.rand(200000, 4, device="cuda")
    compiled = inferno.compile(model, args, fallback=False)
    assert [r.generator for r in compiled.explain().rows] == ["row_sums"], compiled.explain()
    assert_close_to_float64(compiled(*args), model, args)


@pytest.mark.skipif(not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0), reason="adds 16 bytes at a time")
@pytest.mark.parametrize("schedule", [RowSums(64, 4, 1), RowSums(256, 2, 4), RowSums(256, 1, 8), RowSums(512, 4, 8), sorted_rows], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_schedules(schedule, dtype):
    """And what other generators choose."""
    x, i, y = of(900, 128, dtype=dtype), numbers(900, 20001), torch.empty(0, device="cuda")

    def choose(kernel):
        found = (row_sums if isinstance(schedule, RowSums) else schedule).fit(kernel)
        return (schedule if isinstance(schedule, RowSums) else found[1]) if found else assign.choose(kernel, find_target("sm_90a"))

    compiled = compile_universal(edges, (x, i, y), x.device, "sm_90a", choose, passes="fuse-scatters{target=sm_90a always=1}")
    poison_memory()
    found = check(compiled, edges, (x, i, y))
    assert found.right, str(found)


def test_places_outside_are_left_alone():
    x, y = of(50, 64), of(80, 64)
    i = numbers(50, 80)
    i[:6] = torch.tensor([3, 70, 4, -80, 5, 1 << 40], device="cuda")
    compiled = inferno.compile(MODELS["put"], (x, i, y), fallback=False)
    there = (i >= -50) & (i < 50)
    torch.testing.assert_close(compiled(x, i, y), MODELS["put"](x, i[there], y[there]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows, columns, count, ordered", [(1000, 256, 4096, False), (1000, 512, 40000, True), (30522, 768, 16384, True)])
def test_gradients_of_an_embedding(rows, columns, count, ordered, dtype):
    """In order where that is faster, then in the table's type; of which half are one token's, and many the padding."""
    grad, i = of(8, count // 8, columns, dtype=dtype).clamp(-1, 1), numbers(rows, 8, count // 8)
    i[:, ::2], i[:, 1::8] = rows // 3, 3
    model = lambda grad, i: torch.ops.aten.embedding_dense_backward(grad, i, rows, 3, False)  # noqa: E731
    compiled = inferno.compile(model, (grad, i), fallback=False)
    assert ({r.generator for r in compiled.explain().rows} == {"sorted_rows"}) == ordered, compiled.explain()
    poison_memory()
    found = check(compiled, model, (grad, i))
    assert found.right, str(found)


def test_deterministic_sums_are_left_to_torch():
    x, i, y = of(50, 64), numbers(50, 80), of(80, 64)
    torch.use_deterministic_algorithms(True)
    try:
        compiled = inferno.compile(MODELS["add"], (x, i, y))
        assert "row_sums" not in {r.generator for r in compiled.explain().rows}
        assert torch.equal(compiled(x, i, y), MODELS["add"](x, i, y))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_numbers_at_random(dtype):
    """In another order in every run: right by the project's rule, as in eager."""
    x, i = torch.randn(900, 128, device="cuda").to(dtype), numbers(900, 20001)
    y = torch.randn(20001, 128, device="cuda").to(dtype)
    compiled = inferno.compile(MODELS["weighted"], (x, i, y), fallback=False)
    assert_close_to_float64(compiled(x, i, y), MODELS["weighted"], (x, i, y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("hot", [1, 2, 1 << 20])
@pytest.mark.parametrize("rows, columns, count", [(512, 256, 65536), (2000, 1024, 30000), (5000, 1024, 9000)])
def test_what_is_chosen(rows, columns, count, hot, dtype):
    """Numbers at random; all go to one row, half of them, or one."""
    x, y, i = torch.randn(rows, columns, device="cuda").to(dtype), torch.randn(count, columns, device="cuda").to(dtype), numbers(rows, count)
    i[::hot] = rows // 3
    compiled = inferno.compile(MODELS["add"], (x, i, y), fallback=False)
    assert [r.generator for r in compiled.explain().rows] == ["sorted_rows"], compiled.explain()
    poison_memory()
    assert_close_to_float64(compiled(x, i, y), MODELS["add"], (x, i, y))


@pytest.mark.parametrize("columns", [4, 6, 136, 1024])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["uniform", "half are equal", "all are equal", "in place", "more rows"])
def test_in_order(name, dtype, columns):
    """Whichever rows get how much; whole numbers, whose sums are the same in any order."""
    rows, count = (5000, 3000) if name == "more rows" else (50, 20001)
    x, i, y = of(rows, columns, dtype=dtype).clamp(-1, 1), numbers(rows, count), of(count, columns, dtype=dtype).clamp(-1, 1)
    if name.endswith("equal"):
        i[:: 1 if name.startswith("all") else 2] = rows // 2
    model = MODELS["in place" if name == "in place" else "put"]

    def choose(kernel):
        found = sorted_rows.fit(kernel)
        return found[1] if found else assign.choose(kernel, find_target("sm_90a"))

    compiled = compile_universal(model, (x, i, y), x.device, "sm_90a", choose, passes="fuse-scatters{target=sm_90a always=1}")
    exact = model(x.double() if dtype.is_floating_point else x.clone(), i, y.double() if dtype.is_floating_point else y)
    poison_memory()
    found = compiled(x, i, y)
    torch.testing.assert_close(found, exact.to(dtype), rtol=torch.finfo(dtype).eps if dtype.is_floating_point else 0, atol=0)
