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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int8], ids=str)
@pytest.mark.parametrize("dim, sizes, given", [
    (1, (300, 500), (300, 700)), (1, (300, 501), (200, 333)), (0, (33, 5000), (90, 5000)), (1, (50, 64, 70), (50, 300, 70)),
    (1, (4, 20, 30, 90), (4, 9, 30, 90)), (0, (1200, 2000), (1300, 2000)), (1, (7, 30000), (7, 4000)), (1, (200, 4096), (200, 10)),
])
def test_elements(dim, sizes, given, dtype):
    """In shared memory, and the last two where rows are too long, or too little goes to them."""
    x, y = (torch.randn(n, device="cuda").mul(9).round().to(dtype) for n in (sizes, given))
    i = torch.randint(0, sizes[dim], given, device="cuda")
    i = torch.where(torch.rand(given, device="cuda") < 0.2, 3, i)  # many for one place
    add = lambda x, i, y: x.scatter_add(dim, i, y)  # noqa: E731
    compiled = inferno.compile(add, (x, i, y), fallback=False)
    generators = {r.generator for r in compiled.explain().rows}
    assert ("scatters" in generators) == (sizes not in ((7, 30000), (200, 4096))), generators
    poison_memory()
    found = check(compiled, add, (x, i, y))
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool], ids=str)
@pytest.mark.parametrize("dim, sizes, given", [(1, (300, 500), 400), (0, (60, 5000), 50)])
def test_elements_that_are_put(dim, sizes, given, dtype):
    x = torch.randn(sizes, device="cuda").to(dtype)
    i = torch.rand(sizes, device="cuda").argsort(dim).narrow(dim, 0, given).contiguous()
    y = torch.randn(i.shape, device="cuda").to(dtype)
    put = lambda x, i, y: x.scatter(dim, i, y)  # noqa: E731
    compiled = inferno.compile(put, (x, i, y), fallback=False)
    poison_memory()
    assert torch.equal(compiled(x, i, y), put(x, i, y))
