"""Convolutions in groups on a GPU's tensor cores: the numbers of kernels with schedules of all kinds, and of layers of networks."""

import random
import sys
from pathlib import Path

import pytest
import torch
from checks import assert_close_to_float64, assert_right, poison_memory

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))

from window_cases import GROUPS, Case, parsed

import inferno
from inferno.schedule.convolution import group_windows
from inferno.target import find_target
from inferno.tools.ir_program import IrProgram

pytestmark = pytest.mark.usefixtures("unmeasured")
SIZES = {
    "regnet": Case((8, 336, 14, 14), (24, 24, 3, 3), padding=1, inner=True),
    "regnet by 2": Case((4, 120, 57, 56), (24, 24, 3, 3), 2, 1, inner=True),
    "resnext": Case((8, 1024, 7, 7), (32, 32, 3, 3), padding=1, element="f16", inner=True),
    "64, by rows": Case((2, 256, 28, 28), (64, 64, 3, 3), padding=1, inner=True),
}
LAYERS = {  # channels, group, size, stride, dilation
    "regnet": (336, 24, 14, 1, 1),
    "regnet by 2": (120, 24, 56, 2, 1),
    "resnext": (512, 16, 14, 1, 1),
    "eight channels": (256, 8, 28, 1, 1),
    "dilated": (256, 64, 14, 1, 2),
    "many channels": (448, 112, 14, 1, 1),
}


@pytest.mark.parametrize("name", {**GROUPS, **SIZES})
@pytest.mark.parametrize("seed", range(4))
def test_schedules(tmp_path, name, seed):
    case, path = {**GROUPS, **SIZES}[name], tmp_path / "convolution.mlir"
    schedules = list(group_windows.schedules(parsed(case, group_windows), find_target("sm_90a")))
    path.write_text(case.text(schedule=random.Random(seed).choice(schedules)))
    compiled = IrProgram.read(path, "sm_90a")
    assert 'generator = "group_windows"' in compiled.program.stages["scheduled"]
    inputs = [x.cuda() for x in case.inputs()]
    poison_memory()
    (found,), (again,) = (compiled(*case.arguments(*inputs)) for _ in range(2))
    assert torch.equal(found, again), "two runs differ"
    assert_close_to_float64(case.result(found), case.eager, tuple(inputs))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("batch", [1, 32])
def test_layers(name, dtype, batch):
    channels, group, size, stride, dilation = LAYERS[name]
    layer = torch.nn.Conv2d(channels, channels, 3, stride, dilation, dilation, channels // group, bias=False)
    model = torch.nn.Sequential(layer, torch.nn.BatchNorm2d(channels), torch.nn.ReLU()).eval().to("cuda", dtype, memory_format=torch.channels_last)
    image = torch.randn(batch, channels, size, size, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)
    expected = "im2col" if name in ("dilated", "many channels") and batch > 1 else "group_windows"  # many channels of many images: large tiles are faster
    assert f'"{expected}"' in assert_right(model, (image,)).ir("scheduled")


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_what_is_not_finite_stays_in_its_group(number):
    model = torch.nn.Conv2d(336, 336, 3, padding=1, groups=14, bias=False).to("cuda", torch.bfloat16, memory_format=torch.channels_last)
    x = torch.randn(32, 336, 14, 14, device="cuda").bfloat16().to(memory_format=torch.channels_last)
    x[3, 100, 7, 8] = number
    with torch.no_grad():
        assert torch.equal(inferno.compile(model, (x,), fallback=False)(x).isfinite(), model(x).isfinite())
