"""``inferno::attention``: attention that is trained, of which the backward keeps queries, keys, values, the result, and a number for each row.

After FlashAttention (Dao, Fu, Ermon, Rudra, Re, 2022): weights are computed again from the scores and the logarithm of their row's sum of
exponentials.  AOTAutograd differentiates the operation as a whole and knows nothing of what it is made of, so that this is what is kept;
``expand_attention`` puts plain operations in its place afterwards, in the forward and the backward apart.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inferno.capture.autocast import is_on
from inferno.capture.decompositions.attention import factor, in_order, masked, order_of, repeat_heads
from inferno.capture.devices import on_hopper
from inferno.capture.draws import SEEDS
from inferno.settings import settings

_LIBRARY = torch.library.Library("inferno", "FRAGMENT")
_HOW = "bool causal, float scale, Tensor? seed=None, float dropout=0.0"
_LIBRARY.define(f"attention(Tensor q, Tensor k, Tensor v, Tensor? mask, {_HOW}) -> (Tensor, Tensor)")
_LIBRARY.define(
    f"attention_backward(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor result, Tensor totals, {_HOW}) "
    "-> (Tensor, Tensor, Tensor)"
)
_LIBRARY.define(f"biased_attention(Tensor q, Tensor k, Tensor v, Tensor bias, {_HOW}) -> (Tensor, Tensor, Tensor)")
_LIBRARY.define(
    "biased_attention_backward(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor bias, Tensor result, Tensor largest, Tensor totals, "
    f"{_HOW}) -> (Tensor, Tensor, Tensor)"
)
_LIBRARY.define(
    "learned_attention_backward(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor bias, Tensor result, Tensor largest, Tensor totals, "
    f"{_HOW}) -> (Tensor, Tensor, Tensor, Tensor)"
)

# Columns of keys and values together of which the sums still have room in registers (see ``schedule/attention/attention_gradients.py``).
_WIDEST = 320
# Bytes of scores in float32 from which kernels for each length are worth compiling them.  Parts have five times as many at a time: at 16 heads of
# 8192 queries and keys, 4 GiB of scores, a training step took 20.8 GiB with parts on an H200, 0.2 GiB with kernels.
MANY_SCORES = 1 << 28
_NUMBERS = 1 << 16  # of which dropout draws one for each score


def trained_attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:
    """scaled_dot_product_attention as one operation where it is trained; NotImplemented where that is left to its parts.

    Those are float32, whose parts' backward is more exact; few scores of numbers that vary, whose parts are
    compiled once for all of them; heads for which there are no kernels that leave weights out of memory; and other machines than Hopper.

    Under autocast tensors are cast before, as torch casts this function's.

    Dropout's numbers are functions of a seed that torch's generator draws, and of the score's place, so that the backward has the same; they are not those that
    torch's own kernels draw.
    """
    if is_on(q.device.type):
        q, k, v, attn_mask = _cast(q, k, v, attn_mask)
    tensors = (q, k, v)
    if dropout_p and not _drops(q, k, attn_mask, dropout_p):
        return NotImplemented
    if not takes(q, k, v) or (q.shape[1] != k.shape[1] and not (enable_gqa and q.shape[1] % k.shape[1] == 0)):
        return NotImplemented
    if attn_mask is not None and not _is_mask(attn_mask, q, k):
        return NotImplemented
    if attn_mask is not None and attn_mask.requires_grad and is_causal:
        return NotImplemented  # of scores that a band hides kernels leave no gradients in memory
    if not has_kernels(q):
        return NotImplemented
    if _varies(*tensors, attn_mask) and 4 * math.prod(q.shape[:3]) * k.shape[2] < MANY_SCORES:  # a guard: more of them are another graph
        return NotImplemented
    biased = attn_mask is not None and attn_mask.dtype != torch.bool
    operation = torch.ops.inferno.biased_attention if biased else torch.ops.inferno.attention
    seed = torch.randint(SEEDS, (), device=q.device) if dropout_p else None
    with torch.autocast(q.device.type, enabled=False):  # what stands for it in tracing has float32 inside
        return operation(q, k, v, attn_mask, is_causal, factor(q, scale), seed, dropout_p)[0]


def left_to_torch(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, *_: Any, **__: Any) -> bool:
    """Whether torch's own kernels are to be in the place of the parts: of scores of numbers that vary, few enough for one graph for all of them, on a GPU, in
    16 bits.  (Of 2x16x1024x96 they take an H200 131 us forward and backward, and the parts 725.)"""
    if not torch.is_grad_enabled() or not any(t.requires_grad for t in (q, k, v)) or not on_hopper(q) or not _varies(q, k, v, attn_mask):
        return False
    dtype = torch.get_autocast_dtype(q.device.type) if is_on(q.device.type) else q.dtype
    return dtype in (torch.bfloat16, torch.float16)


def _varies(*tensors: Tensor | None) -> bool:
    return any(not isinstance(n, int) for t in tensors if t is not None for n in t.shape)


def takes(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether attention of these, which is trained, has kernels that leave weights out of memory, whatever the number of heads of keys."""
    tensors = (q, k, v)
    if not settings().attention or not torch.is_grad_enabled() or not any(t.requires_grad for t in tensors):
        return False
    if q.dtype not in (torch.bfloat16, torch.float16) or any(t.dim() != 4 or t.dtype != q.dtype or t.device != q.device for t in tensors):
        return False
    if any(not isinstance(n, int) for t in tensors for n in (t.shape[1], t.shape[3])) or 0 in (n for t in tensors for n in t.shape):
        return False
    if not (q.shape[0] == k.shape[0] == v.shape[0]) or k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        return False
    return not (q.shape[-1] % 8 or v.shape[-1] % 8 or q.shape[-1] + v.shape[-1] > _WIDEST)


