"""What is returned transposed, and summed: made transposed at once."""

import pytest
import torch
from scheduled_program import assert_right_of, launches

F = torch.nn.functional


def clamped(x, y):
    c = torch.where(x > 0, torch.tanh(x), y).clamp(-1, 1)
    return c.sum(-1), c.t().contiguous()


def summed_both_ways(x, y):
    c = F.gelu(x) * y
    return c.sum(0), c.amax(1), c.t().contiguous()


def of_pieces(x, y):
    c = torch.tanh(torch.cat((x, y), 0)).clamp(-0.5, 0.5)
    return c.sum(-1), c.t().contiguous()


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("program", [clamped, summed_both_ways, of_pieces])
@pytest.mark.parametrize("shape", [(34, 20), (130, 66), (2, 300)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(program, shape, dtype):
    text = assert_right_of(program, shape, dtype, 2)
    assert launches(text) <= (3 if program is summed_both_ways else 2), text[:3000]
