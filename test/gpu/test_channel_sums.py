"""Sums of the channels of convolutions' results in their kernels on a GPU: to the last bit, and batch norm that is trained against float64."""

import sys
from pathlib import Path

import pytest
import torch
from checks import assert_right, poison_memory
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))

from channel_sum_cases import TAKEN, fused, has_squares, program, with_sums, wrong
from convolution_cases import RELU, SAME, operands
from convolutions import Form
from on_gpu import on_hopper

from inferno.tools.ir_program import IrProgram

pytestmark = on_hopper

SIZES = {
    "resnet 56": Form((8, 56, 56, 64), 64, (3, 3), **SAME),
    "resnet 28, by 2": Form((4, 56, 56, 128), 128, (3, 3), (2, 2), **SAME, **RELU),
    "resnet 14": Form((32, 14, 14, 256), 256, (3, 3), **SAME),
    "1x1": Form((8, 28, 28, 256), 512, (1, 1)),
    "1x1 by 2": Form((8, 28, 28, 256), 136, (1, 1), (2, 2)),
    "odd": Form((3, 57, 61, 64), 96, (3, 3), **SAME),
    "one block": Form((1, 8, 8, 64), 64, (3, 3), **SAME),
}


def right(folder: Path, form: Form, schedule=None) -> None:
    path = folder / "convolution.mlir"
    path.write_text(fused(program(form, "f64", has_squares(form)), schedule))
    compiled, tensors = IrProgram.read(path, "sm_90a"), operands(form, "cuda")
    assert 'generator = "channel_sums"' in compiled.program.stages["scheduled"]
    poison_memory()
    found, again = compiled(*tensors), compiled(*tensors)
    assert not (problem := wrong(form, tensors, found)), (problem, form)
    assert all(torch.equal(a, b) for a, b in zip(found, again)), "two runs differ"


@pytest.mark.parametrize("name", SIZES)
def test_what_is_chosen(tmp_path, name):
    right(tmp_path, SIZES[name])


@pytest.mark.parametrize("name", TAKEN)
def test_small_ones(tmp_path, name):
    form, schedule = TAKEN[name]
    right(tmp_path, form, with_sums(schedule, has_squares(form)))


@pytest.mark.parametrize("window, last", [(1, True), (3, True), (3, False), (7, True)])
def test_batch_norm(window, last):
    torch.manual_seed(0)
    channels, step, size = (3, 2, 224) if window == 7 else (64, 1, 56)
    model = nn.Sequential(nn.Conv2d(channels, 64, window, step, window // 2, bias=False), nn.BatchNorm2d(64), nn.ReLU()).to("cuda", torch.bfloat16)
    x = torch.randn(32, channels, size, size, device="cuda", dtype=torch.bfloat16)
    if last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    model.train()
    model[1].track_running_stats, model[1].running_mean, model[1].running_var = False, None, None
    compiled = assert_right(model, (x,))
    assert "channel_sums" in {row.generator for row in compiled.explain().rows}
