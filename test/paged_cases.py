"""Attention over caches of keys and values in pages, as programs write it: for the simulator and for a GPU."""

from collections.abc import Callable

import torch
from torch import Tensor

F = torch.nn.functional


def _attend(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """k and v are [batch, heads, keys, columns]; a sequence's token i is query i of its last ones."""
    places = lengths[:, None] - q.shape[2] + torch.arange(q.shape[2], device=q.device)
    seen = torch.arange(k.shape[2], device=q.device) <= places[:, :, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None], enable_gqa=True)


def _rows(pages: Tensor) -> Tensor:
    """[batch, pages, rows, heads, columns] as [batch, heads, keys, columns]."""
    return pages.flatten(1, 2).transpose(1, 2)


def index(q, k, v, table, lengths):
    return _attend(q, _rows(k[table]), _rows(v[table]), lengths)


def select(q, k, v, table, lengths):
    k, v = (x.index_select(0, table.flatten()).view(*table.shape, *x.shape[1:]) for x in (k, v))
    return _attend(q, _rows(k), _rows(v), lengths)


def gather(q, k, v, table, lengths):
    at = table.flatten()[:, None, None, None].long().expand(-1, *k.shape[1:])
    k, v = (torch.gather(x, 0, at).view(*table.shape, *x.shape[1:]) for x in (k, v))
    return _attend(q, _rows(k), _rows(v), lengths)


def joint(q, cache, table, lengths):
    """Keys and values in one cache."""
    k, v = (cache[table, i] for i in range(2))
    return _attend(q, _rows(k), _rows(v), lengths)


def by_heads(q, k, v, table, lengths):
    """Pages are [heads, rows, columns]."""
    k, v = (x[table].permute(0, 2, 1, 3, 4).flatten(2, 3) for x in (k, v))
    return _attend(q, k, v, lengths)


def slots(q, k, v, table, lengths):
    """Places of tokens, of which a page's are one behind the other."""
    rows = k.shape[1]
    at = (table[:, :, None] * rows + torch.arange(rows, device=q.device)).flatten(1)
    k, v = (x.flatten(0, 1)[at].transpose(1, 2) for x in (k, v))
    return _attend(q, k, v, lengths)


def by_hand(q, k, v, table, lengths):
    """One query; lengths are those of a mask that is added."""
    k, v = (x[table].flatten(1, 2) for x in (k, v))
    scores = torch.einsum("bghd,bngd->bghn", q.unflatten(1, (k.shape[2], -1)).squeeze(3), k) * q.shape[-1]**-0.5
    seen = torch.arange(k.shape[1], device=q.device) < lengths[:, None]
    scores = scores + torch.where(seen, 0.0, -torch.inf)[:, None, None].to(q.dtype)
    weights = torch.softmax(scores.float(), -1).to(q.dtype)
    return torch.einsum("bghn,bngd->bghd", weights, v).flatten(1, 2).unsqueeze(2)


def operands(
    rows: int, pages: int, lengths: list[int], queries: int = 1, heads: tuple[int, int] = (4, 2), columns: int = 16, dtype: torch.dtype = torch.bfloat16,
    table: torch.dtype = torch.int32, device: str = "cpu", many: int = 0,
) -> tuple[Tensor, ...]:
    """q, keys and values [all pages, rows of a page, heads, columns], the table [batch, pages], and lengths."""
    batch, (own, shared) = len(lengths), heads
    many = many or batch * pages + 3
    made = [torch.randn(*s).to(dtype) for s in ((batch, own, queries, columns), (many, rows, shared, columns), (many, rows, shared, columns))]
    numbers = torch.randperm(many)[:batch * pages].view(batch, pages).to(table)
    return tuple(x.to(device) for x in (*made, numbers, torch.tensor(lengths)))


def poisoned(args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The same, where what the table says of pages behind the lengths is no page, and all pages that no sequence has are NaN."""
    q, k, v, table, lengths = (x.clone() for x in args)
    has = torch.arange(table.shape[1], device=q.device) * k.shape[1] < lengths[:, None]
    unused = torch.ones(len(k), dtype=torch.bool, device=q.device)
    unused[table[has].long()] = False
    k[unused] = v[unused] = torch.nan
    table[~has] = 2**30
    return q, k, v, table, lengths


CASES: dict[str, Callable] = {
    "index": index, "select": select, "gather": gather, "heads": by_heads, "joint": joint, "by hand": by_hand, "slots": slots,
}
"""Those that are one kernel."""


def cache_of(name: str, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The operands of a case, with caches as it has them."""
    q, k, v, *rest = args
    if name == "joint":
        return q, torch.stack([k, v], 1), *rest
    return (q, k.transpose(1, 2).contiguous(), v.transpose(1, 2).contiguous(), *rest) if name == "heads" else args
