"""The suites ``convolutions`` (every convolution of five known networks), ``depthwise``, with a bias and what follows in the network, and ``large-windows``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.case import Case
from benchmarks.memory_bound import ALL, TYPES

F = nn.functional


@dataclass(frozen=True)
class Layer:
    """A convolution of images of ``size`` x ``size``: ``features`` of ``channels`` by windows of ``window`` x ``window``."""

    network: str
    channels: int
    features: int
    window: int
    stride: int
    size: int
    groups: int = 1
    activation: Callable[[Tensor], Tensor] | None = F.relu
    transposed: bool = False

    def name(self, batch: int, type_: str) -> str:
        kind = "depthwise " if self.groups == self.channels > 1 else "transposed " if self.transposed else ""
        after = "" if self.activation is None else f" {self.activation.__name__}"
        by = f"/{self.stride}" if self.stride > 1 else ""
        return f"{kind}{self.window}x{self.window}{by}{after} {batch}x{self.channels}x{self.size}x{self.size} to {self.features} {type_}"


class Convolution(nn.Module):
    """One layer, with a bias and its activation."""

    def __init__(self, layer: Layer, dtype: torch.dtype, device: torch.device, channels_last: bool) -> None:
        super().__init__()
        settings = {"stride": layer.stride, "device": device, "dtype": dtype}
        if layer.transposed:
            self.convolution = nn.ConvTranspose2d(layer.channels, layer.features, layer.window, **settings)
        else:
            padding = layer.window // 2 if layer.window > layer.stride else 0
            self.convolution = nn.Conv2d(layer.channels, layer.features, layer.window, padding=padding, groups=layer.groups, **settings)
        self.activation = layer.activation
        if channels_last:
            self.to(memory_format=torch.channels_last)

    def forward(self, x: Tensor) -> Tensor:
        y = self.convolution(x)
        return y if self.activation is None else self.activation(y)


def _resnet50() -> Iterator[Layer]:
    yield Layer("ResNet-50", 3, 64, 7, 2, 224)
    given = 64
    for stage, (width, size) in enumerate(((64, 56), (128, 28), (256, 14), (512, 7))):
        stride = 1 if stage == 0 else 2
        yield Layer("ResNet-50", given, width, 1, 1, size * stride)
        yield Layer("ResNet-50", width, width, 3, stride, size * stride)
        yield Layer("ResNet-50", given, 4 * width, 1, stride, size * stride, activation=None)
        yield Layer("ResNet-50", width, 4 * width, 1, 1, size)
        yield Layer("ResNet-50", 4 * width, width, 1, 1, size)
        if stride > 1:
            yield Layer("ResNet-50", width, width, 3, 1, size)
        given = 4 * width


def _inverted(network: str, stages: tuple, stem: int, last: int, activation: Callable) -> Iterator[Layer]:
    """Networks of inverted residuals; ``stages``: (window, expansion, features, blocks, stride)."""
    yield Layer(network, 3, stem, 3, 2, 224, activation=activation)
    given, size = stem, 112
    for window, times, features, blocks, stride in stages:
        for block in range(min(blocks, 2)):  # the other ones are like the second
            by, inner = stride if block == 0 else 1, times * given
            if times > 1:
                yield Layer(network, given, inner, 1, 1, size, activation=activation)
            yield Layer(network, inner, inner, window, by, size, inner, activation)
            size //= by
            yield Layer(network, inner, features, 1, 1, size, activation=None)
            given = features
    yield Layer(network, given, last, 1, 1, size, activation=activation)


def _mobilenet_v2() -> Iterator[Layer]:
    stages = ((3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (3, 6, 32, 3, 2), (3, 6, 64, 4, 2), (3, 6, 96, 3, 1), (3, 6, 160, 3, 2), (3, 6, 320, 1, 1))
    return _inverted("MobileNetV2", stages, 32, 1280, F.relu6)


def _efficientnet_b0() -> Iterator[Layer]:
    stages = ((3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (5, 6, 40, 2, 2), (3, 6, 80, 3, 2), (5, 6, 112, 3, 1), (5, 6, 192, 4, 2), (3, 6, 320, 1, 1))
    return _inverted("EfficientNet-B0", stages, 32, 1280, F.silu)


def _convnext_tiny() -> Iterator[Layer]:
    yield Layer("ConvNeXt-T", 3, 96, 4, 4, 224, activation=None)
    for width, size in ((96, 56), (192, 28), (384, 14), (768, 7)):
        yield Layer("ConvNeXt-T", width, width, 7, 1, size, width, None)
        if size > 7:
            yield Layer("ConvNeXt-T", width, 2 * width, 2, 2, size, activation=None)


def _unet() -> Iterator[Layer]:
    """The one of Ronneberger et al. (2015), with padding, for images of 256 x 256."""
    given, size = 3, 256
    for width in (64, 128, 256, 512, 1024):
        yield Layer("UNet", given, width, 3, 1, size)
        yield Layer("UNet", width, width, 3, 1, size)
        given, size = width, size // 2
    size *= 2
    for width in (512, 256, 128, 64):
        yield Layer("UNet", 2 * width, width, 2, 2, size, activation=None, transposed=True)
        size *= 2
        yield Layer("UNet", 2 * width, width, 3, 1, size)
    yield Layer("UNet", 64, 2, 1, 1, size, activation=None)


def _case(layer: Layer, batch: int, type_: str, channels_last: bool, core: bool, group: str = "", rate: str | None = None) -> Case:
    def make(device: torch.device) -> tuple:
        x = torch.randn(batch, layer.channels, layer.size, layer.size, dtype=TYPES[type_], device=device)
        x = x.contiguous(memory_format=torch.channels_last) if channels_last else x
        return Convolution(layer, TYPES[type_], device, channels_last).eval(), (x,), {}

    order = " channels last" if channels_last else ""
    group = group or f"{layer.network} {batch} {type_}{order}"
    unit = 2**-10 if type_ == "f32" and layer.groups < layer.channels else None  # TF32's, which torch allows, and eager does not use for every shape
    return Case(layer.name(batch, type_) + order, make, ALL if core else ALL[:1], core=core, rate=rate, group=group, unit=unit)


def _convolutions() -> list[Case]:
    first = Layer("3x3", 64, 64, 3, 1, 56), Layer("3x3", 256, 256, 3, 1, 28)
    cases = [_case(first[0], 8, "f32", False, True), _case(first[1], 32, "f32", False, True), _case(first[1], 32, "bf16", True, True)]
    for network in (_resnet50, _mobilenet_v2, _convnext_tiny, _unet, _efficientnet_b0):
        for i, layer in enumerate(network()):
            for batch in (1, 32):
                cases.append(_case(layer, batch, "bf16", True, network is _resnet50 and i % 7 == 2))
                cases.append(_case(layer, batch, "bf16", False, False))
                cases.append(_case(layer, batch, "f32", False, False))
    return list({c.name: c for c in reversed(cases)}.values())[::-1]


def _depthwise() -> list[Case]:
    cases = []
    for type_ in ("bf16", "f32"):
        for window, width, size in ((7, 96, 56), (7, 384, 14), (3, 144, 56), (3, 96, 112), (5, 240, 28)):
            for stride in (1, 2) if window < 7 else (1,):
                for last in (True, False):
                    layer = Layer("", width, width, window, stride, size, width, None)
                    core = (type_, size, stride) in (("bf16", 56, 1), ("f32", 56, 1)) and last
                    cases.append(_case(layer, 128, type_, last, core, f"depthwise {window}x{window} {type_}", "copy"))
    return cases


def _windows() -> list[Case]:
    """Large depthwise windows, as of RepLKNet and UniRepLKNet, and a ResNeXt's groups of few channels."""
    cases = []
    for type_ in ("bf16", "f32"):
        for last in (False, True):
            for window, batch, width, size in (
                (13, 16, 512, 14), (13, 4, 128, 56), (17, 16, 256, 28), (31, 1, 128, 56), (31, 16, 128, 56), (29, 32, 256, 28), (51, 4, 128, 28),
            ):
                layer = Layer("", width, width, window, 1, size, width, None)
                cases.append(_case(layer, batch, type_, last, window == 31 and not last, f"large windows {type_}"))
            for width, stride, size in ((128, 1, 56), (256, 2, 56), (256, 1, 28), (512, 1, 14)):
                layer = Layer("", width, width, 3, stride, size, 32, None)
                cases.append(_case(layer, 16, type_, last, last and stride == 1, f"32 groups {type_}"))
    return cases


SUITES: dict[str, list[Case]] = {"convolutions": _convolutions(), "depthwise": _depthwise(), "large-windows": _windows()}
