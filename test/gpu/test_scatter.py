"""Rows that are put, and added, to others: by vectors and where there are none."""

import pytest
import torch
from checks import check, poison_memory

import inferno

OPERATIONS = {
    "put": (lambda x, i, y: x.index_put((i,), y), True), "put and add": (lambda x, i, y: x.index_put((i,), y, accumulate=True), False),
    "add": (lambda x, i, y: x.index_add(0, i, y), False), "copy": (lambda x, i, y: x.index_copy(0, i, y), True),
    "scatter": (lambda x, i, y: x.scatter(0, i[:, None].expand(y.shape), y), True),
    "scatter_add": (lambda x, i, y: x.scatter_add(0, i[:, None].expand(y.shape), y), False),
}


@pytest.mark.parametrize("columns", [1, 33, 100, 1024])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_rows(name, dtype, columns):
    model, unique = OPERATIONS[name]
    whole = torch.Tensor.round if not unique else torch.clone  # sums of whole numbers are the same in any order
    x, y = (whole(torch.randn(n, columns, device="cuda").mul(9)).to(dtype) for n in (500, 300))
    i = torch.randperm(500, device="cuda")[:300] if unique else torch.randint(0, 40, (300,), device="cuda")
    compiled = inferno.compile(model, (x, i, y), fallback=False)
    poison_memory()
    found = check(compiled, model, (x, i, y))
    assert found.right, str(found)


def test_places_outside_are_left_alone():
    x, y = torch.randn(50, 64, device="cuda"), torch.randn(6, 64, device="cuda")
    i = torch.tensor([3, 70, 4, -80, 5, 1 << 40], device="cuda")
    compiled = inferno.compile(lambda x, i, y: x.index_put((i,), y), (x, i, y), fallback=False)
    expected = x.clone()
    expected[[3, 4, 5]] = y[[0, 2, 4]]
    torch.testing.assert_close(compiled(x, i, y), expected)
