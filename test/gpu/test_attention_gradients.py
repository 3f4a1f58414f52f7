"""Attention that is trained, as fused kernels, against float64: forms, and that every launch gives the same bits."""

import functools

import pytest
import torch
from by_hand_cases import step
from on_gpu import on_hopper
from torch import nn

F = nn.functional

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("unmeasured"),
]


def right(function, args, generators, trained=3):
    fast = torch.compile(function, backend="inferno", fullgraph=True, options={"fallback": False})
    dtype = args[0].dtype
    ours, again, torchs, exact = (
        step(f, args, t, trained) for f, t in ((fast, dtype), (fast, dtype), (function, dtype), (function, torch.float64)))
    for mine, other, theirs, double in zip(ours, again, torchs, exact):
        error = (theirs.double() - double).norm()
        bound = max(1.5 * error if error.isfinite() else 0, torch.finfo(dtype).eps * double.norm())
        assert (mine.double() - double).norm() <= bound and torch.equal(mine, other)
    forward, backward = (sum(f'"{name}"' in s for s in generators) for name in ("attention", "attention_gradients"))
    assert forward == 1 and backward in (1, 2)  # two kernels, or one that keeps gradients of scores, by the estimates


def heads(queries, keys, size, width=0, batch=2, of=4, shared=4, dtype=torch.bfloat16):
    """q, k and v."""
    return tuple(
        torch.randn(batch, n, rows, columns, device="cuda").to(dtype)
        for n, rows, columns in ((of, queries, size), (shared, keys, size), (shared, keys, width or size))
    )


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def with_mask(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def grouped_with_mask(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


@pytest.mark.parametrize("dtype, size, width", [
    (torch.bfloat16, 64, 64), (torch.float16, 128, 128), (torch.bfloat16, 128, 128), (torch.float16, 72, 40), (torch.bfloat16, 96, 96),
])
def test_head_sizes(dtype, size, width, generators):
    right(F.scaled_dot_product_attention, heads(1024, 640, size, width, dtype=dtype), generators)


@pytest.mark.parametrize("queries, keys", [(333, 333), (200, 777), (777, 200), (136, 192), (2048, 2048)])
def test_causal(queries, keys, generators):
    right(causal, heads(queries, keys, 128), generators)


def test_chosen_by_itself(monkeypatch, generators):
    monkeypatch.delenv("INFERNO_UNMEASURED")
    right(causal, heads(1024, 1024, 64), generators)


@pytest.mark.parametrize("size", [64, 80, 96, 120])
def test_chosen_by_itself_beside_masks(size, monkeypatch, generators):
    monkeypatch.delenv("INFERNO_UNMEASURED")
    right(with_mask, (*heads(512, 512, size), torch.rand(2, 1, 512, 512, device="cuda") > 0.5), generators)
    assert any('"attention_gradients"' in s and 'masks = "1"' in s for s in generators)


def test_heads_share_keys(generators):
    right(causal, heads(600, 600, 128, of=32, shared=8), generators)


@pytest.mark.parametrize("queries, keys, size", [(300, 500, 64), (300, 512, 128), (512, 512, 128), (512, 512, 64)])
def test_heads_share_keys_of_any_number(queries, keys, size, generators):
    right(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), heads(queries, keys, size, of=8, shared=2), generators)


@pytest.mark.parametrize("queries, keys, size, shared, dtype", [
    (2048, 2048, 128, 16, torch.bfloat16), (1024, 1024, 64, 16, torch.bfloat16), (1024, 2048, 64, 4, torch.float16), (512, 2048, 128, 4, torch.bfloat16),
    (512, 4096, 64, 16, torch.bfloat16),
])
def test_queries_added_up_in_memory(queries, keys, size, shared, dtype, generators):
    """In turns: two calls give the same bits."""
    attention = functools.partial(F.scaled_dot_product_attention, enable_gqa=True)
    right(attention, heads(queries, keys, size, of=16, shared=shared, dtype=dtype), generators)
    assert any("adds = 2" in s for s in generators)


def test_masks_and_rows_without_keys(generators):
    mask = torch.rand(2, 1, 300, 400, device="cuda") > 0.5
    mask[0, 0, 7], mask[1, 0, 100:200] = False, False
    right(with_mask, (*heads(300, 400, 64), mask), generators)


@pytest.mark.parametrize("size, of, shared, dtype", [(64, 4, 4, torch.bfloat16), (128, 8, 2, torch.bfloat16), (72, 4, 4, torch.float16)])
def test_masks_of_numbers(size, of, shared, dtype, generators):
    """As models give them, with rows that see nothing, and biases of heads."""
    hidden = torch.ones(300, 400, dtype=torch.bool, device="cuda").tril(100).logical_not() | (torch.arange(400, device="cuda") < 50)
    mask = torch.zeros(2, 1, 300, 400, device="cuda").masked_fill(hidden, torch.finfo(dtype).min)
    mask[0, 0, 7] = torch.finfo(dtype).min
    for given in (mask, torch.randn(1, of, 300, 400, device="cuda"), mask[:, :, 200:201]):
        generators.clear()
        torch._dynamo.reset()
        right(grouped_with_mask, (*heads(300, 400, size, of=of, shared=shared, dtype=dtype), given.to(dtype)), generators)


@pytest.mark.parametrize("size, of, shared", [(64, 4, 4), (128, 8, 2), (80, 4, 2)])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.bool])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 0), (2, 0)], ids=["all", "batch", "heads", "each"])
def test_masks_in_shared_memory(shape, kind, size, of, shared, generators):
    """Of numbers of queries and keys that tiles do not divide; 0 stands for the heads."""
    mask = torch.randn(shape[0], shape[1] or of, 1000, 752, device="cuda")
    right(grouped_with_mask, (*heads(1000, 752, size, of=of, shared=shared), mask > -0.5 if kind == torch.bool else mask.to(kind)), generators)
    assert any('"attention_gradients"' in s and f'masks = "{kind.itemsize}"' in s for s in generators)


