"""Products of tall matrices of 16-bit numbers, whose terms are cut into parts, against float64."""

import pytest
import torch
from checks import assert_right
from on_gpu import on_hopper

F = torch.nn.functional

pytestmark = on_hopper


def right(function, *shapes, dtype=torch.bfloat16):
    torch.manual_seed(0)
    compiled = assert_right(function, tuple(torch.randn(s, device="cuda").to(dtype) for s in shapes))
    assert any(row.kernel.endswith("_parts") for row in compiled.explain().rows)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("m, n, k", [(128, 64, 4096), (128, 128, 65536), (256, 256, 16384), (96, 384, 50000), (512, 32, 8200), (200, 344, 12345)])
def test_sizes(m, n, k, dtype):
    right(lambda x, y: x.t() @ y, (k, m), (k, n), dtype=dtype)


@pytest.mark.parametrize("m, n, k", [(128, 64, 4096), (192, 192, 50000), (256, 64, 65536)])
def test_linear(m, n, k):
    right(lambda x, y, b: F.gelu(F.linear(x, y, b)), (m, k), (n, k), (n,))


@pytest.mark.parametrize("batch", [3, 16])
def test_terms_of_two_loops(batch):
    right(lambda x, y: torch.einsum("bti,btj->ij", x, y), (batch, 4096, 128), (batch, 4096, 192))


def test_one_matrix():
    right(lambda x: x.t() @ x / x.shape[0], (20000, 256))


def test_a_residual():
    right(lambda x, y, r: torch.relu(x.t() @ y) + r, (16384, 256), (16384, 128), (256, 128))


def test_a_layers_gradients():
    """Both gradients of a layer of few features, with its bias's."""
    def gradients(dy, x, w):
        return dy @ w, dy.t() @ x, dy.sum(0)

    right(gradients, (32768, 256), (32768, 128), (256, 128))
