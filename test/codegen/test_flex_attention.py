"""Kernels of flex_attention on the simulator: biases that are read backwards, rows without a key, logarithms of sums that are stored as something else."""

import pytest
import torch
from attention_program import simulate
from checks import assert_close_to_float64
from flex_cases import operands

from inferno.schedule.attention import Attention


@pytest.mark.parametrize("name, length", [("relative", 41), ("documents", 40)])
def test_simulated(name, length):
    torch.manual_seed(0)
    function, args = operands(name, length, 16, batch=1, heads=2)
    assert_close_to_float64(simulate(function, args, Attention(1, 16, turns=False)), function, args)
