"""``inferno::scored_attention``: attention that a program writes by hand, where it is trained (see ``attention_by_hand``).

As ``inferno::attention``, of which it keeps as little for the backward, but with what softmax itself says of a row of which all is hidden: NaN where it is by
-inf, the same weight for each key where it is by another number.  So the backward has each row's largest score and the logarithm of the sum of exponentials
below it, which in one number would be the hidden score alone.
"""

import math
from typing import Any

import torch
from torch import Tensor

from inferno.capture.autocast import is_on
from inferno.capture.dimensions import number_like
from inferno.capture.draws import SEEDS
from inferno.capture.trained_attention import is_limit, kept, score_gradients, summed_like, takes

_LIBRARY = torch.library.Library("inferno", "FRAGMENT")
_OPERANDS = "Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? seen"
_HOW = "float hidden, float scale, Tensor? seed=None, float dropout=0.0"
_LIBRARY.define(f"scored_attention({_OPERANDS}, {_HOW}) -> (Tensor, Tensor, Tensor)")
_KEPT = "Tensor result, Tensor largest, Tensor totals"
_LIBRARY.define(f"scored_attention_backward(Tensor gradient, {_OPERANDS}, {_KEPT}, {_HOW}) -> (Tensor, Tensor, Tensor)")
_LIBRARY.define(f"scored_attention_learned_backward(Tensor gradient, {_OPERANDS}, {_KEPT}, {_HOW}) -> (Tensor, Tensor, Tensor, Tensor)")


def scored_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seen: Tensor | None, hidden: float, scale: float, dropout: float,
) -> Tensor:
    """softmax of ``scale`` q k^T, in whose place is ``hidden`` where ``seen`` is false, + ``bias``, dropped out, times v; NotImplemented where that is left to
    its parts.

    q, k and v have four dimensions and as many heads, bias and seen are broadcast.  The result is contiguous, as a product is.  Dropout's numbers are those of
    ``trained_attention``.
    """
    if is_on(q.device.type):
        return NotImplemented  # each step is cast by itself
    if not takes(q, k, v) or k.shape[1] != q.shape[1] or not 0 < scale < math.inf or (dropout and not is_limit(dropout)):
        return NotImplemented
    if dropout and any(t is not None and t.dim() == 4 and 1 not in t.shape[:2] for t in (bias, seen)):
        return NotImplemented  # kernels have no room for that beside random numbers
    if bias is not None and bias.requires_grad:
        # Of scores that a band hides, of lines of any length, and in float32 kernels leave no gradients in memory.
        whole = bias.numel() == math.prod(q.shape[:3]) * k.shape[2]
        if (seen is not None and hidden == -math.inf) or k.shape[2] % 8 or (whole and bias.dtype != q.dtype):
            return NotImplemented
    seed = torch.randint(SEEDS, (), device=q.device) if dropout else None
    return torch.ops.inferno.scored_attention(q, k, v, bias, seen, hidden, scale, seed, dropout)[0]


def forward(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seen: Tensor | None, hidden: float, scale: float,
    seed: Tensor | None = None, dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result [batch, heads, queries, width] and, as float32 [batch, heads, queries], each row's largest score and the logarithm of its sum of exponentials
    of what scores are below that."""
    scores = _scores(q, k, bias, seen, hidden, scale)
    highest = scores.amax(-1, keepdim=True)
    powers = torch.exp(scores - highest)
    sums = powers.sum(-1, keepdim=True)
    weights = powers / sums
    weights = weights if seed is None else weights * kept(scores, seed, dropout)
    out = torch.matmul(weights.to(q.dtype).float(), v.float()).to(q.dtype)
    # The choice changes nothing; it is what is computed of rows beside the result, as their logarithms are.
    highest = torch.where(highest == -math.inf, number_like(-math.inf, highest), highest)
    return out, highest.squeeze(-1), torch.log(sums).squeeze(-1)


def backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seen: Tensor | None, result: Tensor, largest: Tensor, totals: Tensor,
    hidden: float, scale: float, seed: Tensor | None = None, dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, each in memory as its tensor."""
    return _gradients(gradient, q, k, v, bias, seen, result, largest, totals, hidden, scale, seed, dropout)[:3]


def learned_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seen: Tensor | None, result: Tensor, largest: Tensor, totals: Tensor,
    hidden: float, scale: float, seed: Tensor | None = None, dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same, and that of the bias, of which scores are summed over what it is broadcast over."""
    *found, of_scores = _gradients(gradient, q, k, v, bias, seen, result, largest, totals, hidden, scale, seed, dropout)
    return *found, summed_like(of_scores, bias)


def _gradients(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seen: Tensor | None, result: Tensor, largest: Tensor, totals: Tensor,
    hidden: float, scale: float, seed: Tensor | None, dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scores = _scores(q, k, bias, seen, hidden, scale)
    weights = torch.exp(scores - largest.unsqueeze(-1) - totals.unsqueeze(-1))

    def through(of_scores: Tensor) -> Tensor:
        return of_scores if seen is None else torch.where(seen, of_scores, number_like(0.0, of_scores))

    dropped = None if seed is None else kept(weights, seed, dropout)
    return score_gradients(gradient, q, k, v, result, weights, scale, through, kept=dropped)


def _scores(q: Tensor, k: Tensor, bias: Tensor | None, seen: Tensor | None, hidden: float, scale: float) -> Tensor:
    scores = torch.matmul(q.float(), k.float().transpose(-2, -1)) * scale
    scores = scores if seen is None else torch.where(seen, scores, number_like(hidden, scores))
    return scores if bias is None else scores + bias.float()


def _setup(ctx: Any, inputs: tuple, output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.hidden, ctx.scale, seed, ctx.dropout = inputs
    ctx.save_for_backward(seed, *tensors, *output)
    ctx.mark_non_differentiable(*output[1:])


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple:
    seed, *given = ctx.saved_tensors
    how = (ctx.hidden, ctx.scale, seed, ctx.dropout)
    if ctx.needs_input_grad[3]:
        return (*torch.ops.inferno.scored_attention_learned_backward(gradient, *given, *how), *[None] * 5)
    return (*torch.ops.inferno.scored_attention_backward(gradient, *given, *how), *[None] * 6)


MASKED = {torch.ops.inferno.scored_attention.default: (3, 4)}
"""Of the forward the numbers of the operands that are masks."""
OPERATIONS = {
    torch.ops.inferno.scored_attention.default: forward, torch.ops.inferno.scored_attention_backward.default: backward,
    torch.ops.inferno.scored_attention_learned_backward.default: learned_backward,
}
"""What each operation is, by operations of torch's."""

for _operation, _function in OPERATIONS.items():
    _LIBRARY.impl(_operation._opname, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(_operation.name(), _function, lib=_LIBRARY)
torch.library.register_autograd("inferno::scored_attention", _differentiate, setup_context=_setup, lib=_LIBRARY)
