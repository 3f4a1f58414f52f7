"""Gradients of gradients through ``torch.compile(backend="inferno")``: gradient penalties, MAML, Hessians, in training loops as users write them."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn
from torch.autograd import functional
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import inferno


def compiled(model):
    torch._dynamo.reset()
    return torch.compile(model, backend="inferno")


def assert_close(ours, eager):
    torch.testing.assert_close(ours, eager.to(ours.dtype), rtol=1e-4, atol=1e-5)


def penalise(function, x, power=2):
    """The gradient of a penalty of a gradient, at ``x``, to which it is added."""
    x = x.detach().requires_grad_()
    gradient, = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    (gradient.flatten(1).norm(dim=1) - 1).pow(power).mean().backward()
    return x.grad


def check(model, x, calls=2):
    """Penalties of the model are float64's, and so are its parameters' gradients and its buffers."""
    reference = copy.deepcopy(model).double()
    fast = compiled(model)
    for i in range(calls):
        assert_close(penalise(fast, x + i), penalise(reference, x.double() + i))
    for ours, exact in zip(model.parameters(), reference.parameters(), strict=True):
        assert (ours.grad is None) == (exact.grad is None)
        if exact.grad is not None:
            assert_close(ours.grad, exact.grad)
    for ours, exact in zip(model.buffers(), reference.buffers(), strict=True):
        assert_close(ours, exact)


@pytest.mark.covering
@pytest.mark.parametrize("model, shape", [
    (lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 1)), (5, 6)),
    (lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Softplus(), nn.Linear(8, 1)), (5, 6)),  # each call is one step of its statistics
    (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.LeakyReLU(.2), nn.Conv2d(4, 8, 3), nn.SiLU(), nn.Flatten()), (2, 3, 10, 10)),
])
def test_penalties(model, shape):
    torch.manual_seed(0)
    check(model(), torch.randn(*shape))


def test_dropout_drops_the_same():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 8), nn.Dropout(.5), nn.Tanh(), nn.Linear(8, 1)), torch.randn(5, 6)
    found = []
    for function in (compiled(model), model):
        torch.manual_seed(1)
        model.zero_grad()
        found.append([*(penalise(function, x) for _ in range(2)), *(p.grad for p in model.parameters()), torch.rand(3)])
    for ours, eager in zip(*found, strict=True):
        if eager is not None:
            assert_close(ours, eager)


def test_hessians_are_not_zero():
    """torch.autograd.functional takes what is not connected for a zero."""
    torch.manual_seed(0)
    x, w, v = torch.randn(5, 6), torch.randn(12), torch.randn(12)
    energy = lambda x: lambda w: (F.linear(x, w.view(2, 6)).tanh() ** 3).sum()  # noqa: E731
    fast, exact = compiled(energy(x)), energy(x.double())
    assert_close(functional.hessian(fast, w), functional.hessian(exact, w.double()))
    assert_close(functional.hvp(fast, w, v)[1], functional.hvp(exact, w.double(), v.double())[1])


def test_third_order_and_sizes_that_vary():
    torch.manual_seed(0)
    function = lambda x: (x ** 4 + x.sin()).sum()  # noqa: E731
    fast = compiled(function)
    for rows in (5, 3, 7):
        x = torch.randn(rows, 4).requires_grad_()
        exact = x.detach().double().requires_grad_()
        ours, reference = fast(x), function(exact)
        for _ in range(3):
            ours, = torch.autograd.grad(ours.sum(), x, create_graph=True)
            reference, = torch.autograd.grad(reference.sum(), exact, create_graph=True)
            assert_close(ours, reference)


def test_inner_steps_of_a_model_that_learns_to_learn():
    """MAML: each step's weights are computed of those before."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    names = [n for n, _ in model.named_parameters()]
    data = [(torch.randn(5, 6), torch.randn(5, 1)) for _ in range(2)]

    def loss(parameters, x, y):
        return F.mse_loss(torch.func.functional_call(model, dict(zip(names, parameters)), (x,)), y)

    def outer(loss, parameters, dtype):
        start = parameters = [p.detach().to(dtype).requires_grad_() for p in parameters]
        for x, y in data:
            gradients = torch.autograd.grad(loss(parameters, x.to(dtype), y.to(dtype)), parameters, create_graph=True)
            parameters = [p - .1 * g for p, g in zip(parameters, gradients)]
        return torch.autograd.grad(loss(parameters, *(t.to(dtype) for t in data[0])), start)

    for ours, exact in zip(outer(compiled(loss), model.parameters(), torch.float32), outer(loss, model.parameters(), torch.float64), strict=True):
        assert_close(ours, exact)


