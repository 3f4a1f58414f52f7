"""Graphs in pieces: where they are cut, what a part takes and gives."""

import importlib

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture.orders import dense_order
from inferno.capture.partition import Piece, extract, partition
from inferno.capture.refusal import refusals

CPU = torch.device("cpu")
partition_module = importlib.import_module("inferno.capture.partition")


def graph_of(function, *shapes):
    return make_fx(function, tracing_mode="fake")(*(torch.randn(s) for s in shapes)).graph


def pieces_of(graph):
    return partition(graph, refusals(graph, CPU))


def test_what_compiles_is_one_piece():
    graph = graph_of(lambda x: torch.relu(x @ x).t() + 1, (4, 4))
    (piece,) = pieces_of(graph)
    assert piece.compiled and [str(n.target) for n in piece.nodes] == ["aten.mm.default", "aten.relu.default", "aten.add.Tensor"]


def test_random_numbers_keep_their_order_and_cut_as_seldom_as_they_can():
    def f(x):
        a = torch.rand(4) + x
        b = torch.rand(4) * (x * 2).exp()
        return (a * b).sin().cos()

    pieces = pieces_of(graph_of(f, (4,)))
    assert [p.compiled for p in pieces].count(True) <= 2
    eager = [n.name for p in pieces if not p.compiled for n in p.nodes if "rand" in n.name]
    assert eager == sorted(eager)


def test_attention_that_gives_seeds_is_eagers():
    """Its results hold the state of random numbers, which would not be torch's."""
    graph = torch.fx.Graph()
    q = graph.placeholder("q")
    q.meta["val"] = torch.empty(1, 4, 8, 16)
    aten = torch.ops.aten
    for target, given in (
        (aten._scaled_dot_product_flash_attention.default, (q, q, q)), (aten._scaled_dot_product_efficient_attention.default, (q, q, q, None, True)),
        (aten._scaled_dot_product_cudnn_attention.default, (q, q, q, None, True)),
        (aten._flash_attention_forward.default, (q, q, q, None, None, 4, 4, 0.0, False, False)),
    ):
        graph.call_function(target, given).meta["val"] = (q.meta["val"],)
    assert [("random" in r) for r in refusals(graph, CPU).values()] == [True] * 4


def test_a_lone_operation_between_eager_ones_stays_eager():
    pieces = pieces_of(graph_of(lambda x: torch.rand_like(torch.rand_like(x) + 1), (4,)))
    assert [p.compiled for p in pieces] == [False]


def test_views_are_made_by_their_readers():
    graph = graph_of(lambda x: (torch.rand(6, 4) + (x + 1).t().exp()).view(-1), (4, 6))
    refused = refusals(graph, CPU)
    for piece in partition(graph, refused):
        assert not any(str(n.target) in ("aten.t.default", "aten.view.default") for n in piece.nodes)
        if piece.compiled:
            part = extract(piece, refused)
            assert all(not str(n.target).startswith("aten.view") for n in part.outputs)


def test_other_orders_of_dimensions_are_permuted_at_the_borders():
    graph = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)).graph
    part = extract(Piece(True, tuple(n for n in graph.nodes if n.op == "call_function")), {})
    place = next(n for n in part.graph.nodes if n.op == "placeholder")
    assert tuple(place.meta["val"].shape) == (2, 4, 5, 3)
    assert [str(n.target) for n in part.graph.nodes if n.op == "call_function"] == ["aten.permute.default", "aten.add.Tensor", "aten.permute.default"]


@pytest.mark.parametrize("tensor, order", [
    (torch.empty(2, 3), (0, 1)), (torch.empty(2, 3).t(), (1, 0)), (torch.empty(2, 1, 3).transpose(0, 2), (2, 1, 0)), (torch.empty(4, 4)[:, :2], None),
    (torch.empty(3).expand(2, 3), None), (torch.empty(()), ()), (torch.empty(0, 3).t(), (0, 1)),
])
def test_dense_order(tensor, order):
    if order is None:
        assert dense_order(tensor) is None
    else:
        assert dense_order(tensor) == order or tensor.permute(dense_order(tensor)).is_contiguous()


