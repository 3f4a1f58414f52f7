"""Rows whose length varies on the simulator: held or by turns, of other lengths than the example's, that begin in vectors anywhere."""

from dataclasses import replace

import pytest
import torch
from checks import assert_close_to_float64
from kernels import TARGET
from torch.export import Dim
from sized_models import assert_right_at_all_sizes
from universal_program import SimulatedModel

from inferno.schedule.composite.size_ranges import BySize
from inferno.schedule.rows import sized_rows

F = torch.nn.functional
PASSES = "fuse-reductions{target=sm_90a always=1}"


def chosen(change: dict):
    """Chooses ``sized_rows`` for what they take, with every schedule changed."""
    found = []

    def changed(s):
        return replace(s, small=changed(s.small), large=changed(s.large)) if isinstance(s, BySize) else replace(s, **change) if s.held else s

    def choose(kernel):
        s = sized_rows.choose(kernel, TARGET)
        if s is None:
            return None
        while change is TURNS and isinstance(s, BySize):
            s = s.large
        found.append(changed(s))
        return found[-1]

    return choose, found


def masked(x, m):
    return torch.softmax(x.masked_fill(~m, float("-inf")), -1)


def causal(x):
    return torch.softmax(x.masked_fill(torch.ones(x.shape[-2:], dtype=torch.bool).triu(1), float("-inf")), -1)


CASES = {  # the model, the example's sizes, the dimensions that vary, others
    "softmax": (lambda x: torch.softmax(x * 0.125, -1), (3, 7, 40), (1, 2), [(3, 5, 2), (3, 2, 131), (3, 3, 160), (3, 2, 257), (3, 2, 2100)]),
    "square": (lambda x: torch.softmax(x * 0.125, -1), (2, 40, 40), (1, 2), [(2, 9, 9), (2, 133, 133)]),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), (5, 40), (1,), [(5, 3), (5, 65), (5, 256), (5, 999)]),
    "layer norm": (lambda x: F.layer_norm(x, x.shape[-1:]), (5, 40), (0, 1), [(3, 9), (2, 130), (7, 255), (2, 1030)]),
    "instance norm": (lambda x: F.relu(F.instance_norm(x)), (2, 3, 6, 8), (2, 3), [(2, 3, 3, 3), (2, 3, 11, 13), (2, 3, 31, 33)]),
    "RMS norm": (lambda x: x * (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt().to(x.dtype), (4, 40), (1,), [(4, 5), (4, 129), (4, 600)]),
    "normalize": (lambda x: F.normalize(x, dim=-1), (4, 48), (1,), [(4, 5), (4, 131), (4, 900)]),
    "deviation": (lambda x: x.float().std(-1), (4, 3, 48), (0, 2), [(2, 3, 5), (3, 3, 131), (2, 3, 900)]),
    "causal": (causal, (3, 24, 24), (1, 2), [(3, 7, 7), (3, 131, 131)]),
    "whole words": (lambda x: torch.softmax(x, -1), (4, 64), (1,), [(4, 128), (4, 256), (4, 1024)]),
}
OWN, TURNS = {"held": True}, {"held": False}
SCHEDULES = {"own": OWN, "turns": TURNS, "not packed": {"packed": False}, "several rows": {"threads": 256, "across": 32}}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, schedule, dtype):
    choose, found = chosen(SCHEDULES[schedule])
    assert_right_at_all_sizes(*CASES[name], dtype, choose, PASSES)
    assert found


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("beside", ["mask", "bias", "weights"])
def test_tensors_that_lie_otherwise(beside, schedule, dtype):
    """What heads have in common begins elsewhere in vectors than what they have of their own."""
    torch.manual_seed(0)

    def inputs(heads, rows, length):
        x = torch.randn(heads, rows, length).to(dtype)
        if beside == "mask":
            m = torch.rand(rows, length) > 0.3
            m[:, 0] = True
            return x, m
        return x, (torch.randn(rows, length) if beside == "bias" else torch.randn(length)).to(dtype)

    model = {"mask": masked, "bias": lambda x, b: torch.softmax(x + b, -1), "weights": lambda x, w: F.layer_norm(x, x.shape[-1:], w)}[beside]
    choose, found = chosen(SCHEDULES[schedule])
    sizes = [{1: Dim.AUTO, 2: Dim.AUTO}, {0: Dim.AUTO} if beside == "weights" else {0: Dim.AUTO, 1: Dim.AUTO}]
    run = SimulatedModel(model, inputs(2, 6, 40), sizes, choose, passes=PASSES)
    assert found
    for other in ((2, 6, 40), (2, 3, 5), (2, 5, 131), (2, 2, 515)):
        x = inputs(*other)
        assert_close_to_float64(run(*x), model, x)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_weights_of_channels(schedule, dtype):
    """A group's channels have weights, which change within a vector where an image is no multiple of one, or smaller."""
    torch.manual_seed(0)
    model, weights = lambda x, w, b: F.silu(F.group_norm(x, 2, w, b)), torch.randn(2, 6).to(dtype)
    choose, found = chosen(SCHEDULES[schedule])
    x = torch.randn(2, 6, 4, 5).to(dtype)
    run = SimulatedModel(model, (x, *weights), ({2: Dim.AUTO, 3: Dim.AUTO}, {}, {}), choose, passes=PASSES)
    assert len(found) == 1 and len(run.program.plan.steps) == (1 if schedule == "turns" else 3)
    for size in ((4, 5), (2, 2), (3, 3), (7, 11), (16, 8), (23, 25)):
        x = torch.randn(2, 6, *size).to(dtype)
        assert_close_to_float64(run(x, *weights), model, (x, *weights))


@pytest.mark.parametrize("most, example", [(None, 2), (11, 3), (3, 2)])
def test_rows_of_few_lengths(most, example):
    """Kernels are generated for ranges of lengths: of a single one they would not know that it varies."""
    model = lambda x: torch.softmax(x.flatten(1), -1)  # noqa: E731
    choose, found = chosen(OWN)
    run = SimulatedModel(model, (torch.randn(3, example, 768),), ({1: Dim("n", min=2, max=most)},), choose, passes=PASSES)
    assert found
    for count in (2, 3, *([5, 10, 11] if most != 3 else [])):
        x = torch.randn(3, count, 768)
        assert_close_to_float64(run(x), model, (x,))
