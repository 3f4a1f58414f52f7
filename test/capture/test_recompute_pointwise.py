"""What a later piece computes again of what an earlier one computed: where it is made of what is there, and the same numbers."""

import pytest
import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture.partition import extract, partition
from inferno.capture.recompute_pointwise import recompute_pointwise

aten = torch.ops.aten


def silu(x):
    s = torch.sigmoid(x.float())
    return s, (x * s).bfloat16()


def backward(x, w):
    """An activation for a product, and its derivative for what comes of that."""
    s, h = silu(x)
    return (h @ w).float() * (s * (1 + x.float() * (1 - s)))


def of_statistics(x, w):
    n = x.float() * x.float().mean(1, keepdim=True)
    return (n.bfloat16() @ w).float() * n


def through_views(x, w):
    s, h = silu(x)
    return (h @ w).view(8, 8, 64).float() * s.t().unsqueeze(0).view(8, 8, 64)


def of_what_is_not_there(x, w):
    more = x.float().exp() * torch.cat((w, w)).float().view(128, -1)[:64]  # less than what it is made of
    s = torch.sigmoid(more.sum(0, keepdim=True)) + more
    return ((s * 2).bfloat16() @ w).float() * s


def mask(x, w):
    """What makes the mask is in memory for the product, and as much as what it is made of, which the last piece reads."""
    h = torch.relu(x * 2 - 0.5)
    return torch.where(h <= 0, 0.0, h @ w) + x


def compared(x, w):
    s, h = silu(x)
    y = h @ w
    return (s == y.float()) * 1.0


CASES = {
    "derivative": (backward, {torch.bfloat16}), "statistics": (of_statistics, {torch.bfloat16, torch.float32}),
    "views": (through_views, {torch.bfloat16}), "mask": (mask, {torch.bfloat16}),
    "compared": (compared, {torch.bfloat16, torch.float32}),
}


def operands():
    torch.manual_seed(0)
    return torch.randn(64, 64).bfloat16(), torch.randn(64, 64).bfloat16()


def pieces_of(function):
    args = operands()
    graph = make_fx(function, tracing_mode="fake")(*args).graph
    refused = {n: "eager" for n in graph.nodes if n.target is aten.mm.default}
    before, nodes = GraphModule({}, graph)(*args), len(graph.nodes)
    changed = recompute_pointwise(graph, partition(graph, refused), refused)
    assert changed or len(graph.nodes) == nodes
    assert not (changed and recompute_pointwise(graph, partition(graph, refused), refused)), "twice"
    graph.lint()
    return partition(graph, refused), refused, before, GraphModule({}, graph)(*args)


@pytest.mark.parametrize("name", CASES)
def test_what_a_later_piece_reads(name):
    function, types = CASES[name]
    pieces, refused, before, after = pieces_of(function)
    assert [p.compiled for p in pieces] == [True, False, True] and torch.equal(before, after)
    part = extract(pieces[2], refused)
    assert {n.meta["val"].dtype for n in part.inputs} == types
    assert all(n.meta["val"].dtype is torch.bfloat16 or n.meta["val"].numel() == 64 or name == "compared" for n in extract(pieces[0], refused).outputs)


def test_what_would_take_more_to_read_is_not_computed_again():
    pieces, _, before, after = pieces_of(of_what_is_not_there)
    assert torch.equal(before, after)
    assert aten.exp.default not in {n.target for n in pieces[-1].nodes}


def test_what_eager_reads_is_in_memory():
    pieces, _, before, after = pieces_of(lambda x, w: (lambda h: (h @ w) * h)(torch.sigmoid(x)))
    assert torch.equal(before, after) and [p.compiled for p in pieces] == [False]


def written_behind(x, w):
    s, h = silu(x)
    y = h @ w
    x.mul_(2)
    return y * s + x


def written_between(x, w):
    s, h = silu(x)
    x.mul_(2)
    return (h @ w) * s + x


def written_and_not_read(x, w):
    s, h = silu(x)
    y = h @ w
    x.mul_(2)
    w.add_(1)
    return y * s


@pytest.mark.parametrize("function", [written_behind, written_between, written_and_not_read])
def test_what_is_written_is_written_and_what_was_read_before_is_kept(function):
    graph = make_fx(function, tracing_mode="fake")(*operands()).graph
    refused = {n: "eager" for n in graph.nodes if n.target is aten.mm.default}
    once, again = operands(), operands()
    before = GraphModule({}, graph)(*once)
    recompute_pointwise(graph, partition(graph, refused), refused)
    graph.lint()
    targets = [n.target for piece in partition(graph, refused) for n in piece.nodes]
    assert aten.mul_.Tensor in targets and targets.count(aten.sigmoid.default) == 1
    assert torch.equal(before, GraphModule({}, graph)(*again)) and all(map(torch.equal, once, again))
