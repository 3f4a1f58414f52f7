"""A convolutional network of one image, from PyTorch to the kernels that are chosen for it, each run by the simulator."""

import re

import torch
from checks import assert_close_to_float64
from layout_models import MODELS, image
from universal_program import Simulated

from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.target import find_target


def test_networks_are_right_on_tensor_cores():
    torch.manual_seed(0)
    model, x = MODELS["residual"](4).eval().bfloat16(), image("residual", 8, 1, 4).bfloat16()
    found = capture(model, (x,))
    text = build_from("torch", found.text, find_target("sm_90a"), last="scheduled", signature=found.signature).stages["scheduled"]
    assert {"im2col", "wgmma"} <= set(re.findall(r'generator = "(\w+)"', text)) and "tensor.pad" in text
    run = Simulated(text, lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))
    (result,) = run(*(t.detach().contiguous() for t in found.signature.arguments_of((x,), {})))
    assert_close_to_float64(result, model, (x,))
