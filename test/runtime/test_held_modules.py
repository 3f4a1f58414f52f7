"""Functions that hold modules: by closures, names, objects, lists, decorators.  Their weights are the model's, whoever holds them."""

import types
import functools

import pytest
import torch
from torch import nn

import inferno

NET = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
NETS = [nn.Identity(), NET]
X = torch.arange(12.0).view(3, 4) / 12


def _named(x):
    return NET(x)


def _by_helper(x):
    return torch.stack([_named(x) for _ in range(2)])


class Trainer:
    def __init__(self, net):
        self.parts, self.other = {"the.net": net}, nn.Linear(3, 3).double()

    def step(self, x):
        return self.parts["the.net"](x)

    __call__ = step


def _closure():
    net = NET

    @torch.no_grad()
    def forward(x):
        return net(x)
    return forward


HOLDERS = {
    "name": _named, "helper": _by_helper, "list": lambda x: NETS[1](x), "closure, decorated": _closure(), "decorated": torch.inference_mode()(_named),
    "method": Trainer(NET).step, "object": Trainer(NET), "method of a module": NET.forward, "partial": functools.partial(lambda net, x: net(x), NET),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", HOLDERS)
@torch.no_grad()
def test_weights_that_change_are_seen(name):
    torch.manual_seed(0)
    NET.eval().float()
    function = HOLDERS[name]
    compiled = inferno.compile(function, (X,), fallback=False)
    assert [a.kind for a in compiled.program.signature.arguments] == ["parameter"] * 4 + ["input"]  # none of Trainer.other

    def same():
        torch.testing.assert_close(compiled(X), function(X), rtol=1e-5, atol=1e-6)

    same()
    NET[0].weight.mul_(2)
    same()
    NET[0].weight.data = torch.randn(4, 4)
    same()
    NET.load_state_dict({key: torch.randn_like(value) for key, value in NET.state_dict().items()}, assign=True)
    same()
    NET[2].bias = nn.Parameter(torch.randn(2))
    same()
    NET.train()
    with pytest.raises(inferno.ModelChanged, match="was compiled in eval mode and is in train mode now"):
        compiled(X)
    NET.eval()
    same()
    NET.double()
    with pytest.raises(inferno.InputError, match=r"0.weight: expected \(4, 4\) torch.float32 on cpu, got \(4, 4\) torch.float64"):
        compiled(X)
    NET.float()


@pytest.mark.parametrize("held", ["in a list", "by name"])
def test_tensors_get_other_data(held):
    """A tensor that no module holds, by whatever way the function comes to it."""
    weight = nn.Parameter(torch.ones(3))
    weights = type("Weights", (), {"__slots__": ("w",)})()
    weights.w = weight
    function = {"in a list": lambda x: x * [weights][0].w, "by name": lambda x: x * weight}[held]
    with torch.no_grad():
        compiled = inferno.compile(function, (torch.ones(3),), fallback=False)
        weight.data = torch.arange(3.0)
        assert compiled(torch.ones(3)).tolist() == [0, 1, 2]


class Average:
    """A moving average, which takes no tensor."""

    def __init__(self):
        self.net, self.mean, self.total = nn.Linear(2, 2), nn.Linear(2, 2), torch.zeros(2)

    @torch.no_grad()
    def update(self, decay):
        for mean, now in zip(self.mean.parameters(), self.net.parameters()):
            mean.mul_(decay).add_(now, alpha=1 - decay)

    @torch.no_grad()
    def count(self):
        self.total.mul_(0.5)

    @torch.no_grad()
    def scale_all(self):
        torch._foreach_mul_([self.total, *self.mean.parameters()], 0.5)


@pytest.mark.parametrize(("name", "args", "whole"), [("update", (0.9,), True), ("count", (), False), ("scale_all", (), False)])
def test_compiling_writes_to_nothing(name, args, whole):
    """torch.export does what writes numbers to a tensor that it does not know."""
    torch.manual_seed(0)
    ours, eager = Average(), Average()
    for average in (ours, eager):
        average.total.fill_(8)
        for i, p in enumerate((*average.net.parameters(), *average.mean.parameters())):
            nn.init.constant_(p, i + 1)
    compiled = inferno.compile(getattr(ours, name), args)
    assert isinstance(compiled, inferno.CompiledModule) is whole
    for _ in range(2):
        torch.testing.assert_close(ours.mean.state_dict(), eager.mean.state_dict())
        assert torch.equal(ours.total, eager.total)
        compiled(*args)
        getattr(eager, name)(*args)
    torch.testing.assert_close(ours.mean.state_dict(), eager.mean.state_dict())
    assert torch.equal(ours.total, eager.total)


def test_writes_that_torch_export_would_make_are_named():
    average = Average()
    with pytest.raises(inferno.CaptureError, match=r"writes to a tensor \(mul_\) that is no parameter, buffer or argument"):
        inferno.compile(average.count, (), fallback=False)
    assert average.total.tolist() == [0, 0]


class Counted(nn.Module):
    """Has a buffer, and another holder of it, by which it is written, as a cache's layers are."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.holder = types.SimpleNamespace(seen=self.seen)

    def forward(self, x):
        self.holder.seen.add_(1)
        return x + self.holder.seen


def test_a_buffer_that_another_holds_is_written_by_calls_alone():
    ours, eager, x = Counted(), Counted(), torch.ones(3)
    compiled = inferno.compile(ours, (x,), fallback=False)
    assert not ours.seen.any()
    for _ in range(2):
        assert torch.equal(compiled(x), eager(x)) and torch.equal(ours.seen, eager.seen)
