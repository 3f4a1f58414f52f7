"""Convolutions on CUDA cores of images whose height, width and number vary, on the simulator: of other sizes than the example's, in any layout."""

import random

import pytest
import torch
from checks import assert_close_to_float64
from kernels import TARGET
from sized_models import SizedModel
from torch import nn
from torch.export import Dim

from inferno.capture.decompositions import convolution_gradients
from inferno.schedule.convolution import windows
from inferno.schedule.maps.elementwise import Elementwise


def first(x: torch.Tensor) -> torch.Tensor:
    return x


def last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x.contiguous(memory_format=torch.channels_last_3d)


CASES = {  # the model, the example's sizes, the dimensions that vary, others, the layout
    "3x3": (nn.Conv2d(6, 6, 3, padding=1, groups=6), (2, 6, 9, 8), (2, 3), [(2, 6, 3, 2), (2, 6, 21, 17)], first),
    "channels last": (nn.Conv2d(16, 16, 3, padding=1, groups=16), (2, 16, 9, 8), (2, 3), [(2, 16, 3, 2), (2, 16, 13, 17)], last),
    "all sizes": (nn.Conv2d(6, 6, 3, padding=1, groups=6), (3, 6, 9, 8), (0, 2, 3), [(2, 6, 7, 2), (5, 6, 4, 13)], first),
    "every second": (nn.Sequential(nn.Conv2d(6, 6, 3, 2, 1, groups=6), nn.ReLU6()), (2, 6, 9, 8), (2, 3), [(2, 6, 3, 2), (2, 6, 22, 17)], first),
    "every second, channels last": (nn.Conv2d(8, 8, 5, 2, 2, groups=8), (2, 8, 10, 9), (2, 3), [(2, 8, 3, 2), (2, 8, 17, 22)], last),
    "dilated": (nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=4), (2, 4, 9, 8), (2, 3), [(2, 4, 3, 4), (2, 4, 17, 12)], first),
    "dilated, every third": (nn.Conv2d(4, 4, 3, 3, 2, 2, groups=4), (2, 4, 12, 11), (2, 3), [(2, 4, 5, 4), (2, 4, 17, 22)], first),
    "not padded": (nn.Conv2d(4, 4, 3, groups=4, bias=False), (2, 4, 9, 8), (2, 3), [(2, 4, 4, 5), (2, 4, 17, 12)], first),
    "7x7, one dimension varies": (nn.Sequential(nn.Conv2d(4, 4, 7, padding=3, groups=4), nn.SiLU()), (1, 4, 9, 8), (3,), [(1, 4, 9, 3), (1, 4, 9, 25)], first),
    "in time": (nn.Conv1d(8, 8, 4, padding=3, groups=8), (2, 8, 19), (2,), [(2, 8, 2), (2, 8, 50)], first),
    "few channels": (nn.Conv2d(1, 8, 3, 2, 1), (2, 1, 11, 8), (2, 3), [(2, 1, 4, 3), (2, 1, 14, 17)], first),
    "groups": (nn.Conv2d(8, 8, 3, padding=1, groups=4), (2, 8, 7, 6), (2, 3), [(2, 8, 3, 2), (2, 8, 9, 11)], first),
    "columns": (nn.Conv2d(4, 4, (5, 1), padding=(2, 0), groups=4), (2, 4, 9, 8), (2, 3), [(2, 4, 3, 5), (2, 4, 17, 12)], first),
    "rows": (nn.Conv2d(4, 4, (1, 5), padding=(0, 2), groups=4), (2, 4, 9, 8), (2, 3), [(2, 4, 3, 5), (2, 4, 17, 12)], first),
    "columns, channels last": (nn.Conv2d(8, 8, (5, 1), (2, 1), (2, 0), groups=8), (2, 8, 9, 8), (2, 3), [(2, 8, 3, 5), (2, 8, 17, 12)], last),
    "in space": (nn.Conv3d(1, 4, 3, padding=1), (1, 1, 4, 5, 6), (2, 3, 4), [(1, 1, 2, 3, 5), (1, 1, 5, 7, 3)], first),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, seed, dtype):
    model, shape, varying, others, layout = CASES[name]
    torch.manual_seed(0)
    taken = []

    def choose(kernel):
        c = windows.read(kernel, TARGET)
        if c is not None and c.sized is not None:
            taken.append(random.Random(seed).choice(list(windows.schedules(c))) if seed else windows.pick(c, TARGET))
            return taken[-1]
        return None

    model = model.to(dtype).eval().requires_grad_(False)
    run = SizedModel(model, (layout(torch.randn(shape).to(dtype)),), ({d: Dim.AUTO for d in varying},), choose)
    assert taken
    for other in (shape, *others):
        x = layout(torch.randn(other).to(dtype))
        assert_close_to_float64(run(x), model, (x,))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("window, padding, dilation", [(3, 1, 1), (5, 1, 1), (3, 2, 2)])
def test_the_gradient_of_an_image_is_one_of_them(window, padding, dilation, dtype, monkeypatch):
    monkeypatch.setattr(convolution_gradients, "on_hopper", lambda tensor: True)
    aten, options = torch.ops.aten, ([1, 1], [padding] * 2, [dilation] * 2, False, [0, 0], 4)

    def model(x, weight):
        result = aten.convolution(x, weight, None, *options)
        return aten.convolution_backward(result, x, weight, None, *options, [True, False, False])[0]

    torch.manual_seed(0)
    weight = torch.randn(4, 1, window, window).to(dtype)
    run = SizedModel(model, (torch.randn(2, 4, 9, 8).to(dtype), weight), ({2: Dim.AUTO, 3: Dim.AUTO}, {}))
    assert {type(s) for s in run.schedules} == {windows.Windows, Elementwise}  # which transposes the window
    for height, width in ((9, 8), (7, 21), (13, 6)):
        x = torch.randn(2, 4, height, width).to(dtype)
        assert_close_to_float64(run(x, weight), model, (x, weight))
