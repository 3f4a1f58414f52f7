"""Calls of a compiled module under torch.func's transforms, with tangents, traced, and of tensors that are not plain."""

import logging

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.func import functional_call, functionalize, grad, jacrev, jvp, vjp, vmap
from torch.utils.flop_counter import FlopCounterMode

import inferno
from inferno.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # jit's


class Twofold(torch.Tensor):
    """Its tanh is twice that of a tensor."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 2 if func is torch.tanh else result


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return torch.tanh(self.linear(x))


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + 1


def volume(x):
    return torch.linalg.slogdet(torch.tanh(x @ x.t()) + 2 * torch.eye(6))[1] + x.sum(-1)


def branches(x):
    return torch.tanh(x) if x.shape[0] > 100 or x.sum() > -1e9 else x


def tangent(f, x):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, torch.ones_like(x)))).tangent


def fake(f, x, active=True):
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    given = mode.from_tensor(x)
    if not active:
        return tuple(f(given).shape)
    with mode:
        return tuple(f(given).shape)


def flops(f, x):
    with FlopCounterMode(display=False) as counter:
        f(x)
    return counter.get_total_flops()


X = torch.linspace(-1, 2, 36).reshape(6, 6)
CALLS = {
    "vmap": lambda f: vmap(f)(torch.stack([X, X * 2, X + 1])),
    "grad": lambda f: grad(lambda x: f(x).sum())(X),
    "vjp": lambda f: vjp(f, X)[0],
    "jvp": lambda f: jvp(f, (X,), (torch.ones_like(X),))[1],
    "jacrev": lambda f: jacrev(f)(X),
    "closed over": lambda f: grad(lambda y: (y * f(X).sum()).sum())(X),
    "functionalize": lambda f: functionalize(f)(X),
    "dual": lambda f: tangent(f, X),
    "fake": lambda f: fake(f, X),
    "fake, no mode": lambda f: fake(f, X, active=False),
    "make_fx": lambda f: make_fx(f)(X)(X * 2),
    "jit": lambda f: torch.jit.trace(f, (X,))(X * 2),
    "fx": lambda f: torch.fx.symbolic_trace(Around(f))(X * 2),
    "export": lambda f: torch.export.export(Around(f), (X,)).module()(X * 2),
    "flops": lambda f: flops(f, X),
    "subclass": lambda f: f(X.as_subclass(Twofold)),
    "zero tensor": lambda f: f(torch._efficientzerotensor((6, 6))),
}


@pytest.fixture(scope="module")
def modules():
    torch.manual_seed(0)
    found = {f: inferno.compile(f, (X,)) for f in (Layer().eval(), volume)}
    assert [type(c).__name__ for c in found.values()] == ["CompiledModule", "PiecewiseModule"]
    return found


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_what_eager_makes_of_it(modules, name):
    for model, compiled in modules.items():
        ours, expected = CALLS[name](compiled), CALLS[name](model)
        assert type(ours) is type(expected)
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
        assert torch.equal(compiled(X), compiled(X)) and not compiled(X).requires_grad, "the next call is an ordinary one"


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("name", ["dual", "fake"])
def test_a_call_of_what_dynamo_captured(name, warm):
    """Tangents were lost, and under its mode a FakeTensor was refused, whether or not the graph was there before."""
    torch._dynamo.reset()
    compiled = torch.compile(volume, backend="inferno")
    if warm:
        compiled(X)
    torch.testing.assert_close(CALLS[name](compiled), CALLS[name](volume))


def test_the_tangent_of_a_layer_that_is_trained():
    torch._dynamo.reset()
    layer = Layer()
    torch.testing.assert_close(tangent(torch.compile(layer, backend="inferno"), X), tangent(layer, X))


def test_parameters_in_lanes(modules):
    model, compiled = next(iter(modules.items()))
    weights = {"linear.weight": torch.randn(3, 6, 6), "linear.bias": torch.randn(3, 6)}
    ours, expected = (vmap(lambda w, m=m: functional_call(m, w, (X,)))(weights) for m in (compiled, model))
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_it_is_said_once(caplog):
    compiled = inferno.compile(torch.tanh, (X,))
    with caplog.at_level(logging.WARNING, "inferno"):
        vmap(compiled)(X.expand(2, 6, 6))
        vmap(compiled)(X.expand(2, 6, 6))
    said = [r.message for r in caplog.records if r.name.startswith("inferno") and r.levelno >= logging.WARNING]
    assert said == ["tanh runs in eager: a transform of torch.func, vmap, is active"]


def test_without_fallback_it_is_an_error():
    compiled = inferno.compile(torch.tanh, (X,), fallback=False)
    for name, words in {"vmap": "a transform of torch.func, vmap,", "dual": "an argument has a tangent", "subclass": "an argument is a Twofold",
                        "make_fx": "a ProxyTorchDispatchMode is active", "jit": "torch.jit.trace records it", "fx": "torch.fx traces it"}.items():
        with pytest.raises(InputError, match=f"cannot run compiled kernels: {words}.*fallback=False.*Call the original model"):
            CALLS[name](compiled)


def test_a_model_that_dynamo_captures():
    torch._dynamo.reset()
    compiled = inferno.compile(branches, (X,))
    for name in ("grad", "jvp", "functionalize", "jit", "flops"):
        torch.testing.assert_close(CALLS[name](compiled), CALLS[name](branches), rtol=1e-5, atol=1e-5)


def test_a_forward_derivative_within_a_model():
    """torch.export has a graph of it that does not run, and left the process where no other can begin."""
    torch._dynamo.reset()
    model = lambda x: jvp(lambda y: torch.softmax(y.sin() @ y.T, -1), (x,), (x * 2,))  # noqa: E731
    for ours, eager in zip(inferno.compile(model, (X,))(X), model(X)):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)


def test_conjugates_that_memory_does_not_hold():
    model = lambda z: z.real * 2 + z.imag  # noqa: E731
    z = torch.randn(4, 4, dtype=torch.complex64)
    compiled = inferno.compile(model, (z,), fallback=False)
    for given in (z, z.conj(), torch._neg_view(z)):
        assert torch.equal(compiled(given), model(given))


def test_zeros_without_memory_in_a_segment():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.tanh(x) + 1, backend="inferno")
    assert torch.equal(compiled(torch._efficientzerotensor((6, 6))), torch.ones(6, 6))
    with pytest.raises(InputError, match="a FakeTensor came where compiled kernels run"):
        compiled(FakeTensorMode().from_tensor(X))


class Doubled(torch.Tensor):
    """A weight that is twice what it holds."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)

    def __init__(self, held):
        self.held = held

    def __tensor_flatten__(self):
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(inner, *_):
        return Doubled(inner["held"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return Doubled(args[0].held)
        return func(*[a.held * 2 if isinstance(a, Doubled) else a for a in args], **(kwargs or {}))


def test_a_weight_of_another_class():
    torch._dynamo.reset()
    model = nn.Linear(4, 4).requires_grad_(False)
    model.weight = nn.Parameter(Doubled(torch.randn(4, 4)), requires_grad=False)
    x = torch.randn(2, 4)
    torch.testing.assert_close(inferno.compile(model, (x,))(x), model(x))
    with pytest.raises(inferno.CaptureError, match="part of a parameter, which is a tensor of another class"):
        inferno.compile(model, (x,), fallback=False)