@pytest.mark.parametrize("shape, size, of, shared, dtype", [
    ((1, 4, 304, 400), 64, 4, 4, torch.bfloat16), ((304, 400), 128, 8, 2, torch.bfloat16), ((2, 1, 1, 400), 64, 4, 4, torch.float16),
    ((2, 4, 304, 400), 64, 4, 4, torch.bfloat16),
])
def test_learned_biases(shape, size, of, shared, dtype, generators):
    right(grouped_with_mask, (*heads(304, 400, size, of=of, shared=shared, dtype=dtype), torch.randn(shape, device="cuda").to(dtype)), generators, 4)


@pytest.mark.parametrize("size", [64, 128])
def test_windows_and_padding(size, generators):
    def model(q, k, v, keys):
        n = torch.arange(q.shape[2], device=q.device)
        near = (n[:, None] >= n) & (n[:, None] - n < 100)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=near & keys[:, None, None])

    right(model, (*heads(700, 700, size), torch.arange(700, device="cuda").expand(2, 700) >= 64), generators)


def test_heads_lie_side_by_side(generators):
    def model(x, w):
        q, k, v = F.linear(x, w).view(2, 300, 3, 6, 64).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 300, 384)

    right(model, (torch.randn(2, 300, 384, device="cuda").bfloat16(), (torch.randn(1152, 384, device="cuda") / 20).bfloat16()), generators)


def test_memory_of_lengths_that_vary():
    """Of the second length Dynamo makes a graph for all of them.  Scores would be kept for the backward, and more than once; their gradients may be, once."""
    fast = torch.compile(lambda q, k, v: causal(q, k, v), backend="inferno", fullgraph=True, options={"fallback": False})
    for length in (2048, 4096):
        given = [t.requires_grad_() for t in heads(length, length, 64, batch=1, of=16, shared=16)]
        for _ in range(2):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            fast(*given).sum().backward()
        assert torch.cuda.max_memory_allocated() - before < 1.5 * 2 * 16 * length**2
