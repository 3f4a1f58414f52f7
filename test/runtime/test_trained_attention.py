"""Attention that is trained as one operation: its gradients through ``torch.compile`` on the CPU, and what it keeps for its backward."""

import functools
import math

import pytest
import torch
from benchmarks.memory import measure
from torch import nn
from torch.utils.checkpoint import checkpoint

from inferno.capture import trained_attention as trained
from inferno.capture.specialise import varies
from inferno.capture.trained_attention import trained_attention
from inferno.runtime.region import backend

F = nn.functional
pytestmark = pytest.mark.usefixtures("unmeasured")


def causal(q, k, v, attention=F.scaled_dot_product_attention):
    return attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True, enable_gqa=True).transpose(1, 2)


def masked(q, k, v, mask, attention=F.scaled_dot_product_attention):
    return attention(q, k, v, attn_mask=mask, scale=0.3)


def some_keys():
    mask = torch.rand(2, 1, 12, 18) > 0.4
    mask[0, 0, 3] = False
    return mask


def numbers():
    return torch.randn(1, 4, 12, 18).masked_fill(torch.rand(1, 1, 12, 18) > 0.6, torch.finfo(torch.float32).min).bfloat16()


def step(function, args, dtype):
    given = [a.detach().to(dtype).requires_grad_(n < 3) if a.is_floating_point() else a for n, a in enumerate(args)]
    out = function(*given)
    (out * torch.linspace(-1, 1, out.numel(), dtype=dtype).view(out.shape)).sum().backward()
    return [out.detach(), *(a.grad for a in given if a.requires_grad)]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("function, shapes, more", [
    (causal, [(2, 12, 4, 16), (2, 18, 2, 16), (2, 18, 2, 8)], ()), (masked, [(2, 4, 12, 16), (2, 4, 18, 16), (2, 4, 18, 16)], (some_keys,)),
    (masked, [(2, 4, 12, 16), (2, 4, 18, 16), (2, 4, 18, 16)], (numbers,)),
], ids=["causal", "masked", "numbers"])
def test_gradients(function, shapes, more):
    args = [*(torch.randn(s).bfloat16() for s in shapes), *(m() for m in more)]
    fast = torch.compile(function, backend="inferno", fullgraph=True, options={"fallback": False})
    by_parts = functools.partial(function, attention=trained_attention)
    for ours, plain, exact in zip(*(step(f, args, t) for f, t in ((fast, torch.bfloat16), (by_parts, torch.bfloat16), (function, torch.float64)))):
        bound = max(1.5 * (plain.double() - exact).norm(), torch.finfo(torch.bfloat16).eps * exact.norm())
        assert ours.dtype == plain.dtype and (ours.double() - exact).norm() <= bound


def learned(q, k, v, bias, attention=F.scaled_dot_product_attention):
    return attention(q, k, v, attn_mask=bias, enable_gqa=True)


def learned_step(function, args, dtype):
    given = [a.detach().to(dtype).requires_grad_() for a in args]
    out = function(*given)
    (out * torch.linspace(-1, 1, out.numel(), dtype=dtype).view(out.shape)).sum().backward()
    return [a.grad for a in given]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("shape", [(1, 4, 12, 18), (12, 18), (2, 1, 1, 18), (2, 4, 12, 18)])
def test_a_learned_bias(shape):
    """Its gradient is summed over what it is broadcast over."""
    args = [torch.randn(s).bfloat16() for s in ((2, 4, 12, 16), (2, 2, 18, 16), (2, 2, 18, 8), shape)]
    functions = [functools.partial(learned, attention=trained_attention)]
    if len(shape) == 2:
        functions.append(torch.compile(learned, backend="inferno", fullgraph=True, options={"fallback": False}))
    exact = learned_step(learned, args, torch.float64)
    for function in functions:
        for mine, double in zip(learned_step(function, args, torch.bfloat16), exact):
            assert mine.shape == double.shape and (mine.double() - double).norm() <= 2 * torch.finfo(torch.bfloat16).eps * double.norm()


def test_a_learned_bias_is_asked_for(monkeypatch):
    q, bias = torch.randn(1, 2, 8, 8).bfloat16().requires_grad_(), torch.randn(8, 8).requires_grad_()
    assert isinstance(trained_attention(q, q, q, bias), torch.Tensor)
    assert trained_attention(q, q, q, bias, is_causal=True) is NotImplemented
    monkeypatch.delenv("INFERNO_UNMEASURED")
    assert trained_attention(q, q, q, bias) is NotImplemented


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192, dtype=torch.bfloat16)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def dropped(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.25, is_causal=True)


def dropped_twice(q, k, v):
    return torch.cat([dropped(q, k, v), checkpoint(dropped, q.sin(), k, v, use_reentrant=False), dropped(q.cos(), k, v)])


