"""Gradients of depthwise convolutions' weights by a kernel of ours, against float64."""

import copy
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from checks import assert_close_to_float64, poison_memory
from on_gpu import on_hopper
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))

from tap_sum_cases import NAMED, Case

from inferno.schedule.convolution.tap_sums import TapSums
from inferno.tools.ir_program import IrProgram

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("unmeasured"),
]

SAME = {"low": (3, 3), "high": (3, 3)}
LARGE = {
    "convnext": Case((8, 96, 56, 56), (7, 7), **SAME),
    "convnext, channels first": Case((8, 96, 56, 56), (7, 7), **SAME, last=False),
    "convnext, f32": Case((4, 96, 56, 56), (7, 7), **SAME, element="f32"),
    "convnext, f32, channels first": Case((4, 96, 56, 56), (7, 7), **SAME, element="f32", last=False),
    "mobilenet": Case((16, 144, 56, 56), (3, 3), low=(1, 1), high=(1, 1)),
    "mobilenet, channels first": Case((16, 144, 56, 56), (3, 3), low=(1, 1), high=(1, 1), last=False),
    "mobilenet, channels last and first": Case((16, 144, 56, 56), (3, 3), low=(1, 1), high=(1, 1), mixed=True),
    "mobilenet, channels first and last": Case((16, 144, 56, 56), (3, 3), low=(1, 1), high=(1, 1), last=False, mixed=True),
    "mobilenet, f32, channels first and last": Case((16, 240, 28, 28), (3, 3), low=(1, 1), high=(1, 1), element="f32", last=False, mixed=True),
    "efficientnet": Case((16, 240, 28, 28), (5, 5), (2, 2), low=(2, 2), high=(1, 1), element="f16"),
    "efficientnet, channels first": Case((16, 240, 28, 28), (5, 5), (2, 2), low=(2, 2), high=(1, 1), element="f16", last=False),
    "small images": Case((32, 960, 7, 7), (3, 3), low=(1, 1), high=(1, 1)),
    "small images, channels first": Case((32, 960, 7, 7), (3, 3), low=(1, 1), high=(1, 1), last=False),
    "causal": Case((4, 512, 2048), (4,), low=(3,)),
    "causal, channels first": Case((4, 512, 2048), (4,), low=(3,), last=False),
    "121 taps": Case((4, 64, 28, 28), (11, 11), low=(5, 5), high=(5, 5)),
}


def right(folder: Path, case: Case, schedule: TapSums | None = None) -> None:
    path = folder / "taps.mlir"
    path.write_text(case.text(schedule))
    compiled, tensors = IrProgram.read(path, "sm_90a"), [t.cuda() for t in case.operands()]
    assert 'generator = "tap_sums"' in compiled.program.stages["scheduled"]
    poison_memory()
    arguments = case.arguments(*tensors)
    (found,), (again,) = compiled(*arguments), compiled(*arguments)
    assert torch.equal(found, again)
    assert_close_to_float64(found, case.expected, tuple(tensors))


@pytest.mark.parametrize("name", [*NAMED, *LARGE])
def test_what_is_chosen(tmp_path, name):
    right(tmp_path, (NAMED | LARGE)[name])


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("name, schedule", [
    ("convnext", TapSums(1, 16, 4, 7, 4, 2, 1, 20)), ("convnext", TapSums(1, 32, 5, 5, 3, 2, 1, 7)),
    ("convnext, channels first", TapSums(1, 1, 7, 4, 14, 4, 1, 3)), ("convnext, channels first", TapSums(1, 1, 4, 8, 7, 8, 3, 2)),
    ("mobilenet", TapSums(2, 16, 7, 7, 2, 4, 1, 30)), ("mobilenet", TapSums(4, 8, 4, 5, 6, 3, 1, 9)),
    ("mobilenet, channels first", TapSums(1, 1, 7, 8, 7, 8, 5, 2)), ("mobilenet, channels first and last", TapSums(1, 16, 7, 8, 7, 2, 1, 26)),
    ("mobilenet, channels last and first", TapSums(1, 48, 7, 7, 4, 1, 1, 30)), ("mobilenet, channels first and last", TapSums(1, 32, 7, 8, 7, 1, 1, 26)),
])
def test_schedules(tmp_path, name, schedule, stages):
    right(tmp_path, LARGE[name], replace(schedule, stages=stages))


MODULES = {
    "7x7": (nn.Conv2d(48, 48, 7, padding=3, groups=48), (4, 48, 28, 28)),
    "3x3": (nn.Conv2d(48, 48, 3, padding=1, groups=48, bias=False), (4, 48, 30, 27)),
    "3x3 by 2": (nn.Conv2d(48, 48, 3, 2, 1, groups=48), (4, 48, 28, 28)),
    "5x5 dilated": (nn.Conv2d(40, 40, 5, padding=4, dilation=2, groups=40), (3, 40, 20, 24)),
    "1d": (nn.Conv1d(64, 64, 4, padding=3, groups=64), (4, 64, 500)),
    "transposed": (nn.ConvTranspose2d(32, 32, 3, 2, 1, 1, groups=32), (4, 32, 14, 14)),
}


@pytest.mark.parametrize("last", [True, False], ids=["channels last", "row-major"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_training(unmeasured, name, dtype, last, generators):
    """All gradients of a module, as exact as eager's."""
    layer, shape = MODULES[name]
    layer, x = copy.deepcopy(layer).to("cuda", dtype), torch.randn(shape, device="cuda", dtype=dtype)
    if last and x.dim() == 4:
        layer, x = layer.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    found, double = {}, copy.deepcopy(layer).double()
    upper = torch.randn_like(layer(x))
    for kind, made, owner, given, above in (
        ("eager", layer, layer, x, upper), ("ours", torch.compile(layer, backend="inferno"), layer, x, upper),
        ("exact", double, double, x.double(), upper.double()),
    ):
        owner.zero_grad()
        given = given.clone().requires_grad_()
        made(given).backward(above)
        found[kind] = {"x": given.grad.double()} | {n: p.grad.clone().double() for n, p in owner.named_parameters()}
    for name, exact in found["exact"].items():
        ours, eager = ((found[kind][name] - exact).norm() for kind in ("ours", "eager"))
        assert ours <= max(1.5 * eager, 2 * torch.finfo(dtype).eps * exact.norm()), name
    assert any('"tap_sums"' in s for s in generators)
