"""Kernels of flex_attention on the simulator: biases that are read backwards, rows without a key, logarithms of sums that are stored as something else."""

import pytest
import torch
from attention_program import simulate
from checks import assert_close_to_float64
from flex_cases import operands
from torch.fx import symbolic_trace
from universal_program import SimulatedModel

from inferno.capture import flex_attention
from inferno.schedule.attention.attention_gradients import AttentionGradients
from inferno.schedule.attention.gradient_parser import parse_attention_gradient
from inferno.schedule.attention.schedule import Attention


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name, length", [("relative", 41), ("documents", 40)])
def test_simulated(name, length):
    torch.manual_seed(0)
    function, args = operands(name, length, 16, batch=1, heads=2)
    assert_close_to_float64(simulate(function, args, Attention(1, 16, turns=False)), function, args)


@pytest.mark.thorough
def test_gradients_simulated():
    """Of a sum with a bias, under a mask that leaves a row without a key, from logarithms to the base of 2."""
    torch.manual_seed(0)
    score, joint = symbolic_trace(lambda s, b, h, i, j, slopes: s + slopes[h] * (j - i)), symbolic_trace(lambda s, b, h, i, j, g, slopes: (g,))
    mask = symbolic_trace(lambda b, h, i, j: (i >= j) & (i != 3))

    def backward(q, k, v, result, logarithms, gradient, slopes):
        return flex_attention.backward(q, k, v, result, logarithms, gradient, None, score, joint, (mask,), 0.25, {}, (slopes,))[:3]

    q, k, v, gradient = (torch.randn(1, 2, 40, 16).bfloat16() for _ in range(4))
    slopes = torch.rand(2)
    wide = [t.double().requires_grad_() for t in (q, k, v)]
    result, logarithms, _ = flex_attention.forward(*wide, score, (mask,), 0.25, {}, (slopes.double(),))
    result.nan_to_num().backward(gradient.double())
    given = (q, k, v, result.detach().bfloat16(), logarithms.detach().float(), gradient, slopes)
    assert logarithms[0, 0, 3] == -torch.inf
    found = []

    def choose(kernel):
        if parse_attention_gradient(kernel) is None:
            return None
        found.append(kernel)
        return AttentionGradients(1, 32)

    ours = SimulatedModel(backward, given, choose=choose, passes="fuse-attention-gradients{target=sm_90a always=1}")(*given)
    assert len(found) == 2
    for mine, plain, one in zip(ours, backward(*given), wide):
        assert (mine.double() - one.grad).norm() <= max(1.5 * (plain.double() - one.grad).norm(), 8e-3 * one.grad.norm())
