"""Convolutions that write their results in row-major order: from PyTorch to the kernels that are chosen, on the simulator."""

import re

import pytest
import torch
from checks import assert_close_to_float64
from torch import nn
from universal_program import Simulated

from inferno.capture import capture
from inferno.mlir import idle_context, ir
from inferno.passes.manager import run_pipeline
from inferno.passes.programs import PRECISION
from inferno.runtime.build import build_from
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.target import find_target

TARGET = find_target("sm_90a")

CASES = {
    "bf16": (nn.Conv2d(64, 72, 3, padding=1), (2, 64, 16, 32), torch.bfloat16),
    "f32, by steps of two": (nn.Conv2d(32, 64, 3, 2, 1), (1, 32, 32, 32), torch.float32),
}


def scheduled(model: nn.Module, x: torch.Tensor, monkeypatch):
    """What is captured, and its kernels as text: also of small images, which take less time with a transposition."""
    monkeypatch.setattr("inferno.schedule.passes.order_results._LAUNCH", 1e6)
    monkeypatch.setattr("inferno.schedule.passes.order_results._LEAST", 0)
    found = capture(model, (x,))
    text = build_from("torch", found.text, TARGET, last="fused", signature=found.signature).stages["fused"]
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        if x.dtype == torch.float32:
            for kernel in kernels(module):
                kernel.attributes[PRECISION] = ir.StringAttr.get("tf32")
        run_pipeline(module, "inferno-schedule{target=sm_90a}")
        return found, str(module)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", CASES)
def test_right_and_not_transposed(name, monkeypatch):
    torch.manual_seed(0)
    layer, shape, dtype = CASES[name]
    for p in layer.parameters():
        p.data = torch.randint(-4, 5, p.shape).to(p.dtype) / 8  # which TF32 does not round
    model, x = nn.Sequential(layer, nn.ReLU()).to(dtype).eval(), torch.randint(-2, 3, shape).to(dtype)
    found, text = scheduled(model, x, monkeypatch)
    calls = re.findall(r"call @(\w+)\(", text[: text.index("func.func private")])
    assert "conv" in calls[-1], calls
    run = Simulated(text, lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))
    (result,) = run(*(t.detach().contiguous() for t in found.signature.arguments_of((x,), {})))
    assert_close_to_float64(result, model, (x,))


@pytest.mark.parametrize("model, shape", [
    (nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()), (2, 64, 7, 7)),  # lines that the copy engine cannot write
], ids=["lines that begin anywhere"])
def test_what_is_transposed_still(model, shape, monkeypatch):
    _, text = scheduled(model.bfloat16(), torch.randn(shape).bfloat16(), monkeypatch)
    calls = re.findall(r"call @(\w+)\(", text[: text.index("func.func private")])
    assert "transpose" in calls[-1], calls