def is_limit(dropout: float) -> bool:
    """Whether some of the numbers are kept, and some are not."""
    return 0 < dropout < 1 and 0 < _limit(dropout) < _NUMBERS


def _drops(q: Tensor, k: Tensor, mask: Tensor | None, dropout: float) -> bool:
    """Whether kernels drop weights: not where heads that share keys have a mask, or each head of each sequence has its own, which leave random numbers to a
    kernel of their own."""
    if not is_limit(dropout):
        return False
    return mask is None or (q.dim() == k.dim() == 4 and q.shape[1] == k.shape[1] and (mask.dim() < 4 or 1 in mask.shape[:2]))


def _is_mask(mask: Tensor, q: Tensor, k: Tensor) -> bool:
    """Whether torch takes it for scores of these, as far as sizes are numbers."""
    sizes = zip(reversed(mask.shape), (k.shape[2], q.shape[2], q.shape[1], q.shape[0]))
    if mask.dim() > 4 or mask.dtype not in (torch.bool, torch.float32, q.dtype):
        return False
    return all(own in (1, whole) for own, whole in sizes if isinstance(own, int) and isinstance(whole, int))


def has_kernels(q: Tensor) -> bool:
    """Whether there are kernels for the machine that a tensor is on.

    On an H200, forward and backward in bf16, all kernels, eager's, and products with scores in memory, in microseconds: 2x16x729x72 79, 105, 767;
    2x8x4096x40 522, 557, 4479; 2x8x1024x160 85, 151, 480; 4x8x512x48 30, 36, 184; 16x4x256x16 19, 27, 77; 16x16x24x32 12, 26, 27; 512 queries of
    20000 keys 333, 359, 1311; 4096 of 77 65, 133, 246; 1x8x16384x64 3513, 3963, 478798; beside masks 4x8x1024x40 103, 136, 575, a learned bias
    4x8x512x24 46, 133, 178; dropped 2x16x729x72 100, 158, 158."""
    return settings().unmeasured or on_hopper(q)


def _cast(*tensors: Tensor | None) -> list[Tensor | None]:
    """The same in autocast's type, but for what it leaves alone: float64, and what are no floats."""
    def cast(t: Tensor | None) -> Tensor | None:
        eligible = t is not None and t.is_floating_point() and t.dtype != torch.float64
        return t.to(torch.get_autocast_dtype(t.device.type)) if eligible else t

    return [cast(t) for t in tensors]


