"""Products of few vectors with short sums, against float64: lanes that share a column's terms, columns that lie together, and what is made of the sums."""

import pytest
import torch
from checks import assert_right, poison_memory

F = torch.nn.functional

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda").to(dtype)


def last(h, c):
    """The states' sum of a state-space model: a vector for each of the first loops."""
    return (h @ c.unsqueeze(-1))[..., 0]


def right(function, *args):
    """By that generator where terms or columns are whole vectors; odd ones of 16 bits may be the tensor cores'."""
    poison_memory()
    compiled = assert_right(function, args)
    assert args[0].shape[-1] % 4 or "short_vectors" in [r.generator for r in compiled.explain().rows], str(compiled.explain())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch, n, k", [(64, 2048, 16), (33, 1037, 15), (64, 1029, 8), (50, 513, 48), (40, 1000, 32), (90, 333, 3), (90, 640, 4)])
def test_terms_together(batch, n, k, dtype):
    right(last, randn(batch, n, k, dtype=dtype), randn(batch, k, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch, n, k", [(64, 2048, 16), (33, 1037, 15)])
def test_columns_together(batch, n, k, dtype):
    right(torch.matmul, randn(batch, 1, k, dtype=dtype), randn(batch, k, n, dtype=dtype))


def test_gate_and_both_results():
    def gated(h, c, d, x, z):
        y = last(h, c)
        return y, ((y + d * x) * F.silu(z)).to(torch.bfloat16)

    right(gated, randn(45, 2047, 16), randn(45, 16), randn(2047), randn(45, 2047), randn(45, 2047))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch, rows, k, n", [(300, 5, 4, 1024), (1024, 8, 8, 512), (1, 6, 16, 100000), (500, 7, 4, 333)])
def test_several_vectors(batch, rows, k, n, dtype):
    right(torch.matmul, randn(batch, rows, k, dtype=dtype), randn(batch, k, n, dtype=dtype))
