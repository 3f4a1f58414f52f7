"""Totals of a few rows that all of their points read are computed with each of them, in the kernel that goes over the rows."""

import pytest
import torch
from checks import assert_close_to_float64
from universal_program import Simulated

from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.target import find_target

F = torch.nn.functional

# What is computed, and in how many launches.
PROGRAMS = {
    "less the mean": (lambda x, y: torch.softmax(x - x.mean(0, keepdim=True), -1), 1),
    "of a product": (lambda x, y: F.layer_norm((z := x * y[:, :1]) - z.mean(0), x.shape[1:]), 1),
    "largest, flipped": (lambda x, y: torch.log_softmax((x - x.amax(0)).flip(-1), -1) * y, 2),
    "of three dimensions": (lambda x, y: torch.softmax((x := x.reshape(x.shape[0], 2, -1)) - x.sum(0), -1), 1),
    "returned, too": (lambda x, y: (torch.softmax(x - (m := x.mean(0)), -1), m), 2),
}


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(4, 48), (3, 534), (2, 1856)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(name, shape, dtype):
    torch.manual_seed(0)
    program, launches = PROGRAMS[name]
    tensors = tuple(torch.randn(shape).to(dtype) for _ in range(2))
    found = capture(program, tensors)
    text = build_from("torch", found.text, find_target("sm_90a"), last="scheduled", signature=found.signature).stages["scheduled"]
    run = Simulated(text, lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))
    results = run(*found.signature.arguments_of(tensors, {}))
    for number, result in enumerate(results):
        def one(*tensors, number=number):
            made = program(*tensors)
            return made[number] if isinstance(made, tuple) else made

        assert_close_to_float64(result, one, tensors)
    assert text[: text.index("func.func private")].count("call @") <= launches, text[:3000]
