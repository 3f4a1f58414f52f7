"""Products of many small matrices, against float64: lanes that share terms, matrices side by side, sums in 16 bits, and what is made of the results."""

import pytest
import torch
from checks import assert_right, poison_memory

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda").to(dtype)


def right(function, *args, chosen=True):
    poison_memory()
    compiled = assert_right(function, args)
    assert not chosen or "small_products" in [r.generator for r in compiled.explain().rows], str(compiled.explain())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch, m, n, k", [(262144, 1, 3, 16), (16384, 1, 3, 64), (99999, 3, 3, 3), (65537, 2, 5, 7)])
def test_shapes(batch, m, n, k, dtype):
    right(torch.matmul, randn(batch, m, k, dtype=dtype), randn(batch, k, n, dtype=dtype))
    right(lambda x, y: x @ y.transpose(1, 2), randn(batch, m, k, dtype=dtype), randn(batch, n, k, dtype=dtype), chosen=False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("batch, n, k", [(262144, 3, 16), (16384, 3, 64), (14400, 32, 4), (70000, 8, 12)])
def test_sums_in_16_bits(batch, n, k, dtype):
    right(lambda x, y: torch.relu((x[..., None] * y).sum(1) + 0.5), randn(batch, k, dtype=dtype), randn(batch, k, n, dtype=dtype))


def test_matrices_side_by_side():
    right(lambda x, y: (x.permute(2, 0, 1) @ y.permute(2, 0, 1)).permute(1, 2, 0).contiguous(), randn(9, 9, 40000), randn(9, 32, 40000), chosen=False)
