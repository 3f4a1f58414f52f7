"""Exact float32 matmuls, and any others that tensor cores do not take, on the GPU against float64."""

import pytest
import torch
from checks import assert_right
from contraction_cases import BATCHES, heads, not_finite

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


pytestmark = pytest.mark.usefixtures("exact_float32")


def randn(*shape, dtype=torch.float32):
    """Random normal; for float64, whose reference is no better than it is, small whole numbers, of which sums are exact."""
    if dtype == torch.float64:
        return torch.randint(-8, 9, shape, device="cuda").to(dtype)
    return torch.randn(shape, device="cuda").to(dtype)


def linear_relu(x, w, b):
    return torch.relu(x @ w + b)


@pytest.mark.parametrize("m, n, k", [
    (1, 1, 1), (3, 5, 1), (64, 128, 256), (128, 256, 512), (256, 256, 256), (65, 33, 31), (1, 1000, 500), (1000, 1, 500),
    (7, 7, 5000), (333, 777, 111), (512, 512, 512), (1000, 1000, 1000), (1024, 1024, 1024), (2048, 1024, 513), (130, 4096, 300),
])
def test_sizes(m, n, k):
    assert_right(linear_relu, (randn(m, k), randn(k, n), randn(n)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n, k", [(65, 33, 31), (5, 7, 3), (100, 60, 77), (128, 130, 127)])
def test_types(dtype, m, n, k):
    assert_right(linear_relu, (randn(m, k, dtype=dtype), randn(k, n, dtype=dtype), randn(n, dtype=dtype)))


@pytest.mark.parametrize("function", [
    lambda x, y: x.t() @ y, lambda x, y: (x.t() @ y).t(), lambda x, y: y.t() @ x, lambda x, y: torch.tanh(x.t()) @ y,
    lambda x, y: x.t() @ (y * 2 + 1), lambda x, y: torch.nn.functional.gelu(x.t() @ y),
])
@pytest.mark.parametrize("m, n, k", [(96, 64, 128), (95, 63, 127)])
def test_layouts_prologues_epilogues(function, m, n, k):
    assert_right(function, (randn(k, m), randn(k, n)))


@pytest.mark.parametrize("shapes", BATCHES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batches(shapes, dtype):
    assert_right(torch.matmul, tuple(randn(*s, dtype=dtype) for s in shapes))


def test_heads():
    heads(assert_right, randn, 50, 4, 16)


def test_residual_and_row_bias():
    def step(x, w, r, c):
        return r + torch.sigmoid(x @ w + c)

    assert_right(step, (randn(70, 90), randn(90, 50), randn(70, 50), randn(70, 1)))


def test_vectors():
    assert_right(lambda a, x: a @ x, (randn(300, 200), randn(200)))
    assert_right(lambda x, a: x @ a, (randn(200), randn(200, 300)))
    # One number is right to a rounding or two, not always to half of eager's luck: whole numbers, of which sums are exact.
    assert_right(torch.dot, tuple(torch.randint(-50, 50, (5000,), device="cuda").float() for _ in range(2)))


def test_module():
    model = torch.nn.Sequential(torch.nn.Linear(100, 130), torch.nn.GELU(), torch.nn.Linear(130, 70)).cuda()
    assert_right(model, (randn(33, 100),))


def test_infinities_and_nan():
    assert_right(torch.matmul, not_finite(randn, 64, 50, 40))


@pytest.mark.parametrize("m, n, k", [(64, 64, 30000), (200, 200, 8192), (2048, 2048, 4096)])
def test_long_sums_stay_accurate(m, n, k):
    assert_right(torch.matmul, (randn(m, k), randn(k, n)))
