"""Small convolutional networks in the layouts that are chosen for them: right against float64, and no tensor is transposed but the program's own."""

import re

import pytest
import torch
from checks import assert_close_to_float64
from layout_models import MODELS, image
from oracle import run_module
from torch import nn

from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.target import find_target

F = nn.functional
# name: (size and batch of the image, kernels, transposed): how many kernels fusion leaves, but for those that lay out weights and invert variances, and
# the shapes that tensors other than weights are transposed to.
CASES = {
    "residual": ((8, 2), 7, ["2x8x8x8"]),
    "inverted": ((8, 1), 8, []),
    "unet": ((8, 2), 7, ["2x8x8x3"]),
    "channels": ((8, 2), 10, []),
    "sequence": ((10, 2), 7, ["2x10x8"]),
    "volume": ((4, 1), 4, ["4x4x4x3", "4x4x4x4"]),
    "inside": ((6, 2), 2, []),
}


def compile_to(stage, model, args):
    found = capture(model, args)
    return found, build_from("torch", found.text, find_target("sm_90a"), last=stage, signature=found.signature).stages


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", CASES)
def test_layouts_are_right(name):
    size, kernels, transposed = CASES[name]
    torch.manual_seed(0)
    model, x = MODELS[name]().eval(), image(name, *size)
    found, stages = compile_to("scheduled", model, (x,))
    for stage in ("fused", "scheduled"):
        (result,) = run_module(stages[stage], [t.contiguous() for t in found.signature.arguments_of((x,), {})])
        assert_close_to_float64(found.signature.results[0].as_eager(result), model, (x,))
    calls = re.findall(r"call @(\w+)\((.*?)\).*-> tensor<(\w+)xf32>", stages["fused"])
    weights = {f"%arg{i}" for i, a in enumerate(found.signature.arguments) if a.kind != "input"}
    weights |= {new for new, old in re.findall(r"(%\w+) = tensor.collapse_shape (%\w+)", stages["fused"]) if old in weights}
    rest = [(n, shape) for n, given, shape in calls if not (n.startswith(("transpose", "addf_sqrt_divf")) and given.split(", ")[0] in weights)]
    assert [shape for n, shape in rest if n.startswith("transpose")] == transposed
    assert len(rest) == kernels


@pytest.mark.parametrize("order, kernels", [
    (torch.channels_last, ["conv", "transpose"]), (torch.contiguous_format, ["transpose", "transpose", "conv", "transpose"]),
], ids=["channels last", "row-major"])
def test_pixel_shuffles_that_are_given_back_are_one_transposition(order, kernels):
    """Of what is reshaped for the program's result; it lies as eager's does."""
    torch.manual_seed(0)
    x, w = (torch.randn(s).to(memory_format=order) for s in ((2, 16, 6, 7), (16, 16, 3, 3)))

    def program(x, w):
        return F.pixel_shuffle(F.conv2d(x, w, padding=1), 2)

    found, stages = compile_to("fused", program, (x, w))
    (made,) = run_module(stages["fused"], [t.contiguous() for t in found.signature.arguments_of((x, w), {})])
    result = found.signature.results[0].as_eager(made)
    assert_close_to_float64(result, program, (x, w))
    assert result.stride() == program(x, w).stride()
    assert [re.sub(r"_\d+$", "", n) for n in re.findall(r"call @(\w+)\(", stages["fused"])] == kernels


def test_convolutions_have_a_flag_of_their_own_for_tf32():
    model = nn.Sequential(nn.Conv2d(20, 24, 1), nn.Conv2d(24, 8, 3), nn.Flatten(), nn.Linear(8, 4))
    for allowed in (True, False):
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=allowed):
            text = compile_to("scheduled", model, (torch.randn(2, 20, 3, 3),))[1]["scheduled"]
        functions = re.findall(r"private @(\w+)\(.*attributes \{(.*)", text)
        assert {n.removesuffix("_ordered") for n, attributes in functions if "tf32" in attributes} == ({"matmul_addf", "matmul_addf_1"} if allowed else set())
        assert len([n for n, _ in functions if n.startswith(("matmul", "conv"))]) == 3
