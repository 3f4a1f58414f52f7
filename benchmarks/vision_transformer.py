"""ViT-B/16 as torchvision has it (Dosovitskiy et al., 2021), of torch.nn alone: attention has no mask, which transformers' ViT makes one of."""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm and added to what came."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class VisionTransformer(nn.Module):
    """Images [batch, 3, size, size] to [batch, classes]."""

    def __init__(
        self, size: int = 224, patch: int = 16, layers: int = 12, heads: int = 12, width: int = 768, inner: int = 3072, classes: int = 1000,
    ) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embedding = nn.Parameter(torch.empty(1, (size // patch) ** 2 + 1, width).normal_(std=0.02))
        self.layers = nn.Sequential(*(Block(width, heads, inner) for _ in range(layers)))
        self.ln, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_proj(x).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embedding
        return self.head(self.ln(self.layers(x))[:, 0])
