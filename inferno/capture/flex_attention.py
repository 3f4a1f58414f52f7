"""What torch's ``flex_attention`` computes, by plain operations: attention whose scores and masks are the user's functions of their numbers."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter
from torch.nn.attention.flex_attention import _vmap_for_bhqkv as over_scores

from inferno.capture.decompositions.attention import in_order, repeat_heads
from inferno.capture.dimensions import number_like
from inferno.capture.trained_attention import gradients
from inferno.errors import CompileError
from inferno.settings import settings


def forward(
    q: Tensor, k: Tensor, v: Tensor, score_mod: GraphModule, block_mask: tuple, scale: float, _: dict[str, Any],
    of_score: tuple = (), of_mask: tuple = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """The result [batch, heads, queries, width] and, for each row, the logarithm to the base of 2 of its sum of exponentials and its highest score
    by the same measure, as float32; a row that is masked altogether is 0, -inf and -inf.

    Where there are a mask's lists of blocks, a block counts as torch's kernels have it: what is not listed is not seen, of what is listed as full all is.
    Otherwise only its function counts, as in eager.
    """
    _, _, scores = _parts(q, k, score_mod, block_mask[-1], scale, of_score, of_mask, _kinds(block_mask, q.shape[2], k.shape[2]))
    highest = scores.amax(-1, keepdim=True)
    powers = torch.exp(scores - highest)
    sums = powers.sum(-1, keepdim=True)
    empty = highest == -math.inf
    weights = torch.where(empty, number_like(0.0, scores), powers / sums)
    totals = torch.where(empty, number_like(math.inf, scores), highest + torch.log(sums))
    totals = torch.where(totals == math.inf, number_like(-math.inf, scores), totals)
    out = torch.matmul(weights.to(q.dtype), _repeated(v, q).to(q.dtype))
    return in_order(out, _order(q)), totals.squeeze(-1) / math.log(2), highest.squeeze(-1) / math.log(2)


class _Function(Interpreter):
    """One of the user's functions as a graph, of operations that vmap knows."""

    def call_function(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if target is torch.ops.prims.convert_element_type.default:
            return args[0].to(args[1])
        return super().call_function(target, args, kwargs)


@contextlib.contextmanager
def _whole() -> Iterator[None]:
    """vmap raises RuntimeError for operations that it would call for one score after the other, and takes numbers for indices."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex  # (with what captures, which loading a package does not need)

    before = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)
    try:
        with TransformGetItemToIndex():
            yield
    finally:
        torch._C._functorch._set_vmap_fallback_enabled(before)


def backward(
    q: Tensor, k: Tensor, v: Tensor, result: Tensor, logarithms: Tensor, gradient: Tensor | None, of_logarithms: Tensor | None,
    score_mod: GraphModule, joint: GraphModule, block_mask: tuple, scale: float, _: dict[str, Any], of_score: tuple = (), of_mask: tuple = (),
) -> tuple[Tensor, Tensor, Tensor, tuple[None, ...]]:
    """The gradients of q, k and v, by what ``forward`` gave; ``joint`` gives that of a score by that of what ``score_mod`` makes of it.  None for those
    of captured tensors: where they are asked for, that is another operation.  CompileError for operands that torch broadcasts, and float64."""
    if k.shape[0] != q.shape[0] or {t.dtype for t in (k, v)} != {q.dtype} or q.dtype == torch.float64:
        raise CompileError("its operands are of other types or batches")
    products, seen, scores = _parts(q, k, score_mod, block_mask[-1], scale, of_score, of_mask, _kinds(block_mask, q.shape[2], k.shape[2]))
    totals = torch.where(logarithms == -math.inf, number_like(math.inf, logarithms), logarithms * math.log(2))
    weights = torch.exp(scores - totals.unsqueeze(-1))
    gradient = torch.zeros_like(result) if gradient is None else gradient

    def through(of_scores: Tensor) -> Tensor:
        if of_logarithms is not None:
            of_scores = of_scores + weights * (of_logarithms / math.log(2)).unsqueeze(-1)
        if _passes(joint):  # 0 where a score is not seen, as its weight is
            return of_scores
        numbers = [torch.arange(n, device=q.device) for n in products.shape]
        with _whole():
            back = over_scores(lambda *given: _Function(joint).run(*given)[0], prefix=(0,), suffix=(0, *(None,) * len(of_score)))
            of_products = back(products, *numbers, of_scores, *of_score)
        return torch.where(seen, of_products, number_like(0.0, of_products))

    return *gradients(gradient, q, k, v, result, weights, scale, through, _order), (None,) * len(of_score)


def _passes(joint: GraphModule) -> bool:
    """Whether the gradient of a score is that of what is made of it: where something is added to scores, or nothing done."""
    _score, _batch, _head, _query, _key, gradient, *_captured = (n for n in joint.graph.nodes if n.op == "placeholder")
    return joint.graph.output_node().args[0][0] is gradient


def lists(block_mask: tuple) -> tuple:
    """Of a mask's values those that say which blocks of keys each block of queries sees: how many, and their numbers; and the same of those of which
    all is seen."""
    return block_mask[2:6] if len(block_mask) > 6 else ()


def takes_lists(block_mask: tuple, q: Tensor, k: Tensor) -> bool:
    """Whether lists of these shapes are looked at: those of several blocks, that tiles of the kernel fit into, in a type that was timed."""
    queries, keys = q.shape[2], k.shape[2]
    if q.dtype not in (torch.bfloat16, torch.float16) and not settings().unmeasured:
        return False
    of_queries, of_keys = block_mask[-3:-1] if lists(block_mask) else (0, 0)
    given = [t for t in lists(block_mask) if t is not None]
    if len(given) not in (2, 4) or given != list(lists(block_mask)[:len(given)]) or of_queries % 64 or of_keys % 16 or not of_queries or not of_keys:
        return False
    blocks = -(-queries // of_queries), -(-keys // of_keys)
    fits = all(c.ndim == 3 and i.ndim == 4 and c.shape == i.shape[:3] and i.shape[2:] == blocks for c, i in zip(given[::2], given[1::2]))
    return fits and len({t.shape for t in given}) == 2 and blocks[1] > 1 and queries >= of_queries


def _kinds(block_mask: tuple, queries: int, keys: int) -> Tensor | None:
    """For each query and key [batch or 1, heads or 1, queries, keys] 0 in a block that is not listed, 2 in one that is listed as full, 1 in others; None
    where there are no lists."""
    found = lists(block_mask)
    if not any(t is not None for t in found):
        return None
    of_queries, of_keys = block_mask[-3:-1]
    blocks = found[1].shape[-1]
    numbers = torch.arange(blocks, device=found[0].device, dtype=torch.int32)
    listed = None
    for kind, (counts, indices) in enumerate((found[:2], found[2:]), 1):
        if counts is not None:
            there = (numbers < counts.unsqueeze(-1)).unsqueeze(-1) & (indices.unsqueeze(-1) == numbers)
            own = torch.where(there, torch.full_like(numbers, kind), torch.zeros_like(numbers))
            listed = own if listed is None else torch.maximum(listed, own)
    rows, columns = (
        torch.div(torch.arange(n, device=numbers.device), each, rounding_mode="trunc") for n, each in ((queries, of_queries), (keys, of_keys)))
    return listed.amax(-2)[:, :, rows.unsqueeze(-1), columns]


def _parts(
    q: Tensor, k: Tensor, score_mod: GraphModule, mask_mod: GraphModule, scale: float, of_score: tuple, of_mask: tuple, kinds: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The scaled products [batch, heads, queries, keys], which of them are seen, and the scores that are made of them."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    products = torch.matmul(q.to(wide), _repeated(k, q).to(wide).transpose(-2, -1)) * scale
    numbers = [torch.arange(n, device=q.device) for n in products.shape]
    with _whole():
        changed = over_scores(_Function(score_mod).run, prefix=(0,), suffix=(None,) * len(of_score))(products, *numbers, *of_score)
        seen = over_scores(_Function(mask_mod).run, prefix=(), suffix=(None,) * len(of_mask))(*numbers, *of_mask)
    hidden = number_like(-math.inf, products)
    if kinds is None:
        return products, seen, torch.where(seen, changed.to(wide), hidden)
    seen = (kinds == 2) | seen
    return products, seen & (kinds != 0), torch.where(kinds != 0, torch.where(seen, changed.to(wide), hidden), hidden)


def _repeated(t: Tensor, q: Tensor) -> Tensor:
    t = t.expand(q.shape[0], *t.shape[1:])
    return t if t.shape[1] == q.shape[1] else repeat_heads(t, q.shape[1] // t.shape[1])


def _order(q: Tensor) -> list[int]:
    """The order of dimensions of torch's result: the query's, but that rows of heads are contiguous."""
    return [*sorted(range(3), key=lambda i: -q.stride(i)), 3]


OPERATIONS = {torch.ops.higher_order.flex_attention: forward, torch.ops.higher_order.flex_attention_backward: backward}
"""What each operation is, by operations of torch's."""
