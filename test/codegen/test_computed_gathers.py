"""Rows that are looked up, gated, and moved: looked up where they are read, and gated where they are gathered."""

import pytest
import torch
from scheduled_program import assert_right, launches


def gated(x, rows):
    """Of twice as many rows, in another order, without what is above the diagonal."""
    x = x.index_select(1, rows)
    return -(x * torch.sigmoid(x.mean(1, keepdim=True))).repeat_interleave(2, 1).tril().roll(1, 1)


def summed(x, rows):
    x = x[:, rows]
    return x.sum(1), x.repeat_interleave(2, 1).roll(3, 1) * 2


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("program", [gated, summed])
@pytest.mark.parametrize("shape, taken", [((57, 64, 128), 32), ((16, 40, 520), 64), ((40, 33, 102), 34)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_right(program, shape, taken, dtype):
    torch.manual_seed(0)
    text = assert_right(program, (torch.randn(shape).to(dtype), torch.randint(0, shape[1], (taken,))))
    assert launches(text) <= 2 and "gather(%arg0" not in text, text[:3000]
