"""Attention that a program writes by hand, where it is trained: its gradients through ``torch.compile`` on the CPU, which kernels it becomes, and what is left
alone."""

import re

import pytest
import torch
from by_hand_cases import cases, dropped, least, nano
from torch import nn
from torch.utils.checkpoint import checkpoint

from inferno.capture import trained_attention
from inferno.capture.attention_by_hand import join_attention
from inferno.runtime.region import backend
from inferno.runtime.workers import jobs

F = nn.functional
pytestmark = pytest.mark.usefixtures("unmeasured")


@pytest.fixture
def operations(monkeypatch) -> list[str]:
    """The operations of Inferno's that are in graphs before they are expanded."""
    found: list[str] = []
    plain = backend.expand_attention
    monkeypatch.setattr(backend, "expand_attention", lambda module: (
        found.extend(str(n.target).split(".")[1] for n in module.graph.nodes if str(n.target).startswith("inferno.")), plain(module)))
    return found


def step(function, args, dtype, trained):
    given = [a.detach().to(dtype).requires_grad_(n < trained) if a.is_floating_point() else a for n, a in enumerate(args)]
    out = function(*given)
    (out * torch.linspace(-1, 1, out.numel(), dtype=dtype).view(out.shape)).sum().backward()
    return [out.detach(), *(a.grad for a in given if a.requires_grad)]


def compiled(function, **options):
    return torch.compile(function, backend="inferno", fullgraph=True, options={"fallback": False, **options})


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", cases(1, 2, 8, 8))
def test_gradients(name, operations):
    function, args, trained = cases(2, 4, 24, 16)[name]
    ours, plain, exact = (step(f, args, t, trained) for f, t in (
        (compiled(function), torch.bfloat16), (function, torch.bfloat16), (function, torch.float64)))
    learned = "_learned" if trained == 4 else ""
    assert set(operations) == {"scored_attention", f"scored_attention{learned}_backward"}
    for mine, theirs, double in zip(ours, plain, exact, strict=True):
        bound = max(1.5 * (theirs.double() - double).norm(), torch.finfo(torch.bfloat16).eps * double.norm())
        assert mine.dtype == theirs.dtype and mine.stride() == theirs.stride() and (mine.double() - double).norm() <= bound


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name, size", [("llama", 64), ("triangle", 64), ("mpt", 64), ("triangle", 96), ("llama", 80)])
def test_kernels(name, size, monkeypatch):
    """An attention kernel and one of its gradients on a GPU, without being asked for, beside what makes masks, copies, and sums."""
    generators, build_text = [], backend.build_text

    def noted(text, **more):
        linalg, _ = jobs.lower_to_linalg(text)
        scheduled = jobs.fuse(linalg, "sm_90a", features=["attention"]).stages["scheduled"]
        generators.append(re.findall(r'generator = "(\w+)"', scheduled))
        return build_text(text, **more)

    monkeypatch.setattr(backend, "build_text", noted)
    function, args, trained = cases(1, 2, 512, size)[name]
    step(compiled(function), args, torch.bfloat16, trained)
    forward, backward = generators
    assert forward.count("attention") == 1 and backward.count("attention_gradients") == 1
    assert {*forward, *backward} <= {"attention", "attention_gradients", "elementwise", "bundle", "reductions", "columns", "rows"}


def test_masks_that_meet_between_the_products(operations):
    """``operator.and_`` writes to nothing, though its name ends as if it did."""
    def function(q, k, v, seen):
        scores = (q @ k.mT).masked_fill((seen[:, None, :, None] & seen[:, None, None]).logical_not(), -1e4)
        return torch.softmax(scores, -1) @ v

    args = (*(torch.randn(2, 4, 8, 16) for _ in range(3)), torch.arange(8).expand(2, 8) < torch.tensor([[8], [5]]))
    step(compiled(function), args, torch.bfloat16, 3)
    assert set(operations) == {"scored_attention", "scored_attention_backward"}


