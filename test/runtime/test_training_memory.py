"""What a training step keeps in memory: the launch plans' bytes, counted without a GPU."""

import pytest
import torch
from benchmarks.memory import measure
from torch import nn

from inferno.capture import rematerialise
from inferno.runtime.launch import chunks

F = nn.functional


class Net(nn.Module):
    """Layers whose activations are much more than what a kernel of them needs beside."""

    def __init__(self, layers: int = 4, width: int = 160):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


def step(module: nn.Module, *shape: int):
    x = torch.randn(shape)
    return measure(module, lambda call: call(x).square().mean(), "cpu")


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("apart", [False, True], ids=["one call", "chunks"])
def test_what_is_kept_is_freed_while_the_backward_runs(monkeypatch, apart):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1 << (16 if apart else 40))
    monkeypatch.setattr(rematerialise, "LEAST_BYTES", 1)
    net = Net()
    found = step(net, 512, 160)
    activation, gradients = 512 * 160 * 4, sum(p.nbytes for p in net.parameters())
    # A layer keeps its hidden values before and behind the GELU, four activations each, and its normalised input; there is one result.
    assert found.kept <= (4 * 9 + 1.1) * activation and gradients > 10 * activation
    # In one call all that is kept and all gradients are there together.
    assert (found.backward < found.kept + gradients) == apart


def test_attention_keeps_what_it_is_made_of(monkeypatch):
    monkeypatch.setattr(rematerialise, "LEAST_BYTES", 1)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(256, 768), nn.Linear(256, 256)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, 8, 32)).permute(2, 0, 3, 1, 4)
            return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    found = step(Attention(), 2, 256, 256)
    values, scores = 2 * 256 * 256 * 4, 2 * 8 * 256 * 256 * 4
    assert found.kept < 6 * values < scores < found.backward


def test_the_other_gradient_of_a_convolution_does_not_stay(monkeypatch):
    """What an eager operation returns is let go one by one."""
    net = nn.Sequential(nn.Conv2d(4, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1))
    found = step(net, 8, 4, 32, 32)
    image = 8 * 16 * 32 * 32 * 4
    assert found.kept <= 4.1 * image and found.backward <= found.kept + 3.1 * image