def forward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float, seed: Tensor | None = None, dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The result [batch, heads, queries, width] and, as float32 [batch, heads, queries], the logarithm of each row's sum of exponentials:
    infinity where the mask leaves no key, so that every weight is 0."""
    out, highest, logarithms, empty = _attend(q, k, v, mask, causal, scale, seed, dropout)
    totals = highest + logarithms
    return out, (totals if mask is None else _where(empty, math.inf, totals)).squeeze(-1)


def biased_forward(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, causal: bool, scale: float, seed: Tensor | None = None, dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result and, for each row, the largest score and the logarithm of the sum of exponentials of what scores are below it: beside a bias that
    hides all of a row's keys, though not with infinity, the sum of both would be the bias.  0 and infinity where no key is left."""
    out, highest, logarithms, empty = _attend(q, k, v, bias, causal, scale, seed, dropout)
    return out, _where(empty, 0.0, highest).squeeze(-1), _where(empty, math.inf, logarithms).squeeze(-1)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float, seed: Tensor | None, dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The result and, of each row, the largest score, the logarithm of the sum of exponentials below it, and whether there is no key."""
    scores = _scores(q, k, mask, causal, scale)
    highest = scores.amax(-1, keepdim=True)
    powers = torch.exp(scores - highest)
    sums, empty = powers.sum(-1, keepdim=True), highest == -math.inf
    weights = powers / sums if mask is None else _where(empty, 0.0, powers / sums)
    weights = weights if seed is None else weights * kept(scores, seed, dropout)
    out = torch.matmul(weights.to(q.dtype).float(), _repeated(v, q).float()).to(q.dtype)
    return in_order(out, order_of(q)), highest, torch.log(sums), empty


def kept(scores: Tensor, seed: Tensor, dropout: float) -> Tensor:
    """By what the weight of each score is multiplied: 0 where it is dropped, else so much that the mean over seeds is 1.  The probability is ``dropout`` to
    2^-17."""
    limit = _limit(dropout)
    numbers = torch.ops.inferno.score_numbers(seed, list(scores.shape))
    return torch.where(numbers < limit, torch.full((), _NUMBERS / limit, dtype=scores.dtype, device=scores.device), 0.0)


def _limit(dropout: float) -> int:
    """How many of the numbers are kept."""
    return round((1 - dropout) * _NUMBERS)


def backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, result: Tensor, totals: Tensor, causal: bool, scale: float,
    seed: Tensor | None = None, dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, each in memory as its tensor.  What goes into a product is rounded to the type of the tensors, as torch's
    kernels do."""
    weights = torch.exp(_scores(q, k, mask, causal, scale) - totals.unsqueeze(-1))
    return gradients(gradient, q, k, v, result, weights, scale, kept=None if seed is None else kept(weights, seed, dropout))


def biased_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, result: Tensor, largest: Tensor, totals: Tensor, causal: bool, scale: float,
    seed: Tensor | None = None, dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """As ``backward``, of what ``biased_forward`` gives."""
    weights = torch.exp(_scores(q, k, bias, causal, scale) - largest.unsqueeze(-1) - totals.unsqueeze(-1))
    return gradients(gradient, q, k, v, result, weights, scale, kept=None if seed is None else kept(weights, seed, dropout))


def learned_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, result: Tensor, largest: Tensor, totals: Tensor, causal: bool, scale: float,
    seed: Tensor | None = None, dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As ``biased_backward``, and the gradient of the bias: those of scores, rounded as for the products, summed in float32 over what it is broadcast
    over."""
    weights = torch.exp(_scores(q, k, bias, causal, scale) - largest.unsqueeze(-1) - totals.unsqueeze(-1))
    kept_ = None if seed is None else kept(weights, seed, dropout)
    *found, of_scores = score_gradients(gradient, q, k, v, result, weights, scale, kept=kept_)
    return *found, summed_like(of_scores, bias)


def summed_like(of_scores: Tensor, bias: Tensor) -> Tensor:
    """The gradient of what was broadcast to scores and added: theirs, summed in float32."""
    missing = of_scores.dim() - bias.dim()
    over = [d for d, n in enumerate(of_scores.shape) if n != 1 and (d < missing or bias.shape[d - missing] == 1)]
    of_bias = of_scores.float().sum(over, keepdim=True) if over else of_scores
    return of_bias.reshape(bias.shape).to(bias.dtype)


def gradients(*given: Any, **more: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, as ``score_gradients`` has them."""
    return score_gradients(*given, **more)[:3]