def test_inputs_that_are_computed_of_each_other_and_two_graphs():
    x = torch.randn(5, 6)
    product = lambda a, b: a * b * b  # noqa: E731
    first, second = compiled(product), torch.compile(torch.tanh, backend="inferno")

    def whole(product, tanh):
        return lambda a: tanh(product(a, a.sin()).cos())

    assert_close(penalise(whole(first, second), x, 3), penalise(whole(product, torch.tanh), x.double(), 3))


def test_autocast():
    """The gradient of a gradient is computed in the types of the call, also where it is taken outside."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(5, 6)
    fast, types = compiled(model), []

    def call(x):
        with torch.autocast("cpu", torch.bfloat16):
            y = fast(x)
        types.append(y.dtype)
        return y

    ours, exact = penalise(call, x), penalise(copy.deepcopy(model).double(), x.double())
    assert types == [torch.bfloat16]
    torch.testing.assert_close(ours.double(), exact, rtol=.1, atol=.05)


def test_other_backwards_let_go_of_what_was_given():
    """Of a graph's inputs none lives longer than in eager for the sake of a second gradient that nobody takes."""
    fast, x = compiled(lambda a: (a + 1).relu()), torch.randn(4, 4, requires_grad=True)
    between = x * 2
    y = fast(between)
    seen = weakref.ref(between)
    del between
    y.sum().backward(retain_graph=True)
    assert seen() is not None
    y.sum().backward()
    assert seen() is None
    fast, between = compiled(written), x * 2  # a forward that nobody differentiates, of which autograd's node is the history of what it wrote to
    y, seen = fast(between), weakref.ref(between)
    del between, y
    gc.collect()
    assert seen() is None


def test_checkpoints_and_offloading_save_what_they_save_in_eager():
    """What is given to a graph within them is freed; a second gradient is taken where it is there all the same, else it is an error."""
    first, second, seen = compiled(lambda a: a.sin() * a), torch.compile(torch.cos, backend="inferno"), []

    def layers(x):
        between = first(x)
        seen.append(weakref.ref(between))
        return second(between)

    x = torch.randn(4, 4, requires_grad=True)
    checkpoint(layers, x, use_reentrant=False).sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda saved: saved):
        y = layers(x * 1)
    assert len(seen) == 3 and seen[0]() is None and seen[2]() is None
    with pytest.raises(inferno.UnsupportedOperation, match="an input of its graph is freed: it was written to, or hooks on saved tensors"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
    assert_close(penalise(lambda x: checkpoint(first, x, use_reentrant=False), x), penalise(lambda x: x.sin() * x, x.double()))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3 * ctx.saved_tensors[0] ** 2


def written(x):
    x.mul_(2)
    return x.sin() * x


@pytest.mark.parametrize("function, options, reason", [
    (lambda x: Cube.apply(x.sin()), {}, "autograd_function_apply"),
    (lambda x: written(x * 1) if x.requires_grad else x, {}, ""),
    (written, {}, "input 0 of its graph, a tensor of shape \\(5, 6\\).*changed in place"),
    (torch.sin, {"fallback": False}, "fallback=False"),
])
def test_what_cannot_be_had_is_an_error(function, options, reason):
    """An error of ours, and not zeros; the first gradients are right."""
    torch._dynamo.reset()
    fast, x = torch.compile(function, backend="inferno", options=options), torch.randn(5, 6)
    x, exact = x.requires_grad_(), x.double().requires_grad_()
    given = [t * 1 for t in (x, exact)]
    ours, = torch.autograd.grad(fast(given[0]).sum(), x, create_graph=True)
    reference, = torch.autograd.grad(function(given[1]).sum(), exact, create_graph=True)
    assert_close(ours, reference)
    if not reason:
        assert_close(*(torch.autograd.grad(g.square().sum(), t)[0] for g, t in ((ours, x), (reference, exact))))
        return
    with pytest.raises(inferno.UnsupportedOperation, match=f"a gradient of a gradient.*{reason}.*torch.compiler.disable"):
        torch.autograd.grad(ours.square().sum(), x, allow_unused=True)


def test_weights_that_were_changed_are_an_error():
    model, x = nn.Linear(6, 1), torch.randn(5, 6, requires_grad=True)
    fast = compiled(lambda x: model(x).tanh())
    y = fast(x).sum()
    with torch.no_grad():
        model.bias.mul_(2)
    gradient, = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(inferno.UnsupportedOperation, match="a tensor of shape \\(1,\\).*was changed in place by the call or behind it"):
        gradient.square().sum().backward()
