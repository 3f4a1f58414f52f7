"""Determinants and inverses of matrices of few rows: their numbers, what libraries say of matrices that have none, and that they are a few kernels."""

import pytest
import torch
from checks import assert_right

import inferno
from inferno.capture.decompositions.small_matrices import inv_ex
from inferno.tools.check import compare


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_determinants(rows, dtype):
    x = torch.randn(40, 3, rows, rows, dtype=dtype)
    for model in (lambda x: torch.linalg.det(x), lambda x: torch.linalg.slogdet(x), lambda x: torch.logdet(x.mT @ x + torch.eye(rows, dtype=x.dtype))):
        if dtype == torch.float32:
            assert_right(model, (x,))
        else:  # the reference is eager, with errors of its own
            torch.testing.assert_close(inferno.compile(model, (x,), fallback=False)(x), model(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_inverses(rows):
    x = torch.randn(400, rows, rows)
    (mine, info), (eager, none) = inv_ex(x), torch.linalg.inv_ex(x)
    found = compare(mine, eager, torch.linalg.inv(x.double()))
    assert found.right and torch.equal(info, none), str(found)
    assert_right(lambda x: torch.linalg.inv_ex(x)[0], (x,))


def test_matrices_without_an_inverse():
    """The first pivot that is 0 is told, by which the caller raises."""
    x = torch.tensor([[[1.0, 2], [2, 4]], [[0, 0], [0, 4]], [[0, 1], [0, 4]], [[0, 1], [1, 0]], [[torch.nan, 1], [1, 0]]])
    (mine, info), (eager, expected) = inv_ex(x), torch.linalg.inv_ex(x)
    assert torch.equal(info, expected) and torch.equal(mine.nan_to_num(1e30), eager.nan_to_num(1e30))
    fast = torch.compile(lambda x: torch.linalg.inv(x * 2) + 1, backend="inferno")
    torch.testing.assert_close(fast(x[3:4]), torch.linalg.inv(x[3:4] * 2) + 1)
    with pytest.raises(torch.linalg.LinAlgError):
        fast(x[:1])
    assert torch.equal(torch.linalg.det(x[:4]), inferno.compile(lambda x: torch.linalg.det(x), (x,))(x)[:4])


def test_gradients_are_of_the_librarys_factors():
    """Which are of the matrix or of its transpose."""
    def loss(x):
        return (torch.linalg.det(x * 2) + torch.linalg.slogdet(x)[1]).sum() + torch.linalg.inv(x).square().sum()

    for x in (torch.randn(5, 3, 3), torch.randn(5, 3, 3).mT):
        expected = torch.autograd.grad(loss(y := x.clone().requires_grad_()), y)[0]
        found = torch.autograd.grad(torch.compile(loss, backend="inferno")(y := x.clone().requires_grad_()), y)[0]
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_larger_ones_are_the_librarys():
    fast = inferno.compile(lambda x: torch.linalg.det(x) * 2, (torch.randn(3, 5, 5),))
    assert [f.target for f in fast.fallbacks] == ["aten._linalg_det.default"]


def test_kernels():
    rows = inferno.compile(lambda x: torch.linalg.det(x) * 2, (torch.randn(64, 3, 3),), target="sm_90a", fallback=False).explain().rows
    assert [r.generator for r in rows] == ["elementwise"]
