"""Gradients of depthwise convolutions' weights: numbers on the simulator, what is taken, and that ptxas keeps the sums in registers."""

import random

import pytest
import torch
from checks import assert_close_to_float64
from kernels import TARGET
from tap_sum_cases import NAMED, Case
from universal_program import Simulated
from warp_simulator import WarpSimulation

from inferno.capture import capture
from inferno.capture.decompositions import convolution_gradients
from inferno.mlir import idle_context, ir
from inferno.runtime.build import build_from
from inferno.schedule import assign, tap_sums
from inferno.schedule.assign import kernels
from inferno.schedule.tap_sums import TapKernel

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def bank_conflicts(monkeypatch):
    """What estimates count, and is no error here."""
    monkeypatch.setattr(WarpSimulation, "check_banks", lambda *_: None)


def parsed(case: Case) -> TapKernel | None:
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(case.text(main=False))
        return tap_sums.read(kernels(module)[0], TARGET)


def check(case: Case, schedule, early: bool = False) -> None:
    torch.manual_seed(0)
    inputs = case.operands()
    found = Simulated(case.text(), lambda kernel: schedule, early)(*case.arguments(*inputs))[0]
    assert_close_to_float64(found, case.expected, tuple(inputs))


@pytest.mark.parametrize("name", NAMED)
def test_right(name):
    k = parsed(NAMED[name])
    assert k is not None
    check(NAMED[name], tap_sums.pick(k, TARGET))


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("seed", range(3))
def test_schedules(name, seed):
    k = parsed(NAMED[name])
    check(NAMED[name], random.Random(seed).choice(list(tap_sums.schedules(k, TARGET))), early=seed == 1)


LAYERS = {
    "3x3": (torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), (3, 8, 9, 8)),
    "7x7": (torch.nn.Conv2d(6, 6, 7, padding=3, groups=6), (2, 6, 10, 10)),
    "3x3 by 2, dilated": (torch.nn.Conv2d(8, 8, 3, 2, 2, 2, groups=8), (3, 8, 14, 14)),
    "one dimension": (torch.nn.Conv1d(8, 8, 4, padding=3, groups=8), (3, 8, 60)),
    "transposed": (torch.nn.ConvTranspose2d(8, 8, 3, 2, 1, groups=8), (2, 8, 9, 9)),
    "one image": (torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), (1, 8, 15, 14)),
    "more than windows reach": (torch.nn.Conv2d(8, 8, 3, 3, groups=8), (3, 8, 29, 25)),
}


@pytest.mark.parametrize("last", [True, False], ids=["channels last", "row-major"])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name, last, monkeypatch):
    """From torch: one kernel, which reads image and gradient as they lie."""
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    monkeypatch.setattr(convolution_gradients, "on_hopper", lambda tensor: True)
    torch.manual_seed(0)
    layer, shape = LAYERS[name]
    x, weight = torch.randn(shape).bfloat16(), layer.weight.detach().bfloat16()
    gradient = torch.randn(layer(x.float()).shape).bfloat16()
    if last and x.dim() == 4:
        x, weight, gradient = (t.contiguous(memory_format=torch.channels_last) for t in (x, weight, gradient))
    how = layer.stride, layer.padding, layer.dilation, layer.transposed, layer.output_padding, layer.groups
    run = lambda g, x, w: aten.convolution_backward(g, x, w, None, *how, [True, True, False])[:2]  # noqa: E731
    found, taken = capture(run, (gradient, x, weight)), []

    def chosen(kernel):
        taken.append(tap_sums.read(kernel, TARGET))
        return tap_sums.pick(taken[-1], TARGET) if taken[-1] is not None else assign.choose(kernel, TARGET)

    text = build_from("torch", found.text, TARGET, last="fused", signature=found.signature).stages["fused"]
    results = Simulated(text, chosen)(*(t.detach().contiguous() for t in found.signature.arguments_of((gradient, x, weight), {})))
    assert_close_to_float64(tuple(s.as_eager(r) for s, r in zip(found.signature.results, results)), run, (gradient, x, weight))
    (k,) = [k for k in taken if k is not None]
    assert k.last == (last and x.dim() == 4) and {k.image.argument, k.gradient.argument} == {0, 1}
