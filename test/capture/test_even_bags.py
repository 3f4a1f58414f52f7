"""Bags of embeddings of one size, rows of a tensor: rows that are looked up and reduced, by both ways into the compiler."""

import pytest
import torch

import inferno
from inferno.capture import capture
from inferno.capture.decompositions.embedding import even_bags
from inferno.runtime.check.comparison import compare

bag = torch.nn.functional.embedding_bag
PLACES = torch.tensor([[1, 2, 4], [5, 0, 0], [2, 2, 2], [3, 1, 5]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", [
    {"mode": "sum"}, {"mode": "mean"}, {"mode": "max"}, {"mode": "sum", "padding_idx": 2}, {"mode": "mean", "padding_idx": -4},
    {"mode": "max", "padding_idx": 2}, {"mode": "sum", "per_sample_weights": True}, {"mode": "sum", "per_sample_weights": True, "padding_idx": 0},
], ids=str)
def test_they_are_torchs(options, dtype):
    weight = torch.randn(6, 8).to(dtype)
    more = {**options, "per_sample_weights": torch.randn(PLACES.shape).to(dtype)} if "per_sample_weights" in options else options
    exact = {k: v.double() if isinstance(v, torch.Tensor) else v for k, v in more.items()}
    ours, eager = even_bags(PLACES, weight, **more), bag(PLACES, weight, **more)
    assert ours.dtype == dtype and compare(ours, eager, bag(PLACES, weight.double(), **exact)).right


@pytest.mark.parametrize("options", [
    {"max_norm": 1.0}, {"scale_grad_by_freq": True, "mode": "sum"}, {"sparse": True, "mode": "sum"}, {"padding_idx": 9},
], ids=str)
def test_others_are_left_to_torch(options):
    assert even_bags(PLACES, torch.randn(6, 8), **options) is NotImplemented
    assert even_bags(PLACES.float(), torch.randn(6, 8)) is NotImplemented and even_bags(PLACES[0], torch.randn(6, 8)) is NotImplemented


def test_a_module_is_one_lookup_and_its_sum():
    model = torch.nn.EmbeddingBag(50, 16, mode="sum")
    targets = {str(n.target) for n in capture(model, (PLACES,)).graph.nodes if n.op == "call_function"}
    assert targets == {"aten.embedding.default", "aten.sum.dim_IntList"}
    assert torch.allclose(inferno.compile(model, (PLACES,))(PLACES), model(PLACES))


def test_gradients_under_torch_compile():
    ours, eager = (torch.nn.EmbeddingBag(50, 16, mode="mean", padding_idx=2) for _ in range(2))
    ours.load_state_dict(eager.state_dict())
    torch.compile(ours, backend="inferno")(PLACES).square().sum().backward()
    eager(PLACES).square().sum().backward()
    assert torch.allclose(ours.weight.grad, eager.weight.grad, atol=1e-6)
