"""Attention of many short rows from registers, against float64: sizes, types, masks, orders in memory, and what is made of results."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_right, poison_memory

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
bf16, f16 = torch.bfloat16, torch.float16
attend = F.scaled_dot_product_attention


def heads(b, h, queries, keys, depth, width=None, shared=None, dtype=bf16):
    sizes = (b, h, queries, depth), (b, shared or h, keys, depth), (b, shared or h, keys, width or depth)
    return [torch.randn(size, device="cuda").to(dtype) for size in sizes]


def right(function, args):
    poison_memory()
    compiled = assert_right(function, args)
    assert "short_attention" in [r.generator for r in compiled.explain().rows], str(compiled.explain())


@pytest.mark.parametrize("dtype", [bf16, f16])
@pytest.mark.parametrize("b, h, queries, keys, depth, width", [
    (4096, 4, 9, 9, 32, 32), (2048, 3, 49, 49, 32, 32), (5000, 1, 8, 8, 32, 32), (3136, 12, 8, 8, 64, 64), (1024, 8, 21, 21, 24, 24), (4096, 8, 1, 50, 32, 32),
    (999, 3, 20, 37, 40, 24), (512, 8, 32, 32, 64, 64), (2048, 4, 5, 7, 10, 6),
])
def test_sizes(b, h, queries, keys, depth, width, dtype):
    right(attend, heads(b, h, queries, keys, depth, width, dtype=dtype))


def test_masks():
    q, k, v = heads(2048, 3, 49, 49, 32)
    right(lambda q, k, v: attend(q, k, v, is_causal=True), (q, k, v))
    right(lambda q, k, v, m: torch.softmax(q @ k.transpose(-1, -2) * 0.2 + m, -1) @ v, (q, k, v, torch.randn(3, 49, 49, device="cuda").to(bf16)))
    right(lambda q, k, v, m: attend(q, k, v, m), (q, k, v, torch.rand(2048, 1, 1, 49, device="cuda") > 0.5))


def test_layers():
    """Rows of all heads, as a projection makes them, and frames of a video, which lie far apart."""
    def windows(x):
        q, k, v = x.view(1024, 49, 3, 4, 32).permute(2, 0, 3, 1, 4)
        return attend(q, k, v).transpose(1, 2).reshape(1024, 49, 128)

    def frames(x):
        q, k, v = x.view(4, 8, 196, 3, 6, 64).permute(3, 0, 2, 4, 1, 5)
        return attend(q, k, v).permute(0, 3, 1, 2, 4).reshape(4, 8, 196, 384)

    right(windows, (torch.randn(1024, 49, 384, device="cuda").to(bf16),))
    right(frames, (torch.randn(4, 8, 196, 1152, device="cuda").to(bf16),))


def test_shared_keys_and_results():
    q, k, v = heads(2048, 8, 10, 14, 32, shared=2)
    right(lambda q, k, v: torch.sigmoid(q) * attend(q, k, v, enable_gqa=True), (q, k, v))
    right(lambda q, k, v: attend(q, k.transpose(2, 3), v), (q, k.repeat(1, 4, 1, 1).transpose(2, 3).contiguous(), v.repeat(1, 4, 1, 1)))
