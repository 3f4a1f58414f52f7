"""Attention with dropout that is trained, as fused kernels: against float64 with the same numbers, and that a seed decides all of them."""

import pytest
import torch
from on_gpu import on_hopper
from torch import nn

from inferno.capture import trained_attention
from inferno.capture.draws import SEEDS

F = nn.functional

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("unmeasured"),
]


def compiled(dropout, causal):
    def model(q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, enable_gqa=True)

    return torch.compile(model, backend="inferno", fullgraph=True, options={"fallback": False})


def step(function, leaves, gradient, mask, seed):
    torch.manual_seed(seed)
    out = function(*leaves, *(() if mask is None else (mask,)))
    return [out.detach(), *torch.autograd.grad(out, leaves, gradient)]


def with_numbers(leaves, mask, causal, kept, dtype):
    q, k, v = (t.repeat_interleave(leaves[0].shape[1] // t.shape[1], 1) for t in leaves)
    scores = (q @ k.mT).double() * q.shape[-1]**-0.5
    scores = scores if mask is None else scores + mask.double()
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool, device="cuda").tril(), -torch.inf)
    return (scores.softmax(-1) * kept).to(dtype) @ v


@pytest.mark.parametrize("size, queries, keys, heads, shared, causal, dropout, dtype", [
    (64, 512, 512, 4, 4, True, 0.1, torch.bfloat16), (128, 512, 512, 4, 2, True, 0.5, torch.float16), (64, 333, 333, 6, 2, False, 0.1, torch.bfloat16),
    (128, 777, 200, 4, 4, False, 0.3, torch.bfloat16), (96, 130, 190, 2, 2, True, 0.2, torch.bfloat16),
])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients(size, queries, keys, heads, shared, causal, dropout, dtype, masked, generators, monkeypatch):
    if queries == keys == 512:
        monkeypatch.delenv("INFERNO_UNMEASURED")  # what was timed is chosen by itself
    if masked and (causal or heads != shared):
        pytest.skip("torch takes one of both" if causal else "left to torch")
    torch.manual_seed(0)
    shapes = [(2, heads, queries, size), *[(2, shared, keys, size)] * 2]
    leaves = [torch.randn(s, device="cuda").to(dtype).requires_grad_() for s in shapes]
    gradient = torch.randn(shapes[0], device="cuda").to(dtype)
    mask = torch.randn(2, 1, queries, keys, device="cuda").to(dtype) if masked else None
    fast = compiled(dropout, causal)
    ours, again, other = (step(fast, leaves, gradient, mask, seed) for seed in (1, 1, 2))
    assert all(map(torch.equal, ours, again)) and not torch.equal(ours[0], other[0])
    torch.manual_seed(1)
    seed = torch.randint(SEEDS, (1, 2), device="cuda")[0, 0]
    kept = trained_attention.kept(torch.empty(2, heads, queries, keys, device="cuda"), seed, dropout).double()
    assert abs((kept == 0).double().mean() - dropout) < 0.005 and abs(kept.mean() - 1) < 0.01
    wide = [t.detach().double().requires_grad_() for t in leaves]
    exact, plain = with_numbers(wide, mask, causal, kept, torch.float64), with_numbers(leaves, mask, causal, kept, dtype)
    wanted = [exact.detach(), *torch.autograd.grad(exact, wide, gradient.double())]
    for mine, theirs, right in zip(ours, [plain.detach(), *torch.autograd.grad(plain, leaves, gradient)], wanted):
        assert (mine.double() - right).norm() <= max(1.5 * (theirs.double() - right).norm(), torch.finfo(dtype).eps * right.norm())
    assert sum('"attention"' in s for s in generators) == 1 and sum('"attention_gradients"' in s for s in generators) in (1, 2)
