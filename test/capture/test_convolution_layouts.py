"""Results of convolutions lie in memory as eager's do, which torch.export without its libraries does not know."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import inferno
from inferno.capture import capture
from inferno.capture.convolution_layouts import convolutions_as_eager

LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


@pytest.mark.covering
@pytest.mark.parametrize("image, weights", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("layer, dims", [(nn.Conv2d, 2), (nn.Conv3d, 3), (nn.ConvTranspose2d, 2), (nn.ConvTranspose3d, 3)])
def test_as_eager(layer, dims, image, weights):
    model, x = nn.Sequential(layer(8, 16, 3), nn.ReLU()), torch.randn(2, 8, *[5] * dims)
    model = model.to(memory_format=LAST[dims]) if weights else model
    x = x.contiguous(memory_format=LAST[dims]) if image else x
    eager, (result,) = model(x), capture(model, (x,)).signature.results
    assert result.as_eager(torch.empty([eager.shape[d] for d in sorted(range(dims + 2), key=lambda d: -eager.stride(d))])).stride() == eager.stride()


@pytest.mark.skipif(not torch.backends.cudnn.is_available(), reason="needs a torch that was built with cuDNN")
def test_of_a_gpu():
    """A fake one: which library computes is known without it."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        x, w = (torch.empty(s, device="cuda").to(memory_format=torch.channels_last) for s in ((4, 16, 9, 9), (24, 16, 3, 3)))

    class Model(nn.Module):
        def forward(self, x, w):
            return torch.conv2d(x, w)

    with torch.no_grad(), convolutions_as_eager():
        graph = torch.export.export(Model(), (x, w), strict=False).graph
    (made,) = [n.meta["val"] for n in graph.nodes if n.op == "call_function"]
    assert made.is_contiguous(memory_format=torch.channels_last)


def test_exports_of_others_teach_nothing():
    model, x = nn.Conv3d(8, 16, 3).to(memory_format=torch.channels_last_3d), torch.randn(2, 8, 7, 6, 5).to(memory_format=torch.channels_last_3d)
    torch.export.export(model, (x,), strict=False)
    (result,) = capture(model, (x,)).signature.results
    assert result.strides == model(x).stride()


@pytest.mark.parametrize("program", [
    lambda y: y, lambda y: (y.relu_(), y[:, :4]), lambda y: (y.permute(0, 2, 3, 4, 1), y * 2),
], ids=["whole", "parts", "views"])
def test_programs_that_were_exported_elsewhere(program):
    """Their own values are what torch.export took them for; they stay so."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv3d(8, 16, 3)

        def forward(self, x):
            return program(self.layer(x))

    model, x = Model().to(memory_format=torch.channels_last_3d), torch.randn(2, 8, 6, 7, 5).to(memory_format=torch.channels_last_3d)
    with torch.no_grad():
        exported = torch.export.export(model, (x,), strict=False)
        before = [n.meta["val"].stride() for n in exported.graph.nodes if n.op == "call_function"]
        compiled, eager = inferno.compile(exported, (x,), target="cpu"), model(x)
        for ours, right in zip(*map(torch.utils._pytree.tree_leaves, (compiled(x), eager)), strict=True):
            torch.testing.assert_close(ours, right)
            assert ours.stride() == right.stride()
    assert [n.meta["val"].stride() for n in exported.graph.nodes if n.op == "call_function"] == before


def test_switches_are_as_before():
    before = torch.backends.cudnn.enabled, torch.backends.mkldnn.enabled
    with torch.backends.mkldnn.flags(enabled=False):
        capture(nn.Conv2d(8, 16, 3), (torch.randn(2, 8, 5, 5),))
        assert not torch.backends.mkldnn.enabled
    assert (torch.backends.cudnn.enabled, torch.backends.mkldnn.enabled) == before
