"""Attention that a program writes by hand, where it is trained, as fused kernels: against float64, that every launch gives the same bits, rows of which all is
hidden, dropout, and how much memory a step takes."""

import pytest
import torch
from by_hand_cases import cases, dropped, least, nano, step, triangle
from on_gpu import on_hopper

from inferno.capture import trained_attention
from inferno.capture.draws import SEEDS

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("unmeasured"),
]


def compiled(function):
    return torch.compile(function, backend="inferno", fullgraph=True, options={"fallback": False})


def chosen(generators) -> bool:
    """Whether the forward is one kernel of attention, and the backward one or two of its gradients, by the estimates."""
    forward, backward = (sum(f'"{name}"' in s for s in generators) for name in ("attention", "attention_gradients"))
    return forward == 1 and backward in (1, 2)


@pytest.mark.parametrize("batch, heads, length, size, dtype", [
    (2, 4, 512, 64, torch.bfloat16), (1, 4, 1024, 128, torch.bfloat16), (2, 4, 640, 64, torch.float16),
    (2, 4, 336, 96, torch.bfloat16), (2, 4, 72, 128, torch.float16),
])
@pytest.mark.parametrize("name", cases(1, 2, 8, 8))
def test_gradients(name, batch, heads, length, size, dtype, generators):
    function, args, trained = cases(batch, heads, length, size, dtype)[name]
    args, fast = [a.cuda() for a in args], compiled(function)
    ours, again, plain, exact = (
        step(f, args, t, trained) for f, t in ((fast, dtype), (fast, dtype), (function, dtype), (function, torch.float64)))
    for mine, other, theirs, double in zip(ours, again, plain, exact, strict=True):
        error = (theirs.double() - double).norm()
        bound = max(1.5 * error if error.isfinite() else 0, torch.finfo(dtype).eps * double.norm())
        assert (mine.double() - double).norm() <= bound and torch.equal(mine, other)
    assert chosen(generators)


@pytest.mark.parametrize("size", [64, 128])
def test_rows_without_keys(size, generators):
    """By -inf they are no numbers, and so are the gradients that eager has none of."""
    _, (*qkv, buffer), _ = cases(2, 4, 512, size)["nano"]
    buffer[:, :, 3], buffer[:, :, 200:300] = 0, 0
    args = [a.cuda() for a in (*qkv, buffer)]
    ours, plain = (step(f, args, torch.bfloat16, 3) for f in (compiled(nano), nano))
    assert plain[0][:, :, 3].isnan().all() and chosen(generators)
    for mine, theirs in zip(ours, plain):
        assert torch.equal(mine.isnan(), theirs.isnan()) and (mine - theirs).nan_to_num().float().norm() <= 0.02 * theirs.nan_to_num().float().norm()


@pytest.mark.parametrize("length, size", [(512, 64), (1024, 128), (333, 64)])
def test_dropout(length, size, generators):
    q, k, v, gradient = (torch.randn(2, 4, length, size, device="cuda").bfloat16() for _ in range(4))
    mask, fast, steps = least(2, 1, length, length).cuda(), compiled(dropped), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        out = fast(*leaves, mask)
        steps.append([out.detach(), *torch.autograd.grad(out, leaves, gradient)])
    assert all(map(torch.equal, steps[0], steps[1])) and not torch.equal(steps[0][0], steps[2][0]) and chosen(generators)
    torch.manual_seed(1)
    seed = torch.randint(SEEDS, (1, 2), device="cuda")[0, 0]
    kept = trained_attention.kept(torch.empty(2, 4, length, length, device="cuda"), seed, 0.25).double()

    def by_parts(dtype):
        leaves = [t.detach().to(dtype).requires_grad_() for t in (q, k, v)]
        weights = torch.softmax(leaves[0] @ leaves[1].mT * 0.25 + mask.to(dtype), -1, dtype=torch.promote_types(dtype, torch.float32))
        out = (weights * kept).to(dtype) @ leaves[2]
        return [out.detach(), *torch.autograd.grad(out, leaves, gradient.to(dtype))]

    for mine, theirs, double in zip(steps[0], by_parts(torch.bfloat16), by_parts(torch.float64)):
        bound = max(1.5 * (theirs.double() - double).norm(), torch.finfo(torch.bfloat16).eps * double.norm())
        assert (mine.double() - double).norm() <= bound


def test_memory():
    """Scores are in memory at no time, but for their gradients, once."""
    fast = compiled(triangle)
    given = [torch.randn(1, 16, 4096, 64, device="cuda").bfloat16().requires_grad_() for _ in range(3)]
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        fast(*given).sum().backward()
    assert torch.cuda.max_memory_allocated() - before < 1.5 * 2 * 16 * 4096**2
