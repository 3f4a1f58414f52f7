"""Gradients of convolutions' weights as sums over pixels on the tensor cores, against float64, to the last bit."""

import sys
from pathlib import Path

import pytest
import torch
from checks import poison_memory

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))

from convolutions import Form
from on_gpu import on_hopper
from pixel_sum_cases import CASES, expected, operands, program

from inferno.schedule.convolution.pixel_sums import PixelSums
from inferno.tools.ir_program import IrProgram

pytestmark = on_hopper

SAME = {"low": (1, 1), "high": (1, 1)}
SIZES = {
    "resnet 56": Form((8, 56, 56, 64), 64, (3, 3), **SAME),
    "resnet 56, by 2": Form((8, 56, 56, 128), 128, (3, 3), (2, 2), (), (1, 1), (1, 0)),
    "resnet 14": Form((32, 14, 14, 256), 256, (3, 3), **SAME),
    "resnet 7": Form((32, 7, 7, 512), 512, (3, 3), **SAME),
    "1x1 by 2": Form((8, 56, 56, 256), 512, (1, 1), (2, 2)),
    "96 channels": Form((4, 29, 31, 96), 40, (5, 3), (1, 2), (2, 1), (4, 1), (4, 1), "f16"),
    "1d": Form((4, 3000, 64), 384, (3,), (2,), (), (1,), (1,)),
    "3d": Form((2, 8, 14, 14, 64), 64, (3, 3, 3), (), (), (1, 1, 1), (1, 1, 1)),
    "steps of 8": Form((2, 100, 90, 32), 16, (3, 3), (8, 7), (), (1, 0), (0, 1)),
}


def right(folder: Path, form: Form, schedule: PixelSums | None = None) -> None:
    path = folder / "sums.mlir"
    path.write_text(program(form, schedule))
    compiled, tensors = IrProgram.read(path, "sm_90a"), operands(form, "cuda")
    assert 'generator = "pixel_sums"' in compiled.program.stages["scheduled"]
    poison_memory()
    (found,), (again,) = compiled(*tensors), compiled(*tensors)
    exact = expected(form, *tensors).to(found.dtype)
    assert torch.equal(found, exact), (form, schedule, int((found != exact).sum()), (found != exact).nonzero()[0].tolist())
    assert torch.equal(found, again)


@pytest.mark.parametrize("name", SIZES)
def test_what_is_chosen(tmp_path, monkeypatch, name):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    right(tmp_path, SIZES[name])


@pytest.mark.parametrize("name", CASES)
def test_small_ones(tmp_path, name):
    right(tmp_path, *CASES[name])


@pytest.mark.parametrize("schedule", [
    PixelSums(128, 256, 4, 2), PixelSums(256, 128, 4, 2), PixelSums(128, 128, 5, 2, pingpong=True), PixelSums(64, 64, 12, 1, split=8, persistent=False),
    PixelSums(128, 128, 6, 2, split=4, persistent=False, spread=True), PixelSums(128, 64, 6, 2, resident=2, panel=32),
], ids=str)
def test_many_tiles(tmp_path, schedule):
    right(tmp_path, Form((16, 29, 27, 128), 520, (3, 3), (), (2, 1), (2, 1), (2, 1)), schedule)
