"""A convolution's gradients as operations of their own: those of autograd, and which are taken apart."""

import pytest
import torch
from checks import assert_close_to_float64
from convolution_layers import operands, options
from oracle import run_module
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture import capture
from inferno.capture.decompositions import convolution_gradients, table
from inferno.runtime.build import build_from
from inferno.target import find_target

aten = torch.ops.aten
LAYERS = {
    "1x1": (nn.Conv2d(8, 16, 1), (2, 8, 5, 6)),
    "1x1 by 2": (nn.Conv2d(8, 16, 1, 2, bias=False), (2, 8, 5, 6)),
    "of one pixel": (nn.Conv2d(8, 16, 1), (4, 8, 1, 1)),
    "of one place": (nn.Conv1d(8, 16, 1, bias=False), (4, 8, 1)),
    "3x3": (nn.Conv2d(8, 16, 3, padding=1), (2, 8, 5, 6)),
    "3x3 by 2": (nn.Conv2d(8, 16, 3, 2, 1), (2, 8, 6, 7)),
    "7x7 by 2": (nn.Conv2d(8, 16, 7, 2, 3), (1, 8, 9, 10)),
    "2x3 by 3x1, dilated": (nn.Conv2d(8, 16, (2, 3), (3, 1), (1, 0), (2, 2)), (1, 8, 9, 10)),
    "1d": (nn.Conv1d(8, 16, 3, 2, dilation=2), (2, 8, 12)),
    "3d": (nn.Conv3d(8, 16, 3, (1, 2, 2), 1), (1, 8, 4, 5, 5)),
    "depthwise": (nn.Conv2d(8, 8, 3, 2, 1, groups=8), (2, 8, 6, 6)),
    "transposed": (nn.ConvTranspose2d(8, 16, 4, 2, 1), (2, 8, 5, 6)),
    "transposed, with more than it reads": (nn.ConvTranspose1d(8, 16, 3, 2, dilation=3, output_padding=2), (2, 8, 5)),
}


@pytest.fixture(autouse=True)
def as_on_hopper(monkeypatch):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    monkeypatch.setattr(convolution_gradients, "on_hopper", lambda tensor: True)


@pytest.mark.parametrize("name", LAYERS)
def test_they_are_autograds(name):
    layer, shape = LAYERS[name]
    gradient, x, weight = operands(layer, shape)
    mask, sizes = [True, True, layer.bias is not None], None if layer.bias is None else [layer.out_channels]
    ours = convolution_gradients.convolution_backward(gradient.float(), x.float(), weight.float(), sizes, *options(layer), mask)
    exact = aten.convolution_backward(gradient, x, weight, sizes, *options(layer), mask)
    for a, b in zip(ours, exact, strict=True):
        assert (a is None and b is None) or torch.allclose(a.double(), b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["of one pixel", "of one place"])
def test_one_pixel_is_a_row_of_a_linear_layer(name):
    layer, shape = LAYERS[name]
    gradient, x, weight = operands(layer, shape, torch.bfloat16)
    run = lambda *given: aten.convolution_backward(*given, [16], *options(layer), [True, True, True])  # noqa: E731
    graph = make_fx(run, tracing_mode="fake", decomposition_table=table())(gradient, x, weight).graph
    assert len(graph.find_nodes(op="call_function", target=aten.mm.default)) == 2 and "convolution" not in str(graph)


@pytest.mark.parametrize("images", [2, 64])
def test_windows_of_one_pixel_are_products(monkeypatch, images):
    """Of many pixels in parts."""
    monkeypatch.setattr(convolution_gradients, "_PRODUCT", (16, 128))
    layer, (_, *rest) = LAYERS["1x1"]
    tensors = [t.to(memory_format=torch.channels_last) for t in operands(layer, (images, *rest), torch.bfloat16)]
    run = lambda *given: aten.convolution_backward(*given, None, *options(layer), [True, True, False])[:2]  # noqa: E731
    graph = make_fx(run, tracing_mode="fake", decomposition_table=table())(*tensors)
    assert not graph.graph.find_nodes(op="call_function", target=aten.convolution.default)
    assert len(graph.graph.find_nodes(op="call_function", target=aten.bmm.default)) == (images > 2)
    found = graph(*tensors)
    assert found[0].is_contiguous(memory_format=torch.channels_last)
    assert_close_to_float64(found, run, tensors)


@pytest.mark.parametrize("name", [n for n in LAYERS if n != "depthwise"])
def test_weights_gradients_are_autograds(name):
    """Also of images that are larger than the windows reach, or that are cut off."""
    layer, shape = LAYERS[name]
    gradient, x, weight = operands(layer, shape)
    how = options(layer)
    ours = convolution_gradients.weight_gradient(*((x, gradient) if how[3] else (gradient, x)), weight, *how[:3])
    exact = aten.convolution_backward(gradient, x, weight, None, *how, [False, True, False])[1]
    assert ours.is_contiguous() and torch.allclose(ours, exact, atol=1e-9)


