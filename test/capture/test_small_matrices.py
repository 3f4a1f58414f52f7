"""Determinants, inverses and systems of matrices of few rows: their numbers, what is said of matrices that have none, and that they are a few kernels."""

from operator import getitem

import pytest
import torch
from checks import check
from choices import generators
from torch.fx.experimental.proxy_tensor import make_fx
from universal_program import SimulatedModel

import inferno
from inferno.capture.decompositions import table
from inferno.capture.decompositions.small_matrices import det, inv_ex, slogdet, solve_ex
from inferno.capture.devices import capturing_for
from inferno.capture.small_matrices import expand_small_matrices
from inferno.runtime.check.comparison import compare

aten = torch.ops.aten


@pytest.fixture
def for_gpu():
    with capturing_for(True):
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_numbers(rows, dtype, for_gpu):
    x, y, z = torch.randn(400, rows, rows, dtype=dtype), torch.randn(400, rows, 7, dtype=dtype), torch.randn(400, rows, dtype=dtype)
    for mine, theirs in (
        (lambda x, y, z: det(x)[0], lambda x, y, z: torch.linalg.det(x)), (lambda x, y, z: slogdet(x), lambda x, y, z: tuple(torch.linalg.slogdet(x))),
        (lambda x, y, z: inv_ex(x), lambda x, y, z: tuple(torch.linalg.inv_ex(x))),
        (lambda x, y, z: solve_ex(x, y)[0], lambda x, y, z: torch.linalg.solve(x, y)),
        (lambda x, y, z: solve_ex(x, z)[0], lambda x, y, z: torch.linalg.solve(x, z)),
        (lambda x, y, z: solve_ex(x[0], z[0])[0], lambda x, y, z: torch.linalg.solve(x[0], z[0])),
    ):
        found = mine(x, y, z), theirs(x, y, z)
        if dtype == torch.float64:  # the reference is eager, with errors of its own
            torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)
        else:
            compared = compare(*found, theirs(*(t.double() for t in (x, y, z))))
            assert compared.right, str(compared)


@pytest.mark.covering
@pytest.mark.parametrize("model", [lambda x: torch.linalg.det(x * 2), lambda x: torch.linalg.inv_ex(x), lambda x: torch.linalg.slogdet(x)])
@pytest.mark.parametrize("rows", [2, 3])
def test_kernels_are_right(rows, model, for_gpu):
    found = check(SimulatedModel(model, (x := torch.randn(40, rows, rows),), expand=True), model, (x,))
    assert found.right, str(found)


def test_matrices_without_an_inverse(for_gpu):
    """The first pivot that is 0 is told, by which the caller raises."""
    x = torch.tensor([[[1.0, 2], [2, 4]], [[0, 0], [0, 4]], [[0, 1], [0, 4]], [[0, 1], [1, 0]], [[torch.nan, 1], [1, 0]]])
    (mine, info), (eager, expected) = inv_ex(x), torch.linalg.inv_ex(x)
    assert torch.equal(info, expected) and torch.equal(mine.nan_to_num(1e30), eager.nan_to_num(1e30))
    assert torch.equal(solve_ex(x, x[..., 0])[1], expected) and torch.equal(det(x[:4])[0], torch.linalg.det(x[:4]))


def test_who_checks_gets_the_answer(for_gpu):
    """A system's, as Dynamo gives it, beside the factors, of which nothing is read."""
    def solve(x, y):
        found = aten._linalg_solve_ex(x, y)
        return found[0], found[3]

    args = torch.randn(5, 3, 3), torch.randn(5, 3)
    module = make_fx(solve, tracing_mode="fake")(*args)
    for node in list(module.graph.nodes):
        if node.target is getitem and not node.users:
            module.graph.erase_node(node)
    expand_small_matrices(module.graph, table())
    module.recompile()
    assert aten._linalg_solve_ex.default not in {n.target for n in module.graph.nodes}
    for mine, theirs in zip(module(*args), solve(*args)):
        torch.testing.assert_close(mine, theirs)


def test_factors_that_gradients_are_made_of_are_the_librarys(for_gpu):
    """Which are of the matrix or of its transpose."""
    graph = make_fx(lambda x: aten._linalg_det(x)[:2], tracing_mode="fake")(torch.randn(5, 3, 3)).graph
    expand_small_matrices(graph, table())
    assert aten._linalg_det.default in {n.target for n in graph.nodes}


@pytest.mark.parametrize("function", [torch.linalg.inv, lambda x: torch.linalg.solve(x, x[..., 0])])
def test_what_has_no_inverse_raises(function):
    fast, x = torch.compile(lambda x: function(x * 2) + 1, backend="inferno"), torch.randn(3, 3, 3)
    torch.testing.assert_close(fast(x), function(x * 2) + 1)
    with pytest.raises(torch.linalg.LinAlgError):
        fast(torch.ones(3, 3, 3))


def test_larger_ones_and_those_on_a_cpu_are_the_librarys():
    for rows in (3, 5):
        fast = inferno.compile(lambda x: torch.linalg.det(x) * 2, (torch.randn(3, rows, rows),), target="sm_90a" if rows == 5 else "cpu")
        assert [f.target for f in fast.fallbacks] == ["aten._linalg_det.default"]


def test_what_is_said_of_a_check():
    with pytest.raises(inferno.UnsupportedOperation, match="aten.linalg_inv_ex.default .*it has a side effect"):
        inferno.compile(lambda x: torch.linalg.inv(x) + 1, (torch.randn(5, 3, 3),), target="sm_90a", fallback=False)


def test_a_determinant_is_one_kernel():
    assert generators(lambda x: torch.linalg.det(x) * 2, (torch.randn(64, 3, 3),)) == ["elementwise"]