def test_rows_without_keys(operations):
    """By -inf they are no numbers, and so are the gradients that eager has none of."""
    _, (*qkv, buffer), _ = cases(2, 4, 24, 16)["nano"]
    buffer[:, :, 3] = 0
    ours, plain = (step(f, (*qkv, buffer), torch.bfloat16, 3) for f in (compiled(nano), nano))
    assert operations == ["scored_attention", "scored_attention_backward"] and plain[0][:, :, 3].isnan().all()
    for mine, theirs in zip(ours, plain):
        assert torch.equal(mine.isnan(), theirs.isnan()) and (mine - theirs).nan_to_num().float().norm() <= 0.01 * theirs.nan_to_num().float().norm()


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("again", [False, True], ids=["kept", "checkpointed"])
def test_dropout(again, operations):
    """Values of one each give the weights: those that are kept, and gradients that fit, also where the backward draws again."""
    fast = compiled((lambda *given: checkpoint(dropped, *given, use_reentrant=False)) if again else dropped, fallback=again)
    q, k, gradient = (torch.randn(2, 2, 32, 32).bfloat16() for _ in range(3))
    v, mask = torch.eye(32).expand(2, 2, 32, 32).bfloat16(), least(2, 1, 32, 32)
    given = [t.clone().requires_grad_() for t in (q, k, v)]
    weights = fast(*given, mask)
    weights.backward(gradient)
    assert {"scored_attention", "scored_attention_backward"} <= {*operations}
    leaves = [t.double().requires_grad_() for t in (q, k, v)]
    plain = (leaves[0] @ leaves[1].mT * 0.25 + mask.double()).softmax(-1)
    kept = weights.detach() > 0
    assert 0.7 < kept.double().sum() / plain.count_nonzero() < 0.8
    exact = (plain * kept * 4 / 3) @ leaves[2]
    for mine, double in zip((weights, *(t.grad for t in given)), (exact, *torch.autograd.grad(exact, leaves, gradient.double()))):
        assert (mine.double() - double).norm() <= 1.5 * torch.finfo(torch.bfloat16).eps * double.norm()


def weights_too(q, k, v):
    weights = torch.softmax(q @ k.mT * 0.1, -1)
    return weights @ v, weights


def along_queries(q, k, v):
    return torch.softmax(q @ k.mT, -2) @ v


def bent(q, k, v):
    return torch.softmax(torch.tanh(q @ k.mT), -1) @ v


def scaled_after(q, k, v):
    return torch.softmax((q @ k.mT + q[..., :1]) * 0.5, -1) @ v


def negated(q, k, v):
    return torch.softmax(q @ k.mT * -1.0, -1) @ v


def by_a_tensor(q, k, v):
    return torch.softmax(q @ k.mT * q[:, :, :1, :1], -1) @ v


def divided(q, k, v):
    return torch.softmax(2.0 / (q @ k.mT), -1) @ v


def added_twice(q, k, v):
    return torch.softmax(q @ k.mT + q[..., :1] + k[:, :, None, :, 0], -1) @ v


def written_meanwhile(q, k, v):
    scores = q @ k.mT
    v = v * 1
    v.add_(1)
    return torch.softmax(scores, -1) @ v


def added_to_another(q, k, v):
    scores = q @ k.mT
    other = torch.zeros_like(scores)
    other += scores
    return torch.softmax(other, -1) @ v + other.sum()


def narrowed(q, k, v):
    """Numbers that bfloat16 makes infinite."""
    scores = q @ k.mT
    scores += torch.full((8, 8), torch.finfo(torch.float32).min)
    return torch.softmax(scores, -1) @ v


def hidden_then_narrowed(q, k, v):
    scores = (q @ k.mT).float().masked_fill(torch.ones(8, 8).triu(1).bool(), torch.finfo(torch.float32).min)
    return torch.softmax(scores.to(q.dtype), -1) @ v


def as_values(q, k, v):
    return v @ torch.softmax(q @ k.mT, -1)


def with_autocast_between(q, k, v):
    scores = q @ k.mT
    with torch.autocast("cpu", torch.bfloat16):
        return torch.softmax(scores, -1).to(q.dtype) @ v


def whole(q, k, v):
    return torch.softmax(q @ k.mT, -1) @ v


def mapped(q, k, v):
    return torch.func.vmap(whole)(q[None], k[None], v[None])[0]