@pytest.mark.parametrize("channels, size, last, transposed", [(48, 3, False, True), (48, 1, False, False), (40, 3, False, False), (48, 3, True, False)])
def test_the_library_gets_channels_last(channels, size, last, transposed):
    """Where it sums a weight's gradient, of windows over many channels, and then gives that as the weight lies."""
    layer = nn.Conv2d(channels, 64, size, padding=size // 2, bias=False)
    gradient, x, weight = operands(layer, (1, channels, 5, 6), torch.float32)
    x = x.contiguous(memory_format=torch.channels_last) if last else x

    def backward(gradient, x, weight):
        return convolution_gradients.convolution_backward(gradient, x, weight, None, *options(layer), [True, True, False])[1]

    (node,) = [n for n in make_fx(backward)(gradient, x, weight).graph.nodes if n.target == aten.convolution_backward.default]
    assert [n.target == aten.clone.default for n in node.all_input_nodes[:2]] == [transposed] * 2
    exact = aten.convolution_backward(gradient.double(), x.double(), weight.double(), None, *options(layer), [False, True, False])[1]
    found = backward(gradient, x, weight)
    assert torch.allclose(found.double(), exact, atol=1e-4, rtol=1e-4) and (last or found.is_contiguous())


@pytest.mark.parametrize("change", [
    {"mask": [False, True, True]}, {"groups": 2}, {"shape": (2, 6, 5, 6)}, {"dtype": torch.float64}, {"padding": 3}, {"dilation": 80},
], ids=lambda change: next(iter(change)))
def test_others_stay(monkeypatch, change):
    """Where nothing is asked, or no generator is for it."""
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    shape, dilation = change.get("shape", (2, 8, 5, 6)), change.get("dilation", 1)
    size = 200 if dilation > 1 else 1
    layer = nn.Conv2d(shape[1], 16, 3, padding=change.get("padding", 1), groups=change.get("groups", 1), dilation=(1, dilation))
    gradient, x, weight = operands(layer, (*shape[:3], size * shape[3]), change.get("dtype", torch.float32))
    arguments = gradient, x, weight, [16], *options(layer), change.get("mask", [True, True, True])
    assert convolution_gradients.convolution_backward(*arguments) is NotImplemented


@pytest.mark.parametrize("name, dtype, last, faster", [
    ("3x3", torch.float32, False, True), ("3x3", torch.bfloat16, False, True), ("3x3", torch.bfloat16, True, False), ("3x3 by 2", torch.bfloat16, False, True),
    ("3x3 by 2", torch.float32, False, False), ("depthwise", torch.float32, True, True), ("transposed", torch.float32, False, True),
])
def test_only_what_is_faster(monkeypatch, name, dtype, last, faster):
    """Unless all is asked for."""
    layer, shape = LAYERS[name]
    gradient, x, weight = operands(layer, shape, dtype)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    arguments = gradient, x, weight, None, *options(layer), [True, True, False]
    assert convolution_gradients.convolution_backward(*arguments) is not NotImplemented
    monkeypatch.setenv("INFERNO_UNMEASURED", "0")
    assert (convolution_gradients.convolution_backward(*arguments) is not NotImplemented) == faster


def test_a_graph_keeps_the_weights_gradient_alone():
    """Of few channels."""
    layer, shape = LAYERS["3x3 by 2"]
    run = lambda *tensors: [*aten.convolution_backward(*tensors, [16], *options(layer), [True, True, True])]  # noqa: E731
    graph = make_fx(run, tracing_mode="fake", decomposition_table=table())(*operands(layer, shape, torch.float32)).graph
    (kept,) = graph.find_nodes(op="call_function", target=aten.convolution_backward.default)
    assert kept.args[-1] == [False, True, False] and kept.args[3] is None
    (convolution,) = graph.find_nodes(op="call_function", target=aten.convolution.default)
    assert convolution.args[6] and convolution.args[7] == [1, 0]


def test_input_gradients_for_a_gpu():
    """In one program; the image of none has zeros between its elements."""
    names = ["3x3 by 2", "depthwise", "transposed"]

    def step(*tensors):
        return tuple(
            aten.convolution_backward(*three, None, *options(LAYERS[n][0]), [True, False, False])[0]
            for n, three in zip(names, zip(tensors[::3], tensors[1::3], tensors[2::3]))
        )

    args = tuple(t for n in names for t in operands(*LAYERS[n], torch.bfloat16))
    found = capture(step, args)
    fused = build_from("torch", found.text, find_target("sm_90a"), last="fused", signature=found.signature).stages["fused"]
    assert "insert_slice" not in fused
    results = run_module(fused, [t.contiguous() for t in found.signature.arguments_of(args, {})])
    assert_close_to_float64(tuple(s.as_eager(r) for s, r in zip(found.signature.results, results)), step, args)
