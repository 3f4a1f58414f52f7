"""The gradient of a depthwise convolution's weight, as a convolution in groups."""

import pytest
import torch
from convolution_layers import operands, options
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture.decompositions import convolution_gradients, table
from inferno.capture.decompositions.depthwise_gradients import depthwise_weight_gradient, is_summed_by_taps

aten = torch.ops.aten
LAYERS = {
    "3x3": (nn.Conv2d(8, 8, 3, padding=1, groups=8), (3, 8, 9, 10)),
    "2x5 by 3x1, dilated": (nn.Conv2d(4, 4, (2, 5), (3, 1), (0, 2), (2, 1), groups=4), (2, 4, 29, 31)),
    "more than windows reach": (nn.Conv2d(4, 4, 3, 4, groups=4), (3, 4, 46, 47)),
    "1d": (nn.Conv1d(8, 8, 4, padding=3, groups=8), (3, 8, 90)),
    "transposed": (nn.ConvTranspose2d(8, 8, 3, 2, 1, 1, groups=8), (2, 8, 9, 9)),
}


@pytest.fixture(autouse=True)
def as_on_hopper(monkeypatch):
    monkeypatch.setattr(convolution_gradients, "on_hopper", lambda tensor: True)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_they_are_autograds(name, last):
    layer, shape = LAYERS[name]
    tensors = operands(layer, shape)
    if last and len(shape) == 4:
        tensors = [t.contiguous(memory_format=torch.channels_last) for t in tensors]
    gradient, x, weight = tensors
    ours = depthwise_weight_gradient(*((x, gradient) if layer.transposed else (gradient, x)), weight, *options(layer)[:3])
    exact = aten.convolution_backward(gradient, x, weight, None, *options(layer), [False, True, False])[1]
    assert ours.shape == exact.shape and torch.allclose(ours, exact, atol=1e-9)


@pytest.mark.parametrize("name", LAYERS)
def test_a_graph_has_no_gradients_of_torchs(name):
    layer, shape = LAYERS[name]
    run = lambda *tensors: aten.convolution_backward(*tensors, None, *options(layer), [True, True, False])[:2]  # noqa: E731
    graph = make_fx(run, tracing_mode="fake", decomposition_table=table())(*operands(layer, shape, torch.bfloat16)).graph
    assert not graph.find_nodes(op="call_function", target=aten.convolution_backward.default)


def test_of_a_weight_alone():
    """As where large inputs' gradients are asked for afterwards."""
    layer, shape = LAYERS["3x3"]
    gradient, x, weight = operands(layer, shape, torch.bfloat16)
    found = convolution_gradients.convolution_backward(gradient, x, weight, [8], *options(layer), [False, True, True])
    exact = aten.convolution_backward(gradient.double(), x.double(), weight.double(), [8], *options(layer), [False, True, True])
    assert found[0] is None and all(torch.allclose(a.double(), b, rtol=0.02, atol=0.2) for a, b in zip(found[1:], exact[1:]))
    assert convolution_gradients.convolution_backward(gradient, x, weight, [8], *options(layer), [False, False, True]) is NotImplemented


@pytest.mark.parametrize("change", [
    {"window": (12, 12), "shape": (3, 8, 20, 20)}, {"window": (1, 1)}, {"shape": (1, 8, 9, 9)}, {"groups": 4}, {"channels": 16}, {"dtype": torch.float64},
], ids=lambda change: next(iter(change)))
def test_others_stay(change):
    """Of more taps than a thread keeps, of one, of few terms, of groups of several channels, of several features a channel, of float64."""
    layer = nn.Conv2d(8, change.get("channels", 8), change.get("window", (3, 3)), groups=change.get("groups", 8))
    gradient, x, weight = operands(layer, change.get("shape", (3, 8, 9, 9)), change.get("dtype", torch.bfloat16))
    assert not is_summed_by_taps(gradient, x, weight, layer.dilation, layer.groups)


@pytest.mark.parametrize("window, dilation, dtype, taken", [
    (3, 1, torch.float32, False), (3, 1, torch.bfloat16, True), (3, 2, torch.float32, True), (5, 1, torch.float32, True)])
def test_few_taps_with_channels_last_are_cudnns(window, dilation, dtype, taken):
    layer = nn.Conv2d(8, 8, window, dilation=dilation, groups=8)
    tensors = [t.contiguous(memory_format=torch.channels_last) for t in operands(layer, (3, 8, 19, 19), dtype)]
    assert is_summed_by_taps(*tensors, layer.dilation, layer.groups) == taken