def with_double(q, k, v):
    return torch.softmax((q @ k.mT).double(), -1).to(q.dtype) @ v


def is_left(function, *args, **more) -> bool:
    """Whether the graph that Dynamo captured stays as it is."""
    found = []

    def note(graph, inputs):
        before = str(graph.graph)
        join_attention(graph.graph)
        found.append(str(graph.graph) == before)
        return graph

    torch.compile(function, backend=note, fullgraph=True, **more)(*args)
    (left,) = found
    return left


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("function", [
    weights_too, along_queries, bent, scaled_after, negated, by_a_tensor, divided, added_twice, written_meanwhile, added_to_another, narrowed,
    hidden_then_narrowed, as_values, with_autocast_between, with_double, mapped,
])
def test_left_alone(function):
    given = [torch.randn(2, 2, 8, 8).bfloat16().requires_grad_() for _ in range(3)]
    assert not is_left(whole, *given) and is_left(function, *given)


@pytest.mark.parametrize("change", ["not timed", "float32", "no gradient", "three dimensions", "sizes that vary"])
def test_others_are_left_alone(change, monkeypatch):
    if change == "not timed":
        monkeypatch.delenv("INFERNO_UNMEASURED")
    shape, dtype = (4, 8, 8) if change == "three dimensions" else (2, 2, 8, 8), torch.float32 if change == "float32" else torch.bfloat16
    given = [torch.randn(shape, dtype=dtype, requires_grad=change != "no gradient") for _ in range(3)]
    assert is_left(whole, *given, dynamic=change == "sizes that vary")


@pytest.mark.parametrize("hopper", [True, False])
def test_where_there_are_kernels(monkeypatch, hopper):
    monkeypatch.delenv("INFERNO_UNMEASURED")
    monkeypatch.setattr(trained_attention, "on_hopper", lambda q: hopper)
    q = torch.randn(1, 2, 40, 24).bfloat16().requires_grad_()
    hidden = torch.ones(40, 40).triu(1).bool()
    for function in (
        lambda q: torch.softmax((q @ q.mT).masked_fill(hidden, -9.0), -1) @ q, lambda q: torch.softmax(q @ q.mT + hidden.bfloat16(), -1) @ q,
        lambda q: torch.softmax(q @ q.mT, -1) @ q, lambda q: F.dropout(torch.softmax((q @ q.mT).masked_fill(hidden, -9.0), -1), 0.5) @ q,
    ):
        assert is_left(function, q) != hopper


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("change", [
    "none", "autocast", "no gradients", "all dropped", "wide", "a learned bias beside what is hidden", "a learned bias beside infinity",
    "a whole learned bias in float32",
])
def test_the_programs_own_calls(change, operations):
    """Where it shows only later that the operation is not taken."""
    q, k, v = (torch.randn(1, 2, 8, 168 if change == "wide" else 16).bfloat16().requires_grad_() for _ in range(3))
    bias = torch.randn(1, 2, 8, 8, dtype=torch.float32 if change.endswith("float32") else torch.bfloat16).requires_grad_()

    def function(q, k, v, bias):
        scores, hidden = q @ k.mT * 0.2, torch.ones(8, 8).triu(1).bool()
        if change == "a learned bias beside what is hidden":
            scores = scores.masked_fill(hidden, -1e4) + bias
        if change == "a learned bias beside infinity":
            scores = (scores + bias).masked_fill(hidden, -torch.inf)
        if change == "a whole learned bias in float32":
            scores = scores + bias
        return F.dropout(torch.softmax(scores, -1).to(q.dtype), float(change == "all dropped")) @ v

    def run(q, k, v, bias):
        if change == "autocast":
            with torch.autocast("cpu", torch.bfloat16):
                return function(q, k, v, bias)
        if change == "no gradients":
            with torch.no_grad():
                return function(q, k, v, bias) + q
        return function(q, k, v, bias)

    ours, plain = compiled(run, fallback=True)(q, k, v, bias), run(q, k, v, bias)
    assert ("scored_attention" in operations) == (change == "none") and (ours.float() - plain.float()).norm() <= 0.02 * plain.float().norm()
