"""flex_attention with many functions of scores and masks; what these capture are arguments, so that each is one function of tensors."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def causal(b, h, i, j):
    return i >= j


def window(b, h, i, j):
    return (i >= j) & (i - j <= 5)


def capped(s, b, h, i, j):
    return 3 * torch.tanh(s / 3)


def masked(mask, q, k, heads=None, batch=None):
    return create_block_mask(mask, batch, heads, q.shape[2], k.shape[2], device=str(q.device))


def plain(q, k, v):
    return flex_attention(q, k, v)


def windowed(q, k, v):
    return flex_attention(q, k, v, block_mask=masked(window, q, k), enable_gqa=True, scale=0.3)


def soft_capped(q, k, v):
    return flex_attention(q, k, v, score_mod=capped, block_mask=masked(causal, q, k))


def alibi(q, k, v, slopes):
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + slopes[h] * (j - i), block_mask=masked(causal, q, k))


def relative(q, k, v, table):
    """A bias by the distance of query and key, which causes keys to be read backwards."""
    last = q.shape[2] - 1
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: capped(s + table[h, i - j + last], b, h, i, j))


def prefixed(q, k, v, lengths):
    return flex_attention(q, k, v, block_mask=masked(lambda b, h, i, j: (j < lengths[b]) | (i >= j), q, k, batch=q.shape[0]))


def documents(q, k, v, ids):
    """Causal in each document; the first query sees nothing."""
    def seen(b, h, i, j):
        return (i >= j) & (ids[b, i] == ids[b, j]) & (i != 0)

    return flex_attention(q, k, v, score_mod=capped, block_mask=masked(seen, q, k, batch=q.shape[0]), enable_gqa=True, return_lse=True)


def operands(name, length, size, dtype=torch.bfloat16, batch=2, heads=4, device="cpu"):
    """A function and its arguments."""
    function = CASES[name]
    shared = heads // 2 if name in ("windowed", "documents") else heads
    q, k, v = (torch.randn(batch, n, length, size, device=device).to(dtype) for n in (heads, shared, shared))
    more = {
        "alibi": lambda: torch.rand(heads, device=device), "relative": lambda: torch.randn(heads, 2 * length - 1, device=device),
        "prefixed": lambda: torch.arange(1, batch + 1, device=device) * length // 3,
        "documents": lambda: torch.randint(0, 3, (batch, length), device=device).sort(-1)[0],
    }
    return function, (q, k, v, *([more[name]()] if name in more else []))


CASES = {f.__name__: f for f in (plain, windowed, soft_capped, alibi, relative, prefixed, documents)}
