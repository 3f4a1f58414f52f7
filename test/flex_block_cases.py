"""flex_attention with block masks whose lists count, and what it gives by the definition of torch's kernel."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention, noop_mask


@dataclass
class Case:
    """``mask_mod`` and lists ``mask`` for q [batch, heads, queries, width], k and v."""

    args: tuple
    mask_mod: Any
    mask: Any
    score_mod: Any = None
    more: Any = None

    def __call__(self, q, k, v):
        return flex_attention(q, k, v, score_mod=self.score_mod, block_mask=self.mask, enable_gqa=q.shape[1] != k.shape[1], **self.more or {})

    def exact(self, batch=slice(None), heads=slice(None)):
        """In float64, of some of the batch and of the heads: results and logarithms."""
        q, k, v = self.args
        (_, count, length, width), last, device = q.shape, k.shape[2], q.device
        k, v = (x.repeat_interleave(count // x.shape[1], 1) for x in (k, v))
        b, h = (torch.arange(n, device=device)[s] for n, s in ((q.shape[0], batch), (count, heads)))
        b, h = b[:, None, None, None], h[:, None, None]
        i, j = torch.arange(length, device=device)[:, None], torch.arange(last, device=device)
        scores = q[batch, heads].double() @ k[batch, heads].double().mT / width**0.5
        scores = scores if self.score_mod is None else self.score_mod(scores, b, h, i, j)
        seen, whole = (self.listed(*of, length, last, b, h) for of in self.lists)
        scores = scores.masked_fill(~(whole | seen & self.mask_mod(b, h, i, j)), -torch.inf)
        return torch.softmax(scores, -1).nan_to_num() @ v[batch, heads].double(), torch.logsumexp(scores, -1)

    @property
    def lists(self):
        m = self.mask
        return (m.kv_num_blocks, m.kv_indices), (m.full_kv_num_blocks, m.full_kv_indices)

    def listed(self, counts, indices, length, last, b, h):
        """Whether the block of each query and key is in a list."""
        if counts is None:
            return torch.zeros((), dtype=torch.bool, device=b.device)
        rows, columns = self.mask.BLOCK_SIZE
        each = torch.arange(indices.shape[-1], device=b.device)
        found = ((indices[..., None] == each) & (each < counts[..., None])[..., None]).any(-2)
        found = found.repeat_interleave(rows, -2).repeat_interleave(columns, -1)[..., :length, :last]
        return found[b.flatten() % found.shape[0]][:, h.flatten() % found.shape[1]]


def tensors(batch, heads, shared, length, last, width, dtype=torch.bfloat16, device="cpu"):
    return tuple(torch.randn(batch, n, m, width, device=device).to(dtype) for n, m in ((heads, length), (shared, last), (shared, last)))


def made(mask_mod, args, batch=None, heads=None, size=128, **more):
    """With the lists that torch makes of ``mask_mod``."""
    q, k, _ = args
    lists = create_block_mask(mask_mod, batch, heads, q.shape[2], k.shape[2], device=str(q.device), BLOCK_SIZE=size)
    return Case(args, mask_mod, lists, **more)


def by_hand(mask_mod, args, batch=1, heads=1, size=(128, 128), whole=True, **more):
    """With random lists: some blocks are left out that ``mask_mod`` would let in, others are whole that it would hide; the first row has none."""
    q, k, _ = args
    rows, columns = (-(-n // each) for n, each in zip((q.shape[2], k.shape[2]), size))
    kinds = torch.randint(0, 3 if whole else 2, (batch, heads, rows, columns), device=q.device)
    kinds[:, :, 0] = 0
    lists = [x for kind in ((1, 2) if whole else (1,)) for x in ((kinds == kind).sum(-1).int(), (kinds != kind).int().argsort(dim=-1, stable=True).int())]
    mask = BlockMask.from_kv_blocks(*lists, BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(q.shape[2], k.shape[2]))
    return Case(args, mask_mod, mask, **more)


def causal(b, h, i, j):
    return i >= j


def window(b, h, i, j):
    return (i >= j) & (i - j < 200)


def alibi(s, b, h, i, j):
    return s + (h + 1) * 0.01 * (j - i)


def documents(batch, length, device="cpu", of_causal=False):
    ids = torch.randint(0, 4, (batch, length), device=device).sort(-1)[0]
    return (lambda b, h, i, j: (ids[b, i] == ids[b, j]) & (i >= j)) if of_causal else lambda b, h, i, j: ids[b, i] == ids[b, j]


def prefixed(batch, length, device="cpu"):
    lengths = torch.randint(1, length, (batch,), device=device)
    return lambda b, h, i, j: (j < lengths[b]) | (i >= j)


def of_heads(heads, device="cpu"):
    steps = torch.arange(1, heads + 1, device=device) * 40
    return lambda b, h, i, j: (i - j < steps[h]) & (i >= j)


def cases(width=128, dtype=torch.bfloat16, device="cpu"):
    """By name, functions that make them: of a few blocks each."""
    def given(shared=4, length=512, last=512):
        return tensors(2, 4, shared, length, last, width, dtype, device)

    return {
        "documents": lambda: made(documents(2, 512, device), given(), 2),
        "causal documents": lambda: made(documents(2, 500, device, True), given(length=500, last=500), 2),
        "window": lambda: made(window, given(shared=2)),
        "many tiles": lambda: made(documents(2, 2000, device, True), tensors(2, 24, 8, 2000, 2000, width, dtype, device), 2),
        "many tiles by hand": lambda: by_hand(causal, tensors(2, 8, 8, 3000, 3000, width, dtype, device), 2, 1),
        "prefix": lambda: made(prefixed(2, 700, device), given(length=700, last=700), 2),
        "causal": lambda: made(causal, given(length=1024, last=1024)),
        "heads": lambda: made(of_heads(4, device), given(), None, 4, score_mod=alibi),
        "batch and heads": lambda: made(of_heads(4, device), given(shared=1), 2, 4),
        "by hand": lambda: by_hand(causal, given(), 2, 4),
        "by hand, ragged": lambda: by_hand(causal, given(length=450, last=700), score_mod=alibi),
        "by hand, no masks": lambda: by_hand(noop_mask, given(shared=2), 1, 4, whole=False),
        "by hand, logarithms": lambda: by_hand(window, given(length=500, last=500), 2, more={"return_lse": True}),
        "by hand, whole only": lambda: by_hand(noop_mask, given(shared=2, length=512, last=600), 2, 4),
        "by hand, smaller": lambda: by_hand(documents(2, 512, device), given(), 2, 1, (64, 64)),
        "by hand, wide": lambda: by_hand(causal, given(length=512, last=600), 1, 1, (256, 32)),
    }
