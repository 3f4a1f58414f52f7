"""Convolutions on the tensor cores against float64, to the last bit: what the simulator assumes of the copy engine's im2col mode holds on a GPU."""

import random
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from checks import assert_right, check, poison_memory
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))

from convolution_cases import BOTH, CASES, PLAIN, RELU, SAME, drawn, operands, program, schedules, with_halo, wrong
from convolutions import Form
from on_gpu import on_hopper

import inferno
from inferno.schedule.convolution.im2col import Im2col
from inferno.tools.ir_program import IrProgram

pytestmark = on_hopper

SIZES = {
    "resnet 56": Form((8, 56, 56, 64), 64, (3, 3), **SAME, **RELU),
    "resnet 28, by 2": Form((4, 56, 56, 128), 128, (3, 3), (2, 2), **SAME, **RELU),
    "resnet 14": Form((32, 14, 14, 256), 256, (3, 3), **SAME, **RELU),
    "resnet 7": Form((1, 7, 7, 512), 512, (3, 3), **SAME, **RELU),
    "1x1 by 2": Form((8, 28, 28, 512), 1024, (1, 1), (2, 2), **PLAIN),
    "tf32": Form((8, 56, 56, 64), 64, (3, 3), **SAME, element="f32", **PLAIN),
    "tf32 by 3": Form((3, 31, 33, 100), 72, (5, 4), (3, 3), (2, 1), (3, 0), (1, 2), "f32", **PLAIN),
    "7x7": Form((2, 37, 41, 24), 40, (7, 7), (2, 2), (), (3, 3), (3, 3)),
    "unequal padding": Form((3, 17, 13, 136), 200, (3, 2), (1, 2), (2, 3), (5, 0), (0, 7), **BOTH),
    "one row": Form((5, 1, 200, 64), 96, (1, 9), (), (), (0, 4), (0, 4), "f16"),
    "1d": Form((4, 3000, 80), 384, (3,), (2,), (), (1,), (1,), **PLAIN),
    "1d, far apart": Form((2, 5000, 64), 64, (5,), (), (300,), (600,), (600,)),
    "3d": Form((2, 8, 14, 14, 64), 64, (3, 3, 3), (), (), (1, 1, 1), (1, 1, 1), **PLAIN),
    "3d by 2": Form((1, 7, 15, 13, 40), 24, (3, 2, 3), (2, 2, 2), (1, 2, 1), (1, 0, 1), (2, 1, 0)),
    "few pixels": Form((1, 4, 5, 512), 512, (3, 3), **SAME, **PLAIN),
    "one pixel": Form((1, 3, 3, 64), 64, (3, 3), (3, 3), (), (1, 1), (0, 0)),
    "8 channels": Form((2, 30, 30, 8), 32, (3, 3), **SAME),
    "16 channels": Form((32, 56, 56, 16), 16, (3, 3), **SAME, **RELU),
    "24 channels": Form((8, 56, 56, 24), 96, (3, 3), (2, 2), **SAME, **RELU),
    "32 channels": Form((16, 56, 56, 32), 32, (3, 3), **SAME, **RELU),
    "12 channels, tf32": Form((8, 56, 56, 12), 24, (3, 3), **SAME, element="f32", **PLAIN),
    "corners": Form((1, 130, 130, 16), 16, (2, 2), (), (127, 100), (128, 90), (120, 127)),
    "steps of 8": Form((2, 100, 90, 16), 16, (3, 3), (8, 7), (), (1, 0), (0, 1)),
}


def right(folder: Path, form: Form, schedule: Im2col | None = None) -> str:
    """The program's ``scheduled`` stage."""
    path = folder / "convolution.mlir"
    path.write_text(program(form, schedule))
    compiled = IrProgram.read(path, "sm_90a")
    text, tensors = compiled.program.stages["scheduled"], operands(form, "cuda")
    assert re.search('generator = "(im2col|wgmma)"', text)  # wgmma where the terms of a row of few channels lie side by side
    poison_memory()
    found, again = compiled(*tensors), compiled(*tensors)
    assert not (problem := wrong(form, tensors, found)), (problem, form, text)
    assert all(torch.equal(a, b) for a, b in zip(found, again)), "two runs differ"
    return text


@pytest.mark.parametrize("name", SIZES)
def test_what_is_chosen(tmp_path, name):
    right(tmp_path, SIZES[name])


@pytest.mark.parametrize("name", CASES)
def test_small_ones(tmp_path, name):
    right(tmp_path, *CASES[name])


