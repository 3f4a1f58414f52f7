"""Steps of decoding: keys and values are written to caches, which attention reads then."""

import torch
from paged_cases import CASES
from torch import nn

from inferno.capture.decompositions.scattering import put_slices

F = torch.nn.functional


def one(cache, new, places):
    cache.index_copy_(2, places, new)


def by_place(cache, new, places):
    cache[:, :, places] = new


def several(cache, new, places):
    """As ``index_copy_`` of several rows is on a GPU."""
    cache.copy_(put_slices(cache, 2, places, new))


def rows_outside(cache, new, places):
    """Of a cache [batch, rows, heads, columns]."""
    cache.index_copy_(1, places, new.transpose(1, 2))


def apart(cache, new, places):
    """Each sequence of a batch at a place of its own."""
    here = torch.arange(cache.shape[2], device=cache.device) == places[:, None]
    cache.copy_(torch.where(here[:, None, :, None], new, cache))


class Step(nn.Module):
    """``places``: of the queries, or with ``apart`` of the sequences."""

    def __init__(self, write, batch=1, heads=2, length=128, columns=16, dtype=torch.bfloat16, device=None):
        super().__init__()
        self.write = write
        for name in ("keys", "values"):
            shape = (batch, length, heads, columns) if write is rows_outside else (batch, heads, length, columns)
            self.register_buffer(name, torch.randn(shape, device=device).to(dtype))

    @property
    def caches(self):
        """[batch, heads, rows, columns]."""
        return [x.transpose(1, 2) if self.write is rows_outside else x for x in (self.keys, self.values)]

    def forward(self, q, k, v, places):
        self.write(self.keys, k, places)
        self.write(self.values, v, places)
        return self.attend(q, places)

    def attend(self, q, places):
        keys, values = self.caches
        mask = torch.arange(keys.shape[2], device=q.device) <= places[:, None]
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask[:, None, None] if self.write is apart else mask, enable_gqa=True)

    def write_by_hand(self, k, v, places):
        for cache, new in zip(self.caches, (k, v)):
            for number, place in enumerate(places.tolist()):
                if 0 <= place < cache.shape[2]:
                    at, row = (slice(number, number + 1), 0) if self.write is apart else (slice(None), number)
                    cache[at, :, place] = new[at, :, row]


class PagedStep(nn.Module):
    """A token of each sequence goes to its page and row, of caches [pages, rows, heads, columns]."""

    def __init__(self, keys, values):
        super().__init__()
        self.register_buffer("keys", keys.clone())
        self.register_buffer("values", values.clone())

    def forward(self, q, table, lengths, new, slots):
        place = slots // self.keys.shape[1], slots % self.keys.shape[1]
        self.keys.index_put_(place, new)
        self.values.index_put_(place, new * 2)
        return CASES["index"](q, self.keys, self.values, table, lengths)


def slots_of(table, lengths, rows):
    """Where the last tokens are."""
    last = lengths - 1
    return torch.gather(table, 1, (last // rows)[:, None])[:, 0] * rows + last % rows


def inputs(step, group=2, queries=1, places=None):
    """Queries, keys and values of a step for a model, and the first places."""
    batch, heads, _, columns = step.caches[0].shape
    made = [torch.randn(batch, n, queries, columns, device=step.keys.device).to(step.keys.dtype) for n in (group * heads, heads, heads)]
    return *made, torch.arange(batch if step.write is apart else queries, device=step.keys.device) if places is None else places
