"""A convolutional network of one image, from PyTorch to the kernels that are chosen for it, each run by the simulator."""

import re

import pytest
import torch
from checks import assert_close_to_float64
from layout_models import MODELS, image
from torch import nn
from universal_program import Simulated

from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.target import find_target


@pytest.mark.thorough
def test_networks_are_right_on_tensor_cores():
    torch.manual_seed(0)
    model, x = MODELS["residual"](4).eval().bfloat16(), image("residual", 8, 1, 4).bfloat16()
    found = capture(model, (x,))
    text = build_from("torch", found.text, find_target("sm_90a"), last="scheduled", signature=found.signature).stages["scheduled"]
    assert {"im2col", "wgmma"} <= set(re.findall(r'generator = "(\w+)"', text)) and "tensor.pad" in text
    run = Simulated(text, lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))
    (result,) = run(*(t.detach().contiguous() for t in found.signature.arguments_of((x,), {})))
    assert_close_to_float64(result, model, (x,))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("channels", [32, 24], ids=lambda channels: f"{channels // 4} channels of a group")
def test_group_norms_between_convolutions_are_one_kernel(channels):
    """Which reads images as they lie, with channels last, and applies what follows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, channels, 1), nn.GroupNorm(4, channels), nn.SiLU(), nn.Conv2d(channels, 16, 1)).bfloat16()
    x = torch.randn(1, 16, 4, 4).bfloat16()
    found = capture(model, (x,))
    text = build_from("torch", found.text, find_target("sm_90a"), last="scheduled", signature=found.signature).stages["scheduled"]
    run = Simulated(text, lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))
    (result,) = run(*(t.detach().contiguous() for t in found.signature.arguments_of((x,), {})))
    assert_close_to_float64(result, model, (x,))
    main = text[: text.index("func.func private")]
    calls = re.findall(r"call @(\w+)\(", main)
    between = calls[next(i for i, c in enumerate(calls) if "matmul" in c) + 1:]
    assert between[0].startswith("rows_reduce") and "matmul" in between[1], calls


@pytest.mark.covering
@pytest.mark.parametrize("end", [
    lambda z, y, s, t: torch.relu(z + y), lambda z, y, s, t: s * (z + y), lambda z, y, s, t: t * nn.functional.silu(y + z),
    lambda z, y, s, t: (z * s + y.relu()).sigmoid() * y, lambda z, y, s, t: torch.tanh(z) + y * t,
], ids=["relu", "scaled first", "by places", "twice", "behind an activation"])
def test_row_major_tensors_beside_a_convolution(end):
    """Of a row-major image, given back row-major: the kernel of the convolution reads no such tensor channel by channel."""
    torch.manual_seed(0)

    def model(x, w, y, s, t):
        return end(nn.functional.conv2d(x, w, padding=1), y, s, t)

    args = tuple(torch.randn(s).bfloat16() for s in ((2, 16, 6, 8), (24, 16, 3, 3), (2, 24, 6, 8), (24, 1, 1), (6, 8)))
    found = capture(model, args)
    text = build_from("torch", found.text, find_target("sm_90a"), last="scheduled", signature=found.signature).stages["scheduled"]
    assert not re.search(r"@conv\w*\([^)]*tensor<2x24x6x8xbf16>[^)]*tensor<2x6x8x24xbf16>\) ->", text)
    run = Simulated(text, lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))
    (result,) = run(*(t.detach().contiguous() for t in found.signature.arguments_of(args, {})))
    assert_close_to_float64(result, model, args)