@pytest.mark.thorough
def test_dropout():
    """The forward and the backward draw alike, which a seed decides, and so does what is checkpointed: values of one each give the weights."""
    fast = torch.compile(dropped_twice, backend="inferno", fullgraph=True)
    q, k = (torch.randn(2, 2, 32, 32).bfloat16() for _ in range(2))
    gradient = torch.randn(6, 2, 32, 32).bfloat16()
    v = torch.eye(32).expand(2, 2, 32, 32).bfloat16()
    steps = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        given = [t.clone().requires_grad_() for t in (q, k, v)]
        weights = fast(*given)
        weights.backward(gradient)
        steps.append([weights.detach(), *(t.grad for t in given)])
    assert all(map(torch.equal, steps[0], steps[1])) and not torch.equal(steps[0][0], steps[2][0])
    weights, *gradients = (t.double() for t in steps[0])
    leaves = [t.double().requires_grad_() for t in (q, k, v)]
    scores = torch.cat([leaves[0], leaves[0].sin(), leaves[0].cos()]) @ leaves[1].mT.repeat(3, 1, 1, 1) * 32**-0.5
    plain = scores.masked_fill(~torch.ones(32, 32, dtype=torch.bool).tril(), -torch.inf).softmax(-1)
    scales = weights / plain.detach().clamp(min=1e-9)
    kept = weights > 0
    assert 0.7 < kept.double().sum() / plain.count_nonzero() < 0.8 and torch.allclose(scales[kept], torch.tensor(4 / 3).double(), rtol=0.01)
    wanted = torch.autograd.grad((plain * kept * 4 / 3) @ leaves[2].repeat(3, 1, 1, 1), leaves, gradient.double())
    for mine, exact in zip(gradients, wanted):
        assert (mine - exact).norm() <= 1.5 * torch.finfo(torch.bfloat16).eps * exact.norm()


@pytest.mark.thorough
def test_what_is_kept():
    x = torch.randn(2, 256, 64, dtype=torch.bfloat16)
    kept = measure(Attention(), lambda call: call(x).float().square().mean(), "cpu").kept
    # Input, queries, keys, values and result, as the loss has it too, and a number for each row; scores are 16 times a tensor and more.
    assert kept < 8 * x.nbytes


def window(q, k, v, keys):
    n = torch.arange(q.shape[2])
    near = (n[:, None] >= n) & (n[:, None] - n < 5)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=near & keys[:, None, None])


@pytest.mark.thorough
def test_masks_made_of_little_are_made_again(monkeypatch):
    built, build_region = [], backend.build_region
    monkeypatch.setattr(backend, "build_region", lambda graph, *args, **more: built.append(graph) or build_region(graph, *args, **more))
    args = (*(torch.randn(2, 2, 24, 16).bfloat16() for _ in range(3)), torch.ones(2, 24, dtype=torch.bool))
    step(torch.compile(window, backend="inferno", fullgraph=True, options={"fallback": False}), args, torch.bfloat16)
    kept = [n.meta["val"] for n in built[1].nodes if n.op == "placeholder"]
    assert len(built) == 2 and [tuple(t.shape) for t in kept if not t.is_floating_point()] == [(2, 24)]


@pytest.mark.thorough
def test_lengths_that_vary(monkeypatch):
    """Few scores are parts for every length; many are kernels for each, which leave them out of memory."""
    built, build_region = [], backend.build_region
    monkeypatch.setattr(backend, "build_region", lambda graph, *args, **more: built.append(graph) or build_region(graph, *args, **more))
    monkeypatch.setattr(trained, "MANY_SCORES", 4 * 4 * 40 * 40)
    model = Attention()
    fast = torch.compile(model, backend="inferno", fullgraph=True, dynamic=True, options={"fallback": False})
    for length, regions, any_length in ((39, 2, True), (23, 0, False), (40, 2, False), (40, 0, False)):
        x = torch.randn(1, length, 64).bfloat16()
        built.clear()
        for ours, plain in zip(step(fast, (x,), torch.bfloat16), step(model, (x,), torch.bfloat16)):
            assert (ours.float() - plain.float()).norm() <= 0.01 * plain.float().norm()
        assert [varies(torch.fx.GraphModule({}, g)) for g in built] == [any_length] * regions


@pytest.mark.thorough
def test_lengths_that_vary_on_a_gpu(monkeypatch):
    """Few scores are torch's own kernels, in one graph for all lengths."""
    monkeypatch.setattr(trained, "on_hopper", lambda tensor: True)
    regions, compile_graph = [], backend.compile_graph
    monkeypatch.setattr(backend, "compile_graph", lambda *args, **more: regions.append(compile_graph(*args, **more)) or regions[-1])
    model = Attention()
    fast = torch.compile(model, backend="inferno", fullgraph=True, dynamic=True)
    for length in (39, 23, 40):
        x = torch.randn(1, length, 64).bfloat16()
        for ours, plain in zip(step(fast, (x,), torch.bfloat16), step(model, (x,), torch.bfloat16)):
            assert (ours.float() - plain.float()).norm() <= 0.01 * plain.float().norm()
    assert ["_scaled_dot_product" in f.target for r in regions for f in r.fallbacks] == [True, True]


