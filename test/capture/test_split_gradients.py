"""A convolution's gradients as two calls: which are taken apart, and that they are those of one call."""

import pytest
import torch
from checks import assert_close_to_float64
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture import split_gradients
from inferno.capture.split_gradients import split_convolution_gradients

F = nn.functional
aten = torch.ops.aten
LAYERS = {
    "plain": (nn.Conv2d(8, 4, 3, padding=1), (32, 8, 34, 34)),
    "grouped": (nn.Conv2d(8, 8, 3, stride=2, groups=4, bias=False), (32, 8, 34, 34)),
    "dilated": (nn.Conv1d(6, 2, 5, dilation=3), (16, 6, 3000)),
    "transposed": (nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1), (32, 8, 34, 34)),
    "3d": (nn.Conv3d(2, 3, 3), (4, 2, 33, 33, 33)),
}


@pytest.fixture(autouse=True)
def from_a_megabyte(monkeypatch):
    monkeypatch.setattr(split_gradients, "_LEAST_BYTES", 1 << 20)


def gradients(layer, wanted):
    def run(x, gradient, weight, bias):
        how = (layer.stride, layer.padding, layer.dilation, layer.transposed, layer.output_padding, layer.groups)
        sizes = None if bias is None else [bias.numel()]
        return [g for g in aten.convolution_backward(gradient, x, weight, sizes, *how, wanted) if g is not None]

    return run


def calls(graph):
    return [n.args[-1] for n in graph.nodes if n.target is aten.convolution_backward.default]


def traced(layer, shape, wanted, make=torch.randn):
    x = make(shape)
    args = (x, torch.randn_like(layer(x)), layer.weight.detach(), None if layer.bias is None else layer.bias.detach())
    graph = make_fx(gradients(layer, wanted), tracing_mode="fake")(*args)
    before = graph(*args)
    split_convolution_gradients(graph.graph)
    graph.recompile()
    return graph, args, before


@pytest.mark.parametrize("name", LAYERS)
def test_the_same_gradients(name):
    layer, shape = LAYERS[name]
    bias = layer.bias is not None
    graph, args, before = traced(layer, shape, [True, True, bias])
    assert calls(graph.graph) == [[False, True, bias], [True, False, False]]
    assert all(torch.equal(a, b) for a, b in zip(graph(*args), before, strict=True))


def test_the_input_is_read_by_the_first_only():
    graph, _, _ = traced(*LAYERS["plain"], [True, True, True])
    first, second = (n for n in graph.graph.nodes if n.target is aten.convolution_backward.default)
    assert first.args[1].op == "placeholder" and second.args[1].target is aten.expand.default
    (source,) = second.args[1].all_input_nodes
    while source.op != "placeholder":
        (source,) = source.all_input_nodes
    assert source is second.args[2]


@pytest.mark.parametrize("wanted", [[True, False, False], [False, True, True]])
def test_one_gradient_is_one_call(wanted):
    assert calls(traced(*LAYERS["plain"], wanted)[0].graph) == [wanted]


def test_small_ones_and_other_orders_stay():
    layer, (_, *rest) = LAYERS["plain"]
    assert len(calls(traced(layer, (1, *rest), [True, True, True])[0].graph)) == 1
    last = lambda shape: torch.randn(shape).contiguous(memory_format=torch.channels_last)  # noqa: E731
    assert len(calls(traced(layer, (32, *rest), [True, True, True], last)[0].graph)) == 1


def test_training():
    def step(x, first, second):
        kernels = [w.detach().clone().requires_grad_() for w in (first, second)]
        with torch.enable_grad():
            y = F.relu(F.conv2d(F.batch_norm(F.conv2d(x, kernels[0]), None, None, training=True), kernels[1], padding=1))
            y.square().mean().backward()
        return [w.grad for w in kernels]

    args = (torch.randn(32, 3, 40, 40), torch.randn(8, 3, 3, 3), torch.randn(8, 8, 3, 3))
    assert_close_to_float64(torch.compile(step, backend="inferno")(*args), step, args)
