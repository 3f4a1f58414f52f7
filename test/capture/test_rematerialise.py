"""What a backward computes again: which values it keeps, and that gradients are right."""

import copy

import pytest
import torch
from checks import assert_close_to_float64
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from inferno.capture import rematerialise
from inferno.capture.decompositions import table
from inferno.capture.rematerialise import partition_training

F = nn.functional


def kept(function, *inputs, partition=partition_training) -> list[tuple[int, ...]]:
    """The shapes of what the forward computes and keeps for the backward."""
    found = []

    def forward(graph, inputs):
        given = {n for n in graph.graph.nodes if n.op == "placeholder"}
        results = next(n for n in graph.graph.nodes if n.op == "output").args[0]
        found.append([tuple(n.meta["val"].shape) for n in dict.fromkeys(results[1:]) if isinstance(n, torch.fx.Node) and n not in given])
        return graph

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=forward, bw_compiler=lambda graph, inputs: graph, decompositions=table(), partition_fn=partition)
    torch.compile(function, backend=backend, fullgraph=True)(*inputs)
    return found[0]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(rematerialise, "LEAST_BYTES", 1)


def attend(x, w):
    q, k, v = (x @ w).view(2, 40, 3, 4, 8).permute(2, 0, 3, 1, 4)
    weights = torch.softmax(torch.where(torch.ones(40, 40, dtype=torch.bool).tril(), q @ k.transpose(-1, -2) * 0.3, -torch.inf), -1)
    return (weights @ v).transpose(1, 2).reshape(2, 40, 32)


def test_attention_keeps_no_scores(small):
    x, w = torch.randn(2, 40, 32), torch.randn(32, 96, requires_grad=True)
    assert not any(s[-2:] == (40, 40) and len(s) > 2 for s in kept(attend, x, w))
    assert any(s[-2:] == (40, 40) and len(s) > 2 for s in kept(attend, x, w, partition=min_cut_rematerialization_partition))


def test_small_scores_are_kept():
    x, w = torch.randn(2, 40, 32), torch.randn(32, 96, requires_grad=True)
    assert any(s[-2:] == (40, 40) and len(s) > 2 for s in kept(attend, x, w))


def test_long_sums_are_not_computed_again(small):
    x, w, v = torch.randn(20, 300), torch.randn(300, 600, requires_grad=True), torch.randn(600, 5, requires_grad=True)
    assert (20, 600) in kept(lambda x, w, v: torch.tanh(x @ w) @ v, x, w, v)


def test_of_a_chain_of_contractions_every_second_is_kept(small):
    x, ws = torch.randn(50, 16), [torch.randn(16, 16, requires_grad=True) for _ in range(6)]

    def f(x, *ws):
        for w in ws:
            x = torch.tanh(x @ w)
        return x

    assert kept(f, x, *ws).count((50, 16)) >= 3


def test_what_the_caller_gets_is_not_computed_again(small):
    def f(x, w):
        y = x @ w
        return y, torch.tanh(y) @ y.t()

    x, w = torch.randn(40, 8), torch.randn(8, 100, requires_grad=True)
    marked = []

    def partition(joint, inputs, *, num_fwd_outputs, **rest):
        rematerialise.mark(joint.graph, num_fwd_outputs)
        marked.extend(str(n.target) for n in joint.graph.nodes if "recompute" in n.meta)
        return min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **rest)

    kept(f, x, w, partition=partition)
    assert "aten.mm.default" not in marked and "aten.tanh.default" in marked


def test_normalisations_give_no_second_copy(small):
    norm, x = nn.LayerNorm(300), torch.randn(40, 300)
    w = torch.randn(300, 200, requires_grad=True)
    less = kept(lambda x: torch.tanh(norm(x) @ w), x.requires_grad_())
    more = kept(lambda x: torch.tanh(norm(x) @ w), x, partition=min_cut_rematerialization_partition)
    assert (300, 40) in more and (300, 40) not in less and (40, 300) not in less  # transposed, for the weight's gradient


def test_repeated_keys_are_repeated_again(small):
    def f(x, w):
        k = (x @ w).view(10, 2, 150).unsqueeze(2).expand(-1, -1, 4, -1).reshape(10, 8, 150)
        return torch.tanh(k.transpose(0, 1) @ k.permute(1, 2, 0))

    x, w = torch.randn(10, 200), torch.randn(200, 300, requires_grad=True)
    assert not any(8 in s and 150 in s for s in kept(f, x, w))


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("function, shapes", [
    (attend, [(2, 40, 32), (32, 96)]),
    (lambda x, w, v: F.layer_norm(torch.relu(x @ w) * 2 + v, (16,)) @ w[:16], [(12, 16), (16, 16), (16,)]),
    (lambda x, w: F.log_softmax(torch.tanh(x @ w) @ w.t(), -1).square(), [(30, 16), (16, 48)]),
], ids=["attention", "norm", "chain"])
def test_gradients_are_right(small, function, shapes):
    torch.manual_seed(0)
    inputs = [torch.randn(s) * 0.3 for s in shapes]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="inferno", fullgraph=True)

    def gradients(call):
        def run(*inputs):
            given = [copy.deepcopy(t.detach()).requires_grad_() for t in inputs]
            with torch.enable_grad():
                call(*given).sum().backward()
            return [t.grad for t in given]

        return run

    ours = gradients(compiled)(*inputs)
    assert_close_to_float64(ours, gradients(function), inputs)


@pytest.mark.thorough
def test_sizes_that_vary(small):
    torch._dynamo.reset()
    block = nn.Sequential(nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 16), nn.LayerNorm(16), nn.Linear(16, 4))
    compiled, double = torch.compile(block, backend="inferno", dynamic=True), copy.deepcopy(block).double()
    for n in (40, 7, 23):
        x = torch.randn(n, 16)
        for given, module, call in ((x, block, compiled), (x.double(), double, double)):
            module.zero_grad()
            call(given).square().sum().backward()
        for ours, exact in zip(block.parameters(), double.parameters()):
            assert (ours.grad.double() - exact.grad).norm() <= 2e-6 * exact.grad.norm() + 1e-6


@pytest.mark.parametrize("dtype, made_by", [(torch.bfloat16, torch.ops.aten.add.Tensor), (torch.float32, torch.ops.aten.mm.default)])
def test_sums_are_kept_with_their_bias(dtype, made_by):
    """Of 16 bits, rounded sums plus a bias are not what the forward took: their signs differ.  In float32 it is nearly the same, and torch's choice."""
    found = []

    def forward(graph, inputs):
        results = next(n for n in graph.graph.nodes if n.op == "output").args[0]
        for node in results[1:]:
            while isinstance(node, torch.fx.Node) and node.target is torch.ops.aten.view.default and node.args[0].op != "placeholder":
                node = node.args[0]
            found.append(node.target)
        return graph

    x, w, b = (torch.randn(*s).to(dtype).requires_grad_() for s in ((2, 11, 32), (24, 32), (24,)))
    backend = aot_autograd(fw_compiler=forward, bw_compiler=lambda graph, inputs: graph, decompositions=table(), partition_fn=partition_training)
    torch._dynamo.reset()
    torch.compile(lambda x, w, b: torch.cat(((y := F.gelu(F.linear(x, w, b), approximate="tanh")), torch.relu(y)), -1), backend=backend)(x, w, b)
    kept = {torch.ops.aten.add.Tensor, torch.ops.aten.mm.default} & set(found)
    assert kept == {made_by}
