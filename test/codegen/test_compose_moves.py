"""Rows that are moved several times are moved once, by the simulator."""

import pytest
import torch
from checks import check
from torch import nn
from universal_program import SimulatedModel

from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")
F = nn.functional


class Shifted(nn.Module):
    """A block of a Swin transformer, with a linear layer in the place of attention."""

    def __init__(self, width: int, side: int, shift: int) -> None:
        super().__init__()
        self.norms, self.inner, self.side, self.shift = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)]), nn.Linear(width, width), side, shift

    def forward(self, x):
        batch, height, width, channels = x.shape
        y = torch.roll(self.norms[0](x), (-self.shift, -self.shift), (1, 2))
        y = y.unflatten(2, (-1, self.side)).unflatten(1, (-1, self.side)).transpose(2, 3).reshape(-1, self.side ** 2, channels)
        y = self.inner(y).view(batch, height // self.side, width // self.side, self.side, self.side, channels)
        x = x + torch.roll(y.transpose(2, 3).reshape(x.shape), (self.shift, self.shift), (1, 2))
        return x, self.norms[1](x)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype, width", [(torch.float32, 16), (torch.bfloat16, 40)])
def test_shifted_windows(dtype, width):
    """The norm in windows, the product, and all behind it."""
    torch.manual_seed(0)
    model, args = Shifted(width, 3, 1).to(dtype).requires_grad_(False), (torch.randn(2, 6, 9, width).to(dtype),)
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes="fuse-reductions{target=sm_90a always=1}", expand=True)
    assert len(simulated.program.plan.steps) == 3
    found = check(simulated, model, args)
    assert found.right, str(found)


def test_channels_are_rolled_as_they_were():
    """Along the last dimension neighbours are pieces."""
    args = (torch.randn(3, 40),)
    simulated = SimulatedModel(lambda x: torch.roll(torch.roll(x, 3, 0), 5, 1), args, choose=lambda k: assign.choose(k, TARGET), expand=True)
    assert torch.equal(simulated(*args), torch.roll(args[0], (3, 5), (0, 1)))


def test_a_norm_that_is_repeated_is_computed_once():
    """A token that every row gets is normalized in front."""
    args = (torch.randn(2, 1, 32),)
    simulated = SimulatedModel(
        lambda x: F.layer_norm(x, (32,)).expand(2, 6, 32).reshape(2, 2, 3, 32).transpose(1, 2).contiguous(), args,
        choose=lambda k: assign.choose(k, TARGET), passes="fuse-reductions{target=sm_90a always=1}", expand=True)
    assert simulated.program.gpu.count("math.rsqrt") == 1
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, lambda x: F.layer_norm(x, (32,)).expand(2, 6, 32).reshape(2, 2, 3, 32).transpose(1, 2), args)
    assert found.right, str(found)
