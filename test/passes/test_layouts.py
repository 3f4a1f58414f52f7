"""Small convolutional networks in the layouts that are chosen for them: right against float64, and no tensor is transposed but the program's own."""

import re

import pytest
import torch
from checks import assert_close_to_float64
from oracle import run_module
from torch import nn

from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.target import find_target

F = nn.functional
LAST = torch.channels_last


def norm(channels):
    made = nn.BatchNorm2d(channels)
    made.running_mean.normal_()
    made.running_var.uniform_(0.5, 2)
    nn.init.uniform_(made.weight, 0.5, 2)
    return made


class Residual(nn.Module):
    """A strided bottleneck of ResNet and the next one's first convolution."""

    def __init__(self):
        super().__init__()
        self.down, self.middle, self.up = nn.Conv2d(8, 4, 1, bias=False), nn.Conv2d(4, 4, 3, 2, 1, bias=False), nn.Conv2d(4, 16, 1, bias=False)
        self.short, self.next = nn.Conv2d(8, 16, 1, 2, bias=False), nn.Conv2d(16, 4, 1)
        self.norms = nn.ModuleList(map(norm, (4, 4, 16, 16)))

    def forward(self, x):
        a, b, c, d = self.norms
        y = F.relu(c(self.up(F.relu(b(self.middle(F.relu(a(self.down(x))))))) + d(self.short(x))))
        return F.adaptive_avg_pool2d(self.next(y), 1).flatten(1)


class Inverted(nn.Module):
    """A depthwise convolution between two of 1x1, and a gate for each channel."""

    def __init__(self):
        super().__init__()
        self.up, self.each, self.down = nn.Conv2d(4, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 4, 1)
        self.squeeze, self.excite = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)

    def forward(self, x):
        y = F.silu(self.each(F.silu(self.up(x))))
        return (x + self.down(y * torch.sigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1))))))).amax((2, 3))


class Unet(nn.Module):
    """Two levels, a concatenation, grouped convolutions, and an image as the result."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1, groups=2), nn.Conv2d(12, 4, 3, padding=1)
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = F.relu(self.a(x))
        b = F.interpolate(F.relu(self.b(F.max_pool2d(a, 3, 2, 1))), scale_factor=2.0)
        return self.head(F.relu(self.c(torch.cat([a, b], 1))))


class Channels(nn.Module):
    """ConvNeXt's block: what is around its norm and matmuls permutes the channels to the end and back."""

    def __init__(self):
        super().__init__()
        self.each, self.norm, self.up, self.down = nn.Conv2d(8, 8, 5, padding=2, groups=8), nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.patch, self.scale = nn.Conv2d(3, 8, 2, 2), nn.Parameter(torch.rand(8))

    def forward(self, x):
        x = self.patch(x)
        y = self.down(F.gelu(self.up(self.norm(self.each(x).permute(0, 2, 3, 1))))) * self.scale
        return (x + y.permute(0, 3, 1, 2)).mean((2, 3))


class Sequence(nn.Module):
    """Whisper's first two convolutions, in one dimension, into tokens."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv1d(8, 8, 3, padding=1), nn.Conv1d(8, 8, 3, stride=2, padding=1)

    def forward(self, x):
        return F.layer_norm(F.gelu(self.b(F.gelu(self.a(x)))).permute(0, 2, 1), (8,))


class Volume(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv3d(3, 4, 3, padding=1), nn.Conv3d(4, 4, (1, 3, 3), padding=(0, 1, 1))

    def forward(self, x):
        return self.b(F.relu(self.a(x))).flatten(1)


class Inside(nn.Module):
    """An image that lies channels last already, as the result does then."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3)

    def forward(self, x):
        return F.relu(self.b(torch.tanh(self.a(x))))


# name: (model, input, kernels, transposed): how many kernels fusion leaves, but for those that lay out weights and invert variances, and the shapes
# that tensors other than weights are transposed to.
CASES = {
    "residual": (Residual, lambda: torch.randn(2, 8, 8, 8), 8, ["2x8x8x8"]),
    "inverted": (Inverted, lambda: torch.randn(1, 4, 8, 8), 9, []),
    "unet": (Unet, lambda: torch.randn(2, 3, 8, 8), 9, ["2x8x8x3", "2x2x8x8"]),
    "channels": (Channels, lambda: torch.randn(2, 3, 8, 8), 10, []),
    "sequence": (Sequence, lambda: torch.randn(2, 8, 10), 7, ["2x10x8"]),
    "volume": (Volume, lambda: torch.randn(1, 3, 4, 4, 4), 4, ["4x4x4x3", "4x4x4x4"]),
    "inside": (Inside, lambda: torch.randn(2, 4, 6, 6).contiguous(memory_format=LAST), 2, []),
}


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")


def compile_to(stage, model, x):
    found = capture(model, (x,))
    return found, build_from("torch", found.text, find_target("sm_90a"), last=stage, signature=found.signature).stages


@pytest.mark.parametrize("name", CASES)
def test_layouts_are_right(name):
    make, image, kernels, transposed = CASES[name]
    torch.manual_seed(0)
    model, x = make().eval(), image()
    found, stages = compile_to("scheduled", model, x)
    for stage in ("fused", "scheduled"):
        (result,) = run_module(stages[stage], [t.contiguous() for t in found.signature.arguments_of((x,), {})])
        assert_close_to_float64(found.signature.results[0].as_eager(result), model, (x,))
    calls = re.findall(r"call @(\w+)\((.*?)\).*-> tensor<(\w+)xf32>", stages["fused"])
    weights = {f"%arg{i}" for i, a in enumerate(found.signature.arguments) if a.kind != "input"}
    weights |= {new for new, old in re.findall(r"(%\w+) = tensor.collapse_shape (%\w+)", stages["fused"]) if old in weights}
    rest = [(n, shape) for n, given, shape in calls if not (n.startswith(("transpose", "addf_sqrt_divf")) and given.split(", ")[0] in weights)]
    assert [shape for n, shape in rest if n.startswith("transpose")] == transposed
    assert len(rest) == kernels


def test_convolutions_have_a_flag_of_their_own_for_tf32(monkeypatch):
    model = nn.Sequential(nn.Conv2d(4, 8, 1), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(8, 4))
    for allowed in (True, False):
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", allowed)
        text = compile_to("scheduled", model, torch.randn(2, 4, 3, 3))[1]["scheduled"]
        functions = re.findall(r"private @(\w+)\(.*attributes \{(.*)", text)
        assert {n for n, attributes in functions if "tf32" in attributes} == ({"matmul_addf", "matmul_addf_1"} if allowed else set())
        assert len([n for n, _ in functions if n.startswith(("matmul", "conv"))]) == 3