def sizes_between(graph):
    """Bytes that each compiled piece gives, and the pieces' targets."""
    refused = refusals(graph, CPU)
    given, targets = [], []
    for piece in partition(graph, refused):
        targets.append([str(n.target) for n in piece.nodes])
        if piece.compiled:
            given.append(sum(n.meta["val"].nbytes for n in extract(piece, refused).outputs))
    return given, targets


def test_what_a_later_piece_alone_reads_is_computed_there():
    def f(x, y):
        far = (x.unsqueeze(0) * y.unsqueeze(1)).exp()  # 100 times as much as it is made of
        return (torch.bernoulli((x @ y.t()).sigmoid()).unsqueeze(2) * far).sum()

    given, targets = sizes_between(graph_of(f, (100, 64), (100, 64)))
    assert given == [100 * 100 * 4, 4] and "aten.exp.default" in targets[-1]


def test_what_is_less_to_keep_is_computed_early():
    def f(x, y):
        near = (x.unsqueeze(0) * y.unsqueeze(1)).exp().sum((0, 2))
        return torch.bernoulli((x @ y.t()).sigmoid()).sum() + near.cos().sum() * 2

    given, targets = sizes_between(graph_of(lambda x, y: f(x + 1, y + 1), (100, 64), (100, 64)))
    assert given == [100 * 100 * 4 + 4, 4] and "aten.exp.default" in targets[0]


def test_an_order_that_must_be_kept_is_kept():
    def f(x, y):
        z = (x.unsqueeze(0) * y.unsqueeze(1)).exp()
        y.mul_(2)
        return torch.bernoulli(y).sum() + (z * 2).sum() * 2

    graph = make_fx(f, tracing_mode="fake")(torch.randn(20, 8), torch.randn(20, 8)).graph
    targets = [str(n.target) for piece in pieces_of(graph) for n in piece.nodes]
    assert targets.index("aten.exp.default") < targets.index("aten.mul_.Tensor")


def test_numbers_of_the_host_beside_tensors_of_a_gpu():
    """torch 2.11 has the number of a ``where`` as a tensor of the host: it compiles where nothing on the host is computed of it."""
    def beside(x, y):
        return torch.where(x > 0, x, torch.ops.aten.scalar_tensor(-1.0))

    def apart(x, y):
        number = torch.ops.aten.scalar_tensor(-1.0)
        return torch.where(x > 0, x, number), number + y

    with FakeTensorMode():
        args = torch.empty(3, device="cuda"), torch.empty(())
        found = [refusals(make_fx(f)(*args).graph, torch.device("cuda", 0)) for f in (beside, apart)]
    assert not found[0]
    assert {str(n): reason for n, reason in found[1].items()} == {"scalar_tensor": "its result is on cpu", "add": "its result is on cpu"}


def test_the_readers_of_a_piece_are_found_from_the_piece(monkeypatch):
    """A model of thousands of operations is tried operation by operation: looking through the whole graph for each was most of its compilation."""
    graph = torch.fx.Graph()
    last = graph.placeholder("x")
    last.meta["val"] = torch.empty(2, 3)
    made = []
    for _ in range(300):
        made.append(last := graph.call_function(torch.ops.aten.relu.default, (last,)))
        last.meta["val"] = torch.empty(2, 3)
    graph.output((made[10], made[4], last))
    asked, is_free = [], partition_module.is_free
    monkeypatch.setattr(partition_module, "is_free", lambda node, refused: asked.append(node) or is_free(node, refused))
    assert extract(Piece(True, (made[4], made[5])), {}).outputs == (made[5], made[4])
    assert extract(Piece(True, (last,)), {}).outputs == (last,) and len(asked) < 60
