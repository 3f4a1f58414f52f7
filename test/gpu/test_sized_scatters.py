"""Scatters whose sizes vary: compiled once, right at other sizes than the example's, by the kernels that those of known sizes have."""

import pytest
import torch
from checks import assert_close_to_float64, poison_memory
from torch.export import Dim

import inferno

ROWS, BOTH = {0: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}
# Rows, and rows that go to them: memory adds these in whatever order they come, so that of few long sums the largest error, eager's too, is chance.
SIZES = [(500, 3000), (90, 40000), (20000, 900), (2, 3)]


def edges(x, i, y):
    """Rows that others get, as the nodes of a graph."""
    return torch.zeros_like(x).index_add(0, i, torch.relu(x)[i.flip(0)] * y)


MODELS = {  # the model, the generator of its sums, what varies
    "add": (lambda x, i, y: x.index_add(0, i, y), "row_sums", (ROWS, ROWS, ROWS)),
    "put": (lambda x, i, y: x.index_put((i,), y, accumulate=True), "row_sums", (ROWS, ROWS, ROWS)),
    "to zeros": (lambda x, i, y: torch.zeros_like(x).index_add(0, i, y + 1), "row_sums", (ROWS, ROWS, ROWS)),
    "any columns": (lambda x, i, y: x.index_add(0, i, y * 2), "row_sums", (BOTH, ROWS, BOTH)),
    "edges": (edges, "row_sums", (ROWS, ROWS, ROWS)),
    "one index for a row": (lambda x, i, y: x.scatter_add(0, i[:, None].expand(y.shape), y), "row_sums", (ROWS, ROWS, ROWS)),
    # (Of whole numbers: the order in which memory adds is chance, and so is the error of few sums.)
    "a row's sums": (lambda x, i, y: torch.zeros_like(x[:, 0]).index_add(0, i, (y[:, 0] * 2).round()), None, (ROWS, ROWS, ROWS)),
    "means": (lambda x, i, y: x.scatter_reduce(0, i[:, None].expand(y.shape), y, "mean", include_self=False), None, (ROWS, ROWS, ROWS)),
    "largest": (lambda x, i, y: x.scatter_reduce(0, i[:, None].expand(y.shape), y, "amax", include_self=False), None, (ROWS, ROWS, ROWS)),
    "smallest": (lambda x, i, y: x.scatter_reduce(0, i[:, None].expand(y.shape), y, "amin"), None, (ROWS, ROWS, ROWS)),
    "along columns": (lambda x, i, y: x.t().index_add(1, i, y.t()), None, (ROWS, ROWS, ROWS)),
}


@pytest.mark.parametrize("columns", [5, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_right(name, dtype, columns):
    torch.manual_seed(0)
    model, generator, varying = MODELS[name]
    compiled = None
    for rows, count in SIZES:
        x, y = (torch.randn(n, columns, device="cuda").to(dtype) for n in (rows, count))
        args = x, torch.randint(0, rows, (count,), device="cuda"), y
        if compiled is None:
            compiled = inferno.compile(model, args, dynamic_shapes=varying, fallback=False)
            assert generator in (None, *(r.generator for r in compiled.explain().rows)), compiled.explain()
        poison_memory()
        assert_close_to_float64(compiled(*args), model, args)


def test_places_outside_are_left_alone():
    model = MODELS["put"][0]
    args = torch.randn(90, 64, device="cuda"), torch.randint(0, 90, (70,), device="cuda"), torch.randn(70, 64, device="cuda")
    compiled = inferno.compile(model, args, dynamic_shapes=(ROWS, ROWS, ROWS), fallback=False)
    x, y, i = torch.randn(50, 64, device="cuda"), torch.randn(80, 64, device="cuda"), torch.randint(0, 50, (80,), device="cuda")
    i[:6] = torch.tensor([3, 70, 4, -80, 5, 1 << 40], device="cuda")
    there = (i >= -50) & (i < 50)
    torch.testing.assert_close(compiled(x, i, y), model(x, i[there], y[there]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_an_embedding(dtype):
    """Of texts of any number and length."""
    model = lambda grad, i: torch.ops.aten.embedding_dense_backward(grad, i, 1000, 3, False)  # noqa: E731
    compiled = None
    for texts, length in [(8, 100), (3, 777), (64, 5)]:
        args = torch.randn(texts, length, 128, device="cuda").to(dtype), torch.randint(0, 1000, (texts, length), device="cuda")
        compiled = compiled or inferno.compile(model, args, dynamic_shapes=(BOTH, BOTH), fallback=False)
        poison_memory()
        assert_close_to_float64(compiled(*args), model, args)
