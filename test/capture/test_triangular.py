"""Triangular systems, and inverses that Python computes row by row: what becomes blocks of products, what stays, and their numbers."""

import pytest
import torch
from checks import check

import inferno
from inferno.capture.capture import capture

aten, randn = torch.ops.aten, torch.randn


def by_rows(a):
    """The inverse of a chunk's delta rule, as transformers exports Qwen3-Next's."""
    u, rows = -a.tril(-1), a.shape[-1]
    for i in range(1, rows):
        row, above = u[..., i, :i].clone(), u[..., :i, :i].clone()
        u[..., i, :i] = row + (row.unsqueeze(-1) * above).sum(-2)
    return u + torch.eye(rows, dtype=u.dtype)


def beyond(a):
    """More columns than are needed are read, of a mask that is kept."""
    rows = a.shape[-1]
    u = a.masked_fill(torch.ones(rows, rows, dtype=torch.bool).triu(), 0)
    for i in range(1, rows):
        u[..., i, :i] = u[..., i, :i] + (u[..., i, :, None].clone() * u[..., :, :i].clone()).sum(-2)
    return u


def with_diagonal(a):
    u = a.tril()
    for i in range(1, a.shape[-1]):
        u[..., i, :i] = u[..., i, :i].clone() + (u[..., i, :i, None].clone() * u[..., :i, :i].clone()).sum(-2)
    return u


def some_rows(a):
    u = a.tril(-1)
    for i in range(1, a.shape[-1] - 1):
        u[..., i, :i] = u[..., i, :i].clone() + (u[..., i, :i, None].clone() * u[..., :i, :i].clone()).sum(-2)
    return u


def other_rows(a):
    """Of the rows as they were in front of the loop."""
    u = a.tril(-1)
    old = u.clone()
    for i in range(1, a.shape[-1]):
        u[..., i, :i] = u[..., i, :i].clone() + (u[..., i, :i, None].clone() * old[..., :i, :i]).sum(-2)
    return u


LOOPS = {
    "by rows": (by_rows, lambda: randn(2, 3, 12, 12) / 4, True),
    "many rows": (by_rows, lambda: randn(40, 40) / 8, True),
    "beyond": (beyond, lambda: randn(3, 16, 16) / 4, True),
    "float64": (by_rows, lambda: randn(2, 9, 9, dtype=torch.float64), True),
    "few rows": (by_rows, lambda: randn(3, 5, 5), False),
    "with a diagonal": (with_diagonal, lambda: randn(3, 10, 10) / 4, False),
    "some rows": (some_rows, lambda: randn(3, 10, 10) / 4, False),
    "other rows": (other_rows, lambda: randn(3, 10, 10) / 4, False),
}


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", LOOPS)
def test_loops(name):
    torch.manual_seed(0)
    model, make, rolled = LOOPS[name]
    args = (make(),)
    left = sum(n.target is aten.slice_scatter.default for n in capture(model, args).graph.nodes)
    assert left == 0 if rolled else left >= args[0].shape[-1] - 2
    found = check(inferno.compile(model, args), model, args)
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 32, 80])
def test_unit_triangles_are_solved_by_products(rows, left, upper):
    torch.manual_seed(0)
    a, b = randn(2, rows, rows) / 8, randn(2, rows, 5) if left else randn(2, 5, rows)

    def model(a, b):
        return torch.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=True)

    compiled = inferno.compile(model, (a, b))
    assert not compiled.explain().fallbacks
    found = check(compiled, model, (a, b))
    assert found.right, str(found)


def test_others_stay():
    def model(a, b):
        return torch.linalg.solve_triangular(a, b, upper=False)

    a, b = randn(4, 4) + 4 * torch.eye(4), randn(4, 3)
    compiled = inferno.compile(model, (a, b))
    assert "solve_triangular" in str(compiled.explain().fallbacks)
    assert check(compiled, model, (a, b)).right
