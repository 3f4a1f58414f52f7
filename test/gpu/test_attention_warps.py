"""Attention of few float32 queries against long caches, against float64: head sizes, heads that share keys, masks, schedules, numbers that are none."""

import pytest
import torch
from checks import assert_right
from on_gpu import on_hopper
from torch.nn.attention import SDPBackend, sdpa_kernel

import inferno
from inferno.runtime.check.comparison import compare
from inferno.tools.check import reference

F = torch.nn.functional

pytestmark = on_hopper


def heads(batch, of, shared, queries, keys, size, width=0):
    """q, k and v."""
    shapes = (batch, of, queries, size), (batch, shared, keys, size), (batch, shared, keys, width or size)
    return [torch.randn(shape, device="cuda") for shape in shapes]


def right(function, args, rows):
    """Right, as one kernel whose warps have keys of their own, and every time the same."""
    compiled = assert_right(function, args)
    text = compiled.ir("scheduled")
    assert f"warp_rows = {rows}" in text and text.count('generator = "attention"') == 1 and text.count("call @") == 1
    expected = compiled(*args)
    assert all(torch.equal(expected, compiled(*args)) for _ in range(20))


def grouped(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@pytest.mark.parametrize("batch, of, shared, queries, keys, size, width, rows", [
    (1, 8, 8, 1, 512, 64, 0, 8), (4, 32, 32, 1, 4096, 128, 0, 8), (64, 16, 16, 1, 300, 64, 0, 8), (1, 32, 8, 1, 32768, 128, 0, 8),
    (2, 16, 2, 1, 1000, 96, 0, 8), (8, 32, 8, 4, 2048, 128, 0, 16), (1, 8, 8, 16, 8192, 64, 0, 16), (3, 5, 5, 12, 777, 40, 72, 16),
    (2, 4, 4, 3, 90, 8, 8, 8), (1, 16, 4, 1, 5000, 256, 0, 8), (1, 2, 2, 16, 3000, 200, 136, 8), (40, 8, 8, 7, 100, 32, 0, 8),
])
def test_sizes(batch, of, shared, queries, keys, size, width, rows):
    right(grouped, heads(batch, of, shared, queries, keys, size, width), rows)


def by_hand(q, k, v, mask):
    return torch.softmax((q @ k.transpose(-1, -2) * 0.125).masked_fill(mask, -torch.inf), -1) @ v


def biased(q, k, v, bias):
    return torch.tanh(F.scaled_dot_product_attention(q, k, v, bias))


def window(q, k, v):
    i, j = torch.arange(q.shape[2], device=q.device)[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2], device=q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (i - j < 1500))


@pytest.mark.parametrize("keys", [500, 4096])
def test_masks(keys):
    args = heads(4, 16, 16, 5, keys, 64)
    right(by_hand, [*args, torch.rand(4, 1, 1, keys, device="cuda") < 0.3], 8)
    right(biased, [*args, torch.randn(16, 5, keys, device="cuda")], 8)
    right(window, args, 8)


def test_sizes_that_vary():
    """A cache that grows, and one step of several tokens."""
    batch, queries, keys = (torch.export.Dim(name, min=1, max=most) for name, most in (("b", 64), ("s", 512), ("t", 8192)))
    of_keys = {0: batch, 2: keys}
    compiled = inferno.compile(grouped, tuple(heads(2, 8, 2, 3, 900, 64)), dynamic_shapes=({0: batch, 2: queries}, of_keys, of_keys))
    text = compiled.ir("scheduled")
    assert "warp_rows = 0" in text and ("warp_rows = 8" in text or "warp_rows = 16" in text)
    for sizes in ((1, 1, 1), (3, 1, 8000), (2, 16, 100), (64, 4, 700), (1, 300, 333)):
        args = heads(sizes[0], 8, 2, *sizes[1:], 64)
        found = compare(compiled(*args), grouped(*args), reference(grouped, args, {}))
        assert found.right, (sizes, str(found))


def test_what_is_no_number():
    """As products of float32 have it, and as exact beside it."""
    q, k, v = args = heads(2, 4, 4, 6, 3000, 64)
    q[0, 0, 3], k[1, 1, 5], k[0, 2, 9, 3] = float("nan"), float("inf"), torch.finfo(torch.float32).max
    q[0, 2, :, 3] = 1e-37  # of which the score is one like any other
    v[0, 1, 7, 3], v[0, 1, 2900, 4], v[0, 3, 40, 5] = -float("inf"), float("inf"), torch.finfo(torch.float32).max
    compiled = inferno.compile(F.scaled_dot_product_attention, args, fallback=False)
    assert "warp_rows = 8" in compiled.ir("scheduled")
    with sdpa_kernel(SDPBackend.MATH):
        products = F.scaled_dot_product_attention(*args)
    assert products[0, 1, :, 3].isneginf().all() and products[0, 0, 3].isnan().all() and products[1, 0].isfinite().all()
    found = compare(compiled(*args), products, reference(F.scaled_dot_product_attention, args, {}))
    assert found.right, str(found)
