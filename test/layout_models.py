"""Parts of convolutional networks, ``width`` times as wide as they need to be to be small, and images for them."""

import torch
from torch import nn

F = nn.functional


def norm(channels):
    made = nn.BatchNorm2d(channels)
    made.running_mean.normal_()
    made.running_var.uniform_(0.5, 2)
    nn.init.uniform_(made.weight, 0.5, 2)
    return made


class Residual(nn.Module):
    """A strided bottleneck of ResNet and the next one's first convolution."""

    def __init__(self, width: int = 1):
        super().__init__()
        a, b, c = 4 * width, 8 * width, 16 * width
        self.down, self.middle, self.up = nn.Conv2d(b, a, 1, bias=False), nn.Conv2d(a, a, 3, 2, 1, bias=False), nn.Conv2d(a, c, 1, bias=False)
        self.short, self.next = nn.Conv2d(b, c, 1, 2, bias=False), nn.Conv2d(c, a, 1)
        self.norms = nn.ModuleList(map(norm, (a, a, c, c)))

    def forward(self, x):
        a, b, c, d = self.norms
        y = F.relu(c(self.up(F.relu(b(self.middle(F.relu(a(self.down(x))))))) + d(self.short(x))))
        return F.adaptive_avg_pool2d(self.next(y), 1).flatten(1)


class Inverted(nn.Module):
    """A depthwise convolution between two of 1x1, and a gate for each channel."""

    def __init__(self, width: int = 1):
        super().__init__()
        a, b = 4 * width, 8 * width
        self.up, self.each, self.down = nn.Conv2d(a, b, 1), nn.Conv2d(b, b, 3, padding=1, groups=b), nn.Conv2d(b, a, 1)
        self.squeeze, self.excite = nn.Conv2d(b, 2 * width, 1), nn.Conv2d(2 * width, b, 1)

    def forward(self, x):
        y = F.silu(self.each(F.silu(self.up(x))))
        return (x + self.down(y * torch.sigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1))))))).amax((2, 3))


class Unet(nn.Module):
    """Two levels, a concatenation, grouped convolutions, and an image as the result."""

    def __init__(self, width: int = 1):
        super().__init__()
        a, b = 4 * width, 8 * width
        self.a, self.b, self.c = nn.Conv2d(3, a, 3, padding=1), nn.Conv2d(a, b, 3, padding=1, groups=2), nn.Conv2d(a + b, a, 3, padding=1)
        self.head = nn.Conv2d(a, 2, 1)

    def forward(self, x):
        a = F.relu(self.a(x))
        b = F.interpolate(F.relu(self.b(F.max_pool2d(a, 3, 2, 1))), scale_factor=2.0)
        return self.head(F.relu(self.c(torch.cat([a, b], 1))))


class Channels(nn.Module):
    """ConvNeXt's block: what is around its norm and matmuls permutes the channels to the end and back."""

    def __init__(self, width: int = 1):
        super().__init__()
        a = 8 * width
        self.each, self.norm, self.up, self.down = nn.Conv2d(a, a, 5, padding=2, groups=a), nn.LayerNorm(a), nn.Linear(a, 2 * a), nn.Linear(2 * a, a)
        self.patch, self.scale = nn.Conv2d(3, a, 2, 2), nn.Parameter(torch.rand(a))

    def forward(self, x):
        x = self.patch(x)
        y = self.down(F.gelu(self.up(self.norm(self.each(x).permute(0, 2, 3, 1))))) * self.scale
        return (x + y.permute(0, 3, 1, 2)).mean((2, 3))


class Sequence(nn.Module):
    """Whisper's first two convolutions, in one dimension, into tokens."""

    def __init__(self, width: int = 1):
        super().__init__()
        self.a, self.b = nn.Conv1d(8 * width, 8 * width, 3, padding=1), nn.Conv1d(8 * width, 8 * width, 3, stride=2, padding=1)

    def forward(self, x):
        return F.layer_norm(F.gelu(self.b(F.gelu(self.a(x)))).permute(0, 2, 1), (self.b.out_channels,))


class Volume(nn.Module):
    """Three spatial dimensions, of which the second convolution's window has one plane."""

    def __init__(self, width: int = 1):
        super().__init__()
        self.a, self.b = nn.Conv3d(3, 4 * width, 3, padding=1), nn.Conv3d(4 * width, 4 * width, (1, 3, 3), padding=(0, 1, 1))

    def forward(self, x):
        return self.b(F.relu(self.a(x))).flatten(1)


class Inside(nn.Module):
    """An image that lies channels last already, as the result does then."""

    def __init__(self, width: int = 1):
        super().__init__()
        self.a, self.b = nn.Conv2d(4 * width, 8 * width, 3, padding=1), nn.Conv2d(8 * width, 8 * width, 3)

    def forward(self, x):
        return F.relu(self.b(torch.tanh(self.a(x))))


def image(name: str, size: int = 8, batch: int = 2, width: int = 1) -> torch.Tensor:
    """Random normal numbers for a model by its name."""
    if name == "sequence":
        return torch.randn(batch, 8 * width, size)
    if name == "volume":
        return torch.randn(batch, 3, size, size, size)
    channels = {"residual": 8 * width, "inverted": 4 * width, "inside": 4 * width}.get(name, 3)
    made = torch.randn(batch, channels, size, size)
    return made.contiguous(memory_format=torch.channels_last) if name == "inside" else made


MODELS = {
    "residual": Residual, "inverted": Inverted, "unet": Unet, "channels": Channels, "sequence": Sequence, "volume": Volume, "inside": Inside,
}
