"""Rows that are read where they lie, in pieces of concatenations, padded tensors and shifts: of which piece a point is depends on its row, or on its place."""

import pytest
import torch
from checks import check
from row_kernel_cases import PASSES, F, choose
from universal_program import SimulatedModel

from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def behind_a_token(token, x, positions):
    """As vision transformers begin."""
    return F.layer_norm(torch.cat((token.expand(len(x), 1, -1), x), 1) + positions, (x.shape[-1],))


def behind_a_token_and_returned(token, x, positions):
    x = torch.cat((token.expand(len(x), 1, -1), x), 1) + positions
    return x, F.rms_norm(x, (x.shape[-1],))


def shifted(x, y):
    return torch.softmax(F.pad(x[:, :-1], (0, 0, 1, 0)) * y, -1)


def padded(x, w):
    """Zeros on both sides of rows and of their points."""
    return F.layer_norm(F.pad(x, (8, 16, 1, 2)), w.shape, w)


def three(x, y, z):
    return torch.log_softmax(torch.cat((x, torch.tanh(y), z), 1), -1)


def largest(x, y):
    return torch.cat((x, y), 1).square().logsumexp(-1)


def of_both(x, y, z):
    """By rows, and by places in them."""
    return F.normalize(torch.cat((torch.cat((x, y), -1), z), 0), dim=-1)


def transposed(x, y):
    return torch.softmax(torch.cat((x, y), 0), -1).t().contiguous()


def running(x, y):
    return torch.softmax(torch.cat((x, y), 1), -1).cumsum(-1)


def scaled(x, y, a, b):
    """Each row by a number of its own, which is chosen once for the row."""
    return torch.softmax(torch.cat((x, y.to(x.dtype)), 1) * torch.cat((a, b.to(a.dtype)), 0), -1)


def made(*shapes, dtype):
    torch.manual_seed(0)
    return tuple(torch.randn(s).to(dtype) for s in shapes)


def beside(*pieces):
    return torch.softmax(torch.cat(pieces, -1), -1)


CASES = {
    "beside each other, anywhere": (beside, made((37, 33), (37, 34), dtype=F16)),
    "beside each other, many": (beside, made((1500, 333), (1500, 150), dtype=F32)),
    "a token, bf16": (behind_a_token, made((1, 1, 64), (3, 10, 64), (1, 11, 64), dtype=BF16)),
    "a token, odd rows": (behind_a_token, made((1, 1, 35), (3, 10, 35), (1, 11, 35), dtype=F32)),
    "a token, returned": (behind_a_token_and_returned, made((1, 1, 64), (3, 10, 64), (1, 11, 64), dtype=F16)),
    "shifted": (shifted, made((2, 9, 48), (2, 9, 48), dtype=F32)),
    "padded": (padded, made((2, 5, 40), (64,), dtype=BF16)),
    "three": (three, made((2, 3, 32), (2, 1, 32), (2, 6, 32), dtype=F32)),
    "three, wide": (three, made((2, 3, 1536), (2, 1, 1536), (2, 6, 1536), dtype=BF16)),
    "largest": (largest, made((4, 3, 80), (4, 5, 80), dtype=BF16)),
    "of both": (of_both, made((7, 24), (7, 16), (5, 40), dtype=F32)),
    "of both, at odd places": (of_both, made((7, 23), (7, 18), (5, 41), dtype=F16)),
    "transposed": (transposed, made((30, 40), (11, 40), dtype=F32)),
    "scaled": (scaled, (*made((20, 24), dtype=BF16), *made((20, 40), (7, 1), dtype=F16), *made((13, 1), dtype=BF16))),
    "running": (running, made((2, 3, 64), (2, 5, 64), dtype=F32)),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", CASES)
def test_one_kernel_reads_the_pieces(name):
    model, args = CASES[name]
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=PASSES, expand=True)
    assert [step.kernel.startswith("rows_") for step in simulated.program.plan.steps] == [True]
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("schedule", [
    {"held": False, "kept": 0, "unroll": 2}, {"threads": 64, "across": 64}, {"vector": 1}, {"threads": 64, "across": 64, "cluster": 2, "held": False},
])
@pytest.mark.parametrize("name", ["a token, bf16", "padded", "of both", "three, wide"])
def test_schedules(name, schedule):
    model, args = CASES[name]
    simulated = SimulatedModel(model, args, choose=choose(schedule), passes=PASSES, expand=True)
    found = check(simulated, model, args)
    assert found.right, str(found)
