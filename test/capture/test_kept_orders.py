"""What a training step keeps has channels last where kernels have it so: gradients are the same, and nothing is transposed on the way."""

import functools

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from inferno.capture import kept_orders
from inferno.capture.decompositions import table
from inferno.capture.rematerialise import partition_training
from inferno.runtime.region import backend

aten = torch.ops.aten


class Excited(nn.Module):
    """A depthwise convolution, weights for channels, and a 1x1 convolution."""

    def __init__(self, c):
        super().__init__()
        self.deep, self.norm = nn.Conv2d(c, c, 3, padding=1, groups=c, bias=False), nn.BatchNorm2d(c)
        self.few, self.many, self.out = nn.Conv2d(c, 4, 1), nn.Conv2d(4, c, 1), nn.Conv2d(c, 8, 1, bias=False)

    def forward(self, x):
        x = nn.functional.silu(self.norm(self.deep(x)))
        return self.out(x * torch.sigmoid(self.many(nn.functional.silu(self.few(x.mean((2, 3), keepdim=True))))))


class Dense(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.one, self.other, self.norm = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(2 * c, c, 3, padding=1), nn.BatchNorm2d(2 * c)

    def forward(self, x):
        y = self.one(x)
        return self.other(torch.relu(self.norm(torch.cat((x, y), 1)))) + y


class Viewed(nn.Module):
    """What views read lies as it did."""

    def __init__(self, c):
        super().__init__()
        self.one, self.norm, self.out = nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(2, c), nn.Linear(c * 64, 5)

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.one(x))).flatten(1))


def chain(conv, norm, c, **rest):
    return nn.Sequential(conv(c, 2 * c, 3, padding=1, **rest), norm(2 * c), nn.ReLU(), conv(2 * c, c, 3, padding=1, **rest), norm(c), nn.ReLU(), conv(c, 4, 1))


MODELS = {
    "2d": (lambda: chain(nn.Conv2d, nn.BatchNorm2d, 8), (3, 8, 8, 8)),
    "1d": (lambda: chain(nn.Conv1d, nn.BatchNorm1d, 8), (3, 8, 40)),
    "3d": (lambda: chain(nn.Conv3d, nn.BatchNorm3d, 8), (2, 8, 4, 6, 6)),
    "groups": (lambda: chain(nn.Conv2d, nn.BatchNorm2d, 8, groups=4), (3, 8, 8, 8)),
    "excited": (lambda: Excited(16), (3, 16, 8, 8)),
    "dense": (lambda: Dense(8), (3, 8, 8, 8)),
    "viewed": (lambda: Viewed(8), (3, 8, 8, 8)),
    "pool": (lambda: nn.Sequential(
        nn.Conv2d(8, 16, 3), nn.GELU(), nn.MaxPool2d(2), nn.Conv2d(16, 8, 1), nn.Upsample(scale_factor=2), nn.Conv2d(8, 8, 3),
    ), (2, 8, 8, 8)),
    "depthwise": (lambda: nn.Sequential(nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 8, 3, groups=8)), (2, 8, 9, 9)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(8, 6, 2, 2), nn.LeakyReLU(), nn.Conv2d(6, 8, 3)), (2, 8, 7, 5)),
}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(kept_orders, "_LEAST_BYTES", 0)


def gradients(call, module, x):
    module.zero_grad()
    given = x.clone().requires_grad_(True)
    y = call(given)
    (y * torch.arange(y.numel(), dtype=y.dtype).view_as(y).cos()).sum().backward()
    return [y.detach(), given.grad, *(p.grad.clone() for p in module.parameters())]


def right(name, call_of):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    module, x = make().train(), torch.randn(shape)
    d = make().double()
    d.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in module.state_dict().items()})
    exact = gradients(d.train(), d, x.double())
    for one, other in zip(gradients(call_of(module), module, x), exact):
        assert torch.allclose(one.double(), other, atol=2e-4, rtol=2e-4)


@pytest.mark.covering(most=1, also=lambda name: name in ("dense", "pool"))
@pytest.mark.parametrize("name", MODELS)
def test_gradients(name, small, monkeypatch):
    """By a backend for the CPU, which takes the graphs as one for a GPU would."""
    monkeypatch.setattr(backend, "partition_training", lambda *a, last, **rest: partition_training(*a, last=lambda joint: True, **rest))
    right(name, lambda module: torch.compile(module, backend="inferno"))


def graphs(module, x):
    """The forward and the backward."""
    found = []

    def keep(graph, inputs):
        found.append(graph)
        return torch._functorch.aot_autograd.make_boxed_func(graph.forward)

    compiler = aot_autograd(
        fw_compiler=keep, bw_compiler=keep, decompositions=table(), partition_fn=functools.partial(partition_training, last=lambda joint: True),
    )
    torch._dynamo.reset()
    gradients(torch.compile(module, backend=compiler), module, x)
    return found


def test_what_is_kept_has_channels_last(small):
    forward, backward = graphs(chain(nn.Conv2d, nn.BatchNorm2d, 8).train(), torch.randn(3, 8, 6, 8))
    (output,) = forward.graph.find_nodes(op="output")
    kept = [n.meta["val"] for n in output.args[0] if n is not None and n.target is aten.clone.default]
    assert {tuple(v.shape) for v in kept} == {(3, 6, 8, 16), (3, 6, 8, 8)} and all(v.is_contiguous() for v in kept)
    for call in backward.graph.find_nodes(op="call_function", target=aten.convolution_backward.default):
        assert call.args[0].meta["val"].is_contiguous(memory_format=torch.channels_last) or call.args[0].op == "placeholder"


@pytest.mark.parametrize("name", ["viewed", "depthwise"])
def test_others_stay(name, small):
    """Views read elements in their order in memory, and depthwise convolutions alone may be row-major."""
    make, shape = MODELS[name]
    forward, _ = graphs(make().train(), torch.randn(shape))
    assert not forward.graph.find_nodes(op="call_function", target=aten.clone.default)


def test_small_ones_stay():
    forward, _ = graphs(chain(nn.Conv2d, nn.BatchNorm2d, 8).train(), torch.randn(3, 8, 6, 8))
    assert not forward.graph.find_nodes(op="call_function", target=aten.clone.default)


def test_what_meets_the_gradient_of_a_result_stays(small):
    """That comes row-major, and a batch norm's sums read both."""
    forward, _ = graphs(nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)).train(), torch.randn(3, 8, 6, 8))
    assert not forward.graph.find_nodes(op="call_function", target=aten.clone.default)
