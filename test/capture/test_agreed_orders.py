"""What torch's library gets for a convolution's gradients lies in one order."""

import copy

import pytest
import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture.agreed_orders import agree_orders

aten = torch.ops.aten


def last(tensor):
    order = [0, *range(2, tensor.dim()), 1]
    return tensor.permute(order).contiguous().permute([0, tensor.dim() - 1, *range(1, tensor.dim() - 1)])


# Sizes of the image, features, window, stride, padding.
LAYERS = {
    "sequence": ((2, 8, 40), 6, 3, 2, 1), "of one": ((2, 8, 40), 6, 1, 1, 0), "image": ((2, 8, 12, 10), 6, 3, 1, 1), "volume": ((2, 4, 6, 5, 7), 3, 3, 1, 1),
}


def rewritten(name, lies, mask, groups=1):
    """The graphs before and after, and their arguments, of which ``lies`` says which have channels last."""
    shape, features, window, stride, padding = LAYERS[name]
    torch.manual_seed(0)
    rank = len(shape) - 2
    x, w = torch.randn(shape), torch.randn(features, shape[1] // groups, *[window] * rank)
    how = ([stride] * rank, [padding] * rank, [1] * rank, False, [0] * rank, groups)
    g = torch.randn_like(aten.convolution(x, w, None, *how))
    args = [last(t) if transposed else t for t, transposed in zip((g, x), lies)] + [w]
    traced = make_fx(lambda g, x, w: [r for r in aten.convolution_backward(g, x, w, [features], *how, mask) if r is not None], tracing_mode="fake")(*args)
    before = GraphModule({}, copy.deepcopy(traced.graph))
    agree_orders(traced.graph)
    traced.graph.lint()
    traced.recompile()
    return before, traced, args


def gradients(graph):
    (node,) = graph.graph.find_nodes(op="call_function", target=aten.convolution_backward.default)
    return node


@pytest.mark.parametrize("mask", [[True, True, True], [False, True, False], [True, False, False]], ids=str)
@pytest.mark.parametrize("lies", [(True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name, lies, mask):
    """The same numbers, of operands that have channels last, each as the library takes it."""
    before, after, args = rewritten(name, lies, mask)
    for ours, theirs, fake in zip(after(*args), before(*args), after.graph.find_nodes(op="output")[0].args[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        assert fake.meta["val"].shape == ours.shape
    node, given = gradients(after), gradients(before)
    read = node.args[:2] if mask[1] else node.args[:1]
    if any(lies) if mask[1] else lies[0]:
        layout = torch.channels_last_3d if name == "volume" else torch.channels_last
        assert all(n.meta["val"].is_contiguous(memory_format=layout) for n in (*read, node.args[2]))
        assert node.args[0].meta["val"].dim() == max(4, len(LAYERS[name][0]))
    else:
        assert node.args[4:] == given.args[4:]


def test_a_weight_has_its_gradient_as_it_lies():
    _, after, args = rewritten("image", (True, True), [False, True, False])
    assert after(*args)[0].is_contiguous()


@pytest.mark.parametrize("name, lies, groups", [("image", (False, False), 1), ("sequence", (False, False), 1), ("image", (True, True), 2)])
def test_others_stay(name, lies, groups):
    before, after, _ = rewritten(name, lies, [True, True, False], groups)
    assert [n.target for n in before.graph.nodes] == [n.target for n in after.graph.nodes]


@pytest.mark.parametrize("lies, count", [((True, True), 1), ((False, True), 1), ((False, False), 2)])
def test_what_was_taken_apart_is_one_call_again(lies, count):
    """Where it has channels last: the call for the input's gradient has an image without an order."""
    shape, features, window, _, padding = LAYERS["image"]
    x, w = torch.randn(shape), torch.randn(features, shape[1], window, window)
    how = ([1, 1], [padding] * 2, [1, 1], False, [0, 0], 1)
    g = torch.randn_like(aten.convolution(x, w, None, *how))
    g, x = (last(t) if transposed else t for t, transposed in zip((g, x), lies))

    def apart(g, x, w):
        _, weight, bias = aten.convolution_backward(g, x, w, [features], *how, [False, True, True])
        sizes = w.select(0, 0).select(0, 0).select(0, 0).select(0, 0).expand(shape)
        return aten.convolution_backward(g, sizes, w, None, *how, [True, False, False])[0], weight, bias

    traced = make_fx(apart, tracing_mode="fake")(g, x, w)
    exact = aten.convolution_backward(g, x, w, [features], *how, [True, True, True])
    agree_orders(traced.graph)
    traced.graph.eliminate_dead_code()
    traced.graph.lint()
    traced.recompile()
    assert len(traced.graph.find_nodes(op="call_function", target=aten.convolution_backward.default)) == count
    for ours, theirs in zip(traced(g, x, w), exact, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