MODELS = {
    "stem": (lambda: nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU()), (4, 3, 224, 224)),
    "odd channels": (lambda: nn.Sequential(nn.Conv2d(50, 70, 3, padding=1), nn.GELU()), (4, 50, 30, 31)),
    "1d": (lambda: nn.Sequential(nn.Conv1d(80, 384, 3, padding=1), nn.GELU(), nn.Conv1d(384, 384, 3, 2, 1)), (2, 80, 500)),
    "3d": (lambda: nn.Sequential(nn.Conv3d(16, 32, 3, padding=1), nn.ReLU()), (2, 16, 6, 20, 20)),
    "dilated": (lambda: nn.Sequential(nn.Conv2d(64, 64, 3, padding=6, dilation=6), nn.SiLU()), (2, 64, 33, 33)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", MODELS)
def test_models(name, dtype):
    """Float32 by TF32, whose rounding unit is 2**-10."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model, x = make().eval().to("cuda", dtype), torch.randn(shape, device="cuda", dtype=dtype)
    compiled = assert_right(model, (x,), unit=2**-10 if dtype == torch.float32 else None)
    exact = dtype == torch.float32 and (shape[1] < 20 or shape[1] % 4)  # in float32 all the same
    assert exact or {"im2col", "wgmma"} & {row.generator for row in compiled.explain().rows}


@pytest.mark.parametrize("seed", range(60))
def test_drawn_schedules(tmp_path, seed):
    draw = random.Random(seed)
    form = drawn(draw)
    right(tmp_path, form, draw.choice(schedules(form)))


@pytest.mark.parametrize("schedule", [
    Im2col(128, 256, 4, 2), Im2col(256, 128, 4, 2), Im2col(128, 128, 6, 2, cluster=2), Im2col(128, 128, 6, 2, cluster=4, across=True),
    Im2col(128, 128, 5, 2, pingpong=True), Im2col(128, 128, 5, 2, stream=True), Im2col(128, 128, 6, 2, split=4, persistent=False, spread=True),
], ids=str)
def test_many_tiles(tmp_path, schedule):
    form = Form((16, 29, 27, 136), 520, (3, 3), (), (2, 1), (2, 1), (2, 1), **RELU)
    right(tmp_path, form if not schedule.split > 1 else replace(form, image=(1, 29, 27, 136)), schedule)


@pytest.mark.parametrize("tile, kept", [
    (Im2col(128, 256, span=3), False), (Im2col(256, 128, span=3, wide=2), False), (Im2col(256, 96, span=1), False),
    (Im2col(128, 64, span=3, pingpong=True), False), (Im2col(128, 128, span=3, wide=2, pingpong=True), False),
    (Im2col(128, 192, span=1, row=64), False), (Im2col(256, 64, span=3, row=32), False),
    (Im2col(128, 128, span=3, width=32, pingpong=True), False), (Im2col(256, 64, span=3, width=32, row=32), False),
    (Im2col(256, 64, span=3, row=32), True), (Im2col(128, 64, span=3, pingpong=True), True), (Im2col(128, 64, span=1, wide=2, row=32), True),
], ids=str)
def test_many_tiles_with_halo(tmp_path, tile, kept):
    """Rings of slots that go round several times, from tile to tile, and images that end inside of tiles."""
    form = Form((40, 43, 35, 72), 64, (3, 3), **SAME, **RELU) if kept else Form((16, 29, 27, 136), 520, (2, 3), (), (2, 1), (2, 1), (2, 1), **RELU)
    right(tmp_path, form, with_halo(form, tile, kept))


@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("window", [(3, 3), (5, 5), (7, 1), (2, 9)])
def test_windows_with_halo(tmp_path, window, element):
    form = Form((5, 60, 50, 40), 72, window, (), (2, 1), (0, 4), (3, 1), element, **PLAIN)
    for span in dict.fromkeys((window[1], 1)):
        right(tmp_path, form, with_halo(form, Im2col(128, 64, span=span)))


@pytest.mark.parametrize("groups", [1, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sizes_that_vary(groups, dtype):
    torch.manual_seed(0)
    dim, model = torch.export.Dim, nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, groups=groups), nn.ReLU()).eval().to("cuda", dtype)
    shapes = {0: dim("n", min=1, max=64), 2: dim("h", min=2, max=512), 3: dim("w", min=2, max=512)}
    x = torch.randn(8, 64, 56, 40, device="cuda", dtype=dtype)
    compiled = inferno.compile(model, (x,), dynamic_shapes=({d: shapes[d] for d in (2, 3)},), fallback=False)
    images = inferno.compile(model, (x,), dynamic_shapes=({0: shapes[0]},), fallback=False)
    calls = [(compiled, (8, 64, 56, 40)), (compiled, (8, 64, 7, 130)), (compiled, (8, 64, 33, 2)), *((images, (n, 64, 56, 40)) for n in (8, 1, 33))]
    for call, shape in calls:
        found = check(call, model, (torch.randn(shape, device="cuda", dtype=dtype),), unit=2**-10 if dtype == torch.float32 else None)
        assert found.right, f"{shape}: {found}"
