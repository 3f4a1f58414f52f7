"""Depthwise convolutions of large windows as convolutions in groups: the numbers, and when they are."""

import pytest
import torch
from checks import check, scheduled
from choices import generators
from large_windows import LAYERS
from torch import nn

import inferno
from inferno.capture.decompositions import large_windows


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", LAYERS)
def test_numbers(monkeypatch, name, dtype):
    monkeypatch.setattr(large_windows, "for_hopper", lambda tensor: True)
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    layer, args = make().to(dtype).requires_grad_(False), (torch.randn(shape, dtype=dtype),)
    compiled = inferno.compile(layer, args)
    assert any("reshape" in op or "view" in op for op in compiled.ir("torch").split()), "it is taken apart"
    found = check(compiled, layer, args)
    assert found.right, str(found)


def _generators(layer: nn.Module, *shape: int, target: str = "sm_90a", dtype: torch.dtype = torch.bfloat16) -> list[str]:
    return generators(layer.to(dtype).requires_grad_(False), (torch.empty(shape, dtype=dtype),), target)


def test_by_tensor_cores():
    found = _generators(nn.Conv2d(128, 128, 31, padding=15, groups=128), 4, 128, 56, 56)
    assert "group_windows" in found and "simt" not in found
    found = _generators(nn.Conv2d(128, 128, 31, padding=15, groups=128), 4, 128, 56, 56, dtype=torch.float32)
    assert any("bf16x6" in g for g in found) and "simt" not in found


def test_one_channel_of_many_windows_is_read_as_rows_that_overlap():
    """A spectrogram's signal: nothing is laid out for the product, and two of it are one kernel."""
    class Power(nn.Module):
        def __init__(self):
            super().__init__()
            self.cosine, self.sine = (nn.Conv1d(1, 201, 400, stride=160, bias=False) for _ in range(2))

        def forward(self, x):
            return self.cosine(x).square() + self.sine(x).square()

    layers = (
        (Power(), (4, 1, 80000), torch.float32, "dual_bf16x6"), (nn.Conv1d(1, 201, 400, stride=160), (4, 1, 80000), torch.bfloat16, "wgmma"),
        (nn.Conv2d(1, 768, 16, stride=10), (8, 1, 128, 1024), torch.bfloat16, "wgmma"),
    )
    for layer, shape, dtype, generator in layers:
        found = _generators(layer, *shape, dtype=dtype)
        assert generator in found and len(found) <= 2, "and what gives the result the order that is asked for"


def test_small_windows_are_walked():
    assert _generators(nn.Conv2d(64, 64, 7, padding=3, groups=64), 4, 64, 28, 28) == ["windows"]


def test_float32_is_never_rounded():
    """As cuDNN rounds none to TF32: the groups' channels are no whole vectors, which is how the others are told."""
    for columns in (12, 14, 56):
        text = scheduled(nn.Conv2d(32, 32, 13, padding=6, groups=32).requires_grad_(False), (torch.empty(2, 32, 14, columns),)).stages["scheduled"]
        assert "tf32" not in text


def test_other_devices_have_libraries():
    layer = nn.Conv2d(8, 8, 13, padding=6, groups=8).requires_grad_(False)
    assert inferno.compile(layer, (torch.randn(1, 8, 14, 14),)).explain().launches == 1


@pytest.mark.parametrize("images, width, window, size, places", [
    (16, 56, 31, 2, 16), (1, 56, 31, 2, 16), (16, 14, 13, 2, 16), (16, 56, 31, 4, 56), (8, 112, 31, 4, 32),
])
def test_blocks_that_were_the_fastest(images, width, window, size, places):
    """On an H200."""
    blocks = large_windows._choose(width, width, images * width, window, window, 1, window // 2, size)
    assert blocks.places == places and blocks.count * blocks.places >= width