def score_gradients(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, result: Tensor, weights: Tensor, scale: float,
    through: Callable[[Tensor], Tensor] = lambda of_scores: of_scores, order: Callable[[Tensor], list[int]] = order_of, kept: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, and of scores in their type, given the weights as float32.  ``through``: the gradients of scaled products by those of
    the scores that are made of them.  ``order`` gives the order of a gradient's dimensions in memory by its tensor.  ``kept``: by what weights were
    multiplied."""
    (batch, shared), dtype = k.shape[:2], q.dtype
    means = (gradient.float() * result.float()).sum(-1, keepdim=True)
    of_weights = torch.matmul(gradient.float(), _repeated(v, q).float().transpose(-2, -1))
    of_weights = of_weights if kept is None else of_weights * kept
    of_scores = through(weights * (of_weights - means)).to(dtype)

    def summed(weights: Tensor, values: Tensor) -> Tensor:
        """Over all queries of the heads that share a key."""
        together = [t.reshape(batch, shared, -1, t.shape[-1]) for t in (weights, values)]
        return torch.matmul(together[0].float().transpose(-2, -1), together[1].float())

    of_q = torch.matmul(of_scores.float(), _repeated(k, q).float()) * scale
    of_k = summed(of_scores, q) * scale
    of_v = summed((weights if kept is None else weights * kept).to(dtype), gradient)
    return in_order(of_q.to(dtype), order(q)), in_order(of_k.to(dtype), order(k)), in_order(of_v.to(dtype), order(v)), of_scores


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    scores = torch.matmul(q.float(), _repeated(k, q).float().transpose(-2, -1)) * scale
    if mask is None or mask.dtype == torch.bool:
        return masked(scores, mask, causal)
    return masked(scores, None, causal) + mask.float()


def _where(condition: Tensor, number: float, other: Tensor) -> Tensor:
    return torch.where(condition, torch.full((), number, dtype=other.dtype, device=other.device), other)


def _repeated(t: Tensor, q: Tensor) -> Tensor:
    return t if t.shape[1] == q.shape[1] else repeat_heads(t, q.shape[1] // t.shape[1])


def _setup(ctx: Any, inputs: tuple, output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.causal, ctx.scale, seed, ctx.dropout = inputs
    ctx.save_for_backward(seed, *tensors, *output)
    ctx.mark_non_differentiable(*output[1:])


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple:
    seed, *given = ctx.saved_tensors
    how = (ctx.causal, ctx.scale, seed, ctx.dropout)
    if ctx.needs_input_grad[3]:
        return (*torch.ops.inferno.learned_attention_backward(gradient, *given, *how), None, None, None, None)
    operation = torch.ops.inferno.attention_backward if len(given) == 6 else torch.ops.inferno.biased_attention_backward
    return (*operation(gradient, *given, *how), None, None, None, None, None)


MASKED = {torch.ops.inferno.attention.default: (3,), torch.ops.inferno.biased_attention.default: (3,)}
"""Of each forward the numbers of the operands that are masks."""
OPERATIONS = {
    torch.ops.inferno.attention.default: forward, torch.ops.inferno.biased_attention.default: biased_forward,
    torch.ops.inferno.attention_backward.default: backward, torch.ops.inferno.biased_attention_backward.default: biased_backward,
    torch.ops.inferno.learned_attention_backward.default: learned_backward,
}
"""What each operation is, by operations of torch's."""

for _operation, _function in OPERATIONS.items():
    _LIBRARY.impl(_operation._opname, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(_operation.name(), _function, lib=_LIBRARY)
for _operation in MASKED:
    torch.library.register_autograd(_operation.name().partition(".")[0], _differentiate, setup_context=_setup, lib=_LIBRARY)
