"""What torch's ``flex_attention`` computes, by plain operations: attention whose scores and masks are the user's functions of their numbers."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.nn.attention.flex_attention import _vmap_for_bhqkv as over_scores

from inferno.capture.decompositions.attention import in_order, repeat_heads


def forward(
    q: Tensor, k: Tensor, v: Tensor, score_mod: GraphModule, block_mask: tuple, scale: float, _: dict[str, Any],
    of_score: tuple = (), of_mask: tuple = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """The result [batch, heads, queries, width] and, for each row, the logarithm to the base of 2 of its sum of exponentials and its highest score
    by the same measure, as float32; a row that is masked altogether is 0, -inf and -inf.

    Of the mask only its function counts, as in eager: its blocks say where that is false, or true, for kernels that skip them.
    """
    scores = _scores(q, k, score_mod, block_mask[-1], scale, of_score, of_mask)
    highest = scores.amax(-1, keepdim=True)
    powers = torch.exp(scores - highest)
    sums = powers.sum(-1, keepdim=True)
    empty = highest == -math.inf
    weights = torch.where(empty, torch.zeros((), dtype=scores.dtype, device=q.device), powers / sums)
    totals = torch.where(empty, torch.full((), math.inf, dtype=scores.dtype, device=q.device), highest + torch.log(sums))
    totals = torch.where(totals == math.inf, torch.full((), -math.inf, dtype=scores.dtype, device=q.device), totals)
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
    """vmap raises RuntimeError for operations that it would call for one score after the other."""
    before = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        torch._C._functorch._set_vmap_fallback_enabled(before)


def _scores(
    q: Tensor, k: Tensor, score_mod: GraphModule, mask_mod: GraphModule, scale: float, of_score: tuple, of_mask: tuple,
) -> Tensor:
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    scores = torch.matmul(q.to(wide), _repeated(k, q).to(wide).transpose(-2, -1)) * scale
    numbers = [torch.arange(n, device=q.device) for n in scores.shape]
    with TransformGetItemToIndex(), _whole():
        changed = over_scores(_Function(score_mod).run, prefix=(0,), suffix=(None,) * len(of_score))(scores, *numbers, *of_score)
        seen = over_scores(_Function(mask_mod).run, prefix=(), suffix=(None,) * len(of_mask))(*numbers, *of_mask)
    return torch.where(seen, changed.to(wide), torch.full((), -math.inf, dtype=wide, device=q.device))


def _repeated(t: Tensor, q: Tensor) -> Tensor:
    t = t.expand(q.shape[0], *t.shape[1:])
    return t if t.shape[1] == q.shape[1] else repeat_heads(t, q.shape[1] // t.shape[1])


def _order(q: Tensor) -> list[int]:
    """The order of dimensions of torch's result: the query's, but that rows of heads are contiguous."""
    return [*sorted(range(3), key=lambda i: -q.stride(i)), 3]


OPERATIONS = {torch.ops.higher_order.flex_attention: forward}
"""What each operation is, by operations of torch's."""
