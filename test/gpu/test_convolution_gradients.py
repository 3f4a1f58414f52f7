"""Transposed convolutions and gradients of convolutions by kernels of ours, against float64."""

import copy

import pytest
import torch
from checks import assert_right, check
from on_gpu import on_hopper
from torch import nn

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("unmeasured"),
]

aten = torch.ops.aten
DTYPES = [torch.bfloat16, torch.float16, torch.float32]
TRANSPOSED = {
    "unet": (nn.ConvTranspose2d(128, 64, 2, 2), (2, 128, 28, 28)),
    "decoder": (nn.Sequential(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU()), (3, 64, 15, 17)),
    "3x3 by 2": (nn.ConvTranspose2d(64, 128, 3, 2, 1, 1), (2, 64, 14, 14)),
    "as it is": (nn.ConvTranspose2d(64, 128, 3, 1, 1), (2, 64, 14, 14)),
    "few channels": (nn.ConvTranspose2d(20, 3, 4, 2, 1), (2, 20, 14, 14)),
    "few channels in groups": (nn.ConvTranspose2d(48, 6, 4, 2, 1, groups=2), (2, 48, 14, 14)),
    "vocoder": (nn.ConvTranspose1d(128, 64, 16, 8, 4), (2, 128, 50)),
    "3d": (nn.ConvTranspose3d(32, 16, 2, 2), (1, 32, 6, 7, 8)),
    "depthwise": (nn.ConvTranspose2d(64, 64, 3, 2, 1, groups=64), (2, 64, 14, 14)),
    "by 3, dilated": (nn.ConvTranspose2d(64, 32, 3, 3, 1, 1, dilation=2), (2, 64, 9, 11)),
}
CONVOLUTIONS = {
    "1x1": (nn.Conv2d(256, 64, 1), (4, 256, 28, 28)),
    "1x1 by 2": (nn.Conv2d(256, 512, 1, 2), (4, 256, 28, 28)),
    "3x3": (nn.Conv2d(64, 128, 3, padding=1), (4, 64, 28, 28)),
    "3x3 by 2": (nn.Conv2d(128, 128, 3, 2, 1), (4, 128, 28, 28)),
    "5x3 by 2 and 1": (nn.Conv2d(40, 72, (5, 3), (2, 1), (2, 0)), (3, 40, 29, 31)),
    "1d": (nn.Conv1d(80, 384, 3, 2, 1), (2, 80, 500)),
    "depthwise": (nn.Conv2d(96, 96, 7, padding=3, groups=96), (2, 96, 14, 14)),
    "transposed": (nn.ConvTranspose2d(128, 64, 4, 2, 1), (2, 128, 14, 14)),
}


def unit(dtype):
    """Float32 by TF32."""
    return 2**-10 if dtype == torch.float32 else None


@pytest.mark.parametrize("last", [True, False], ids=["channels last", "row-major"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed(name, dtype, last):
    layer, shape = TRANSPOSED[name]
    layer, x = copy.deepcopy(layer).eval().to("cuda", dtype), torch.randn(shape, device="cuda", dtype=dtype)
    if last and x.dim() == 4:
        layer, x = layer.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    compiled = assert_right(layer, (x,), unit=unit(dtype))
    assert not any("insert_slice" in row.kernel for row in compiled.explain().rows)


@pytest.mark.parametrize("last", [True, False], ids=["channels last", "row-major"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_input_gradients(name, dtype, last):
    layer, shape = CONVOLUTIONS[name]
    how = layer.stride, layer.padding, layer.dilation, layer.transposed, layer.output_padding, layer.groups
    weight, x = layer.weight.detach().to("cuda", dtype), torch.randn(shape, device="cuda", dtype=dtype)
    gradient = torch.randn(layer.cuda().float()(x.float()).shape, device="cuda", dtype=dtype)
    if last and x.dim() == 4:
        gradient, x, weight = (t.to(memory_format=torch.channels_last) for t in (gradient, x, weight))
    run = lambda g, x, w: aten.convolution_backward(g, x, w, None, *how, [True, False, False])[0]  # noqa: E731
    compiled = assert_right(run, (gradient, x, weight), unit=unit(dtype))
    assert not {"universal", "library"} & {row.generator for row in compiled.explain().rows}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window, dilation", [(7, 1), (3, 2)])
def test_input_gradients_of_images_of_any_size(window, dilation, dtype):
    how = [1, 1], [window // 2 * dilation] * 2, [dilation] * 2, False, [0, 0], 64

    def run(x, w):
        return aten.convolution_backward(aten.convolution(x, w, None, *how), x, w, None, *how, [True, False, False])[0]

    images = [torch.randn(2, 64, *size, device="cuda", dtype=dtype) for size in ((28, 30), (9, 64), (56, 17))]
    weight = torch.randn(64, 1, window, window, device="cuda", dtype=dtype) / window
    compiled = assert_right(run, (images[0], weight), unit=unit(dtype), dynamic_shapes=({2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}, {}))
    assert "windows" in {row.generator for row in compiled.explain().rows}
    for x in images[1:]:
        assert check(compiled, run, (x, weight), unit=unit(dtype)).right


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_both_gradients(dtype, window):
    """Of many pixels, in channels-last order."""
    shapes = (8, 128, 56, 56), (8, 64, 56, 56), (128, 64, window, window)
    args = tuple(torch.randn(shape, device="cuda", dtype=dtype).to(memory_format=torch.channels_last) for shape in shapes)
    how = [1, 1], [window // 2] * 2, [1, 1], False, [0, 0], 1
    compiled = assert_right(lambda g, x, w: aten.convolution_backward(g, x, w, None, *how, [True, True, False])[:2], args)
    assert not {"universal", "library"} & {row.generator for row in compiled.explain().rows}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_training(dtype):
    """All gradients of a small network, in channels-last order."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 32, 1), nn.ReLU(), nn.ConvTranspose2d(32, 16, 2, 2), nn.Conv2d(16, 8, 3, padding=1),
    ).to("cuda", dtype, memory_format=torch.channels_last)
    x = torch.randn(4, 3, 32, 32, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)
    found = {}
    double = copy.deepcopy(model).double()
    for kind, made, given, owner in (
        ("eager", model, x, model), ("ours", torch.compile(model, backend="inferno"), x, model), ("exact", double, x.double(), double),
    ):
        owner.zero_grad()
        made(given).square().mean().backward()
        found[kind] = {n: p.grad.clone().double() for n, p in owner.named_parameters()}
    largest = max(e.norm() for e in found["exact"].values())
    for name, exact in found["exact"].items():
        ours, eager = ((found[k][name] - exact).norm() for k in ("ours", "eager"))
        assert ours <= max(1.5 * eager, (unit(dtype) or torch.finfo(dtype).eps) * exact.norm(), 1e-6 * largest), name
