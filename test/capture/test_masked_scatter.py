"""What a mask selects of a tensor gets elements in order, and gives its gradient back: against torch's, element for element, and which kernels they are."""

import pytest
import torch
from checks import check, scheduled
from decomposition_checks import same
from universal_program import SimulatedModel

import inferno
from inferno.capture.decompositions import own
from inferno.capture.devices import capturing_for
from inferno.errors import IndexOutOfRange

aten = torch.ops.aten


def tokens(features=8):
    """A model's tokens, of which some are replaced by an image's features: the mask says the same of all of a token's."""
    mask = torch.rand(3, 7) > 0.5
    return torch.randn(3, 7, features), mask.unsqueeze(-1).expand(3, 7, features), torch.randn(25, features)


@pytest.mark.parametrize("features", [1, 8])
def test_rows(features):
    torch.manual_seed(0)
    x, mask, source = tokens(features)
    for given in (source, source.reshape(5, 5, features), source.flatten()):
        same(aten.masked_scatter.default, x, mask, given)
        same(aten.masked_scatter_backward.default, x, mask, list(given.shape))


@pytest.mark.parametrize("mask,sizes", [((3, 7), [30]), ((1, 7), [3, 10]), ((3, 1), [25]), ((3, 7), [21])])
def test_elements(mask, sizes):
    torch.manual_seed(0)
    x, mask = torch.randn(3, 7), torch.rand(mask) > 0.3
    same(aten.masked_scatter.default, x, mask, torch.randn(sizes))
    same(aten.masked_scatter_backward.default, x, mask.expand(3, 7), sizes)


def test_nothing_and_all():
    x = torch.randn(3, 7)
    for mask in (torch.zeros(3, 7, dtype=torch.bool), torch.ones(3, 7, dtype=torch.bool)):
        same(aten.masked_scatter.default, x, mask, torch.randn(21))
        same(aten.masked_scatter_backward.default, x, mask, [21])
    assert own()[aten.masked_scatter_backward.default](torch.randn(0, 7), torch.ones(0, 7, dtype=torch.bool), [0]) is NotImplemented


@pytest.mark.parametrize("rows", [True, False])
def test_fewer_elements_than_the_mask_selects(rows):
    x, mask = torch.randn(3, 7, 8), torch.arange(21).reshape(3, 7, 1) % 2 == 0
    mask = mask.expand(3, 7, 8) if rows else mask.repeat(1, 1, 8)
    model = lambda x, m, s: x.masked_scatter(m, s)  # noqa: E731
    enough, few = torch.randn(11, 8), torch.randn(10, 8)
    assert torch.equal(inferno.compile(model, (x, mask, enough), fallback=False)(x, mask, enough), model(x, mask, enough))
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        model(x, mask, few)
    with pytest.raises(IndexOutOfRange, match="masked_scatter"):
        inferno.compile(model, (x, mask, few), fallback=False)(x, mask, few)


@pytest.mark.parametrize("rows", [True, False])
def test_on_a_simulated_gpu(rows):
    torch.manual_seed(0)
    model = lambda g, m: (  # noqa: E731
        aten.masked_scatter_backward.default(g, (m.unsqueeze(-1).expand(g.shape) if rows else m), [25, 8] if rows else [180])
    )
    args = torch.randn(3, 7, 8), torch.rand(3, 7) > 0.5 if rows else torch.rand(3, 7, 8) > 0.5
    with capturing_for(True):
        built = SimulatedModel(model, args)
    found = check(built, model, args)
    assert found.right, str(found)


def test_tokens_are_counted_not_features():
    model = lambda x, m, s: x.masked_scatter(m.unsqueeze(-1).expand(x.shape), s)  # noqa: E731
    text = scheduled(model, (torch.randn(2, 64, 256), torch.rand(2, 64) > 0.5, torch.randn(60, 256))).stages["scheduled"]
    assert "tensor<128xi64>" in text and "tensor<32768xi64>" not in text
