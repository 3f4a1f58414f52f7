"""Models that several tests use."""

import torch
from torch import nn

F = nn.functional


class Block(nn.Module):
    """A layer of a transformer: norm, causal attention, and an MLP."""

    def __init__(self, heads: int = 2, size: int = 16):
        super().__init__()
        self.heads, self.norm, self.qkv = heads, nn.LayerNorm(size), nn.Linear(size, 3 * size)
        self.out, self.up, self.down = nn.Linear(size, size), nn.Linear(size, 2 * size), nn.Linear(2 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(x)))


class Convolutions(nn.Module):
    """Convolutions, a batch norm, and both kinds of pooling, on images of 3 channels."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3), nn.AdaptiveAvgPool2d(1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).flatten(1)


class Residuals(nn.Module):
    """MLPs around which the input is added: as many kernels, activations and gradients as there are layers."""

    def __init__(self, width: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def asserting(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """It is here since pytest rewrites what a test's own file asserts."""
    y = x * n
    assert (y.abs() < 100).all(), "y is too large"
    return y.exp().sum(1)
