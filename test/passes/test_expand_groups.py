"""Grouped convolutions are one kernel with their padding and epilogue, and right against float64; so are those of which nothing is left to sum."""

import re

import torch
from checks import assert_close_to_float64
from oracle import run_module
from torch import nn

from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.target import find_target


def test_a_block_of_groups():
    block = nn.Sequential(nn.Conv2d(6, 12, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1, groups=4, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 6, 1))
    stages = right(block.eval(), torch.randn(2, 6, 9, 8))
    assert not re.findall(r"call @(pieces|select)\w*\(", stages["scheduled"]) and len(re.findall(r"call @(?:conv|matmul)", stages["scheduled"])) == 3


def test_a_window_and_a_group_of_one_element():
    stages = right(nn.Conv2d(4, 4, 1, 3, 1, groups=4), torch.randn(1, 4, 8, 7))
    assert "reduction" not in stages["fused"]


def right(model, x):
    """The stages of a model whose numbers are right at the last ones."""
    found = capture(model, (x,))
    stages = build_from("torch", found.text, find_target("sm_90a"), last="scheduled", signature=found.signature).stages
    for stage in ("fused", "scheduled"):
        (result,) = run_module(stages[stage], [t.contiguous() for t in found.signature.arguments_of((x,), {})])
        assert_close_to_float64(found.signature.results[0].as_eager(result), model, (x,))
    return stages