@pytest.mark.parametrize("change", [
    None, "off", "float32", "no gradient", "a mask of integers", "a mask of others",
    "all dropped", "dropped beside a mask of heads", "other heads", "wide",
])
def test_left_to_its_parts(monkeypatch, change):
    if change == "off":
        monkeypatch.setenv("INFERNO_UNMEASURED", "0")
    dtype = torch.float32 if change == "float32" else torch.bfloat16
    q = torch.randn(1, 4, 8, 192 if change == "wide" else 16, dtype=dtype, requires_grad=change != "no gradient")
    mask = torch.zeros(8, 8, dtype=torch.int32) if change == "a mask of integers" else None
    mask = torch.ones(2, 1, 8, 8, dtype=torch.bool) if change == "a mask of others" else mask
    mask = torch.ones(1, 4, 8, 8).bool().expand(3, 4, 8, 8) if change == "dropped beside a mask of heads" else mask
    q = q.expand(3, -1, -1, -1) if change == "dropped beside a mask of heads" else q
    k = q[:, :2] if change == "other heads" else q
    found = trained_attention(q, k, k, attn_mask=mask, dropout_p={"all dropped": 1.0, "dropped beside a mask of heads": 0.5}.get(change, 0.0))
    assert (found is NotImplemented) == (change is not None)


@pytest.mark.parametrize("hopper", [True, False])
@pytest.mark.parametrize("queries, keys, size", [(1024, 1024, 128), (40, 40, 72), (9, 300, 16), (300, 9, 160)])
def test_where_there_are_kernels(monkeypatch, hopper, queries, keys, size):
    monkeypatch.delenv("INFERNO_UNMEASURED")
    monkeypatch.setattr(trained, "on_hopper", lambda q: hopper)
    q, k = (torch.empty(1, 4, n, size, dtype=torch.bfloat16, requires_grad=True) for n in (queries, keys))
    for more in ({}, {"attn_mask": torch.ones(queries, keys, dtype=torch.bool)}, {"dropout_p": 0.1}):
        assert (trained_attention(q, k, k, **more) is NotImplemented) != hopper


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("masked", [False, True])
def test_autocast(monkeypatch, masked):
    """Tensors are cast before, as torch casts them, and so are numbers that are added."""
    taken, takes = [], trained.takes
    monkeypatch.setattr(trained, "takes", lambda q, k, v: taken.append((q.dtype, takes(q, k, v))) or taken[-1][1])

    def function(q, k, v, mask):
        with torch.autocast("cpu", torch.bfloat16, enabled=q.dtype == torch.float32):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask if masked else None)

    args = [torch.randn(2, 3, n, 16) for n in (12, 18, 18)] + [torch.randn(12, 18)]
    fast = torch.compile(function, backend="inferno", fullgraph=True, options={"fallback": False})
    for ours, plain, exact in zip(step(fast, args, torch.float32), step(function, args, torch.float32), step(function, args, torch.float64)):
        bound = max(1.5 * (plain.double() - exact).norm(), torch.finfo(torch.bfloat16).eps * exact.norm())
        assert ours.dtype == plain.dtype and (ours.double() - exact).norm() <= bound
    assert set(taken) == {(torch.bfloat16, True)}


@pytest.mark.parametrize("trained", [True, False])
def test_arguments_by_their_names(trained):
    q, k, v = (torch.randn(2, 3, n, 16).bfloat16().requires_grad_(trained) for n in (12, 18, 18))
    function = lambda q, k, v: F.scaled_dot_product_attention(query=q, key=k, value=v, attn_mask=None, dropout_p=0.0, scale=0.2)  # noqa: E731
    found, plain = torch.compile(function, backend="inferno", fullgraph=True)(q, k, v), function(q, k, v)
    assert (found.float() - plain.float()).norm() <= 0.01 * plain.float().norm()


HIDING = [torch.zeros(5, 5, dtype=torch.bool), torch.full((5, 5), -math.inf), torch.zeros(5, 5).index_fill(0, torch.tensor([1]), -math.inf)]


@pytest.mark.covering
@pytest.mark.parametrize("mask", HIDING, ids=["bools", "all", "a row"])
def test_rows_that_a_mask_hides(mask):
    """Their gradients are 0 by its parts, too, where minus infinity is added to all scores of a row; and results lie as torch's do, by the query."""
    torch._dynamo.reset()
    compiled = torch.compile(F.scaled_dot_product_attention, backend="inferno")
    for x in (torch.randn(2, 3, 5, 4), torch.randn(2, 5, 3, 4).transpose(1, 2)):
        found, expected = [], []
        for call, got, dtype in ((compiled, found, torch.float32), (F.scaled_dot_product_attention, expected, torch.float64)):
            q, k, v = (x.to(dtype, copy=True).requires_grad_() for _ in range(3))
            out = call(q, k, v, attn_mask=mask if mask.dtype == torch.bool else mask.to(dtype))
            got += [out, *torch.autograd.grad(out.square().sum(), (q, k, v))]
        assert found[0].stride() == F.scaled_dot_product_attention(x, x, x, attn_mask=mask).stride()
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-6)
