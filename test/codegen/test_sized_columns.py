"""Rows side by side whose length varies, or their number, on the simulator: held or by turns, of other sizes than the example's."""

from dataclasses import replace

import pytest
import torch
from kernels import TARGET
from sized_models import assert_right_at_all_sizes

from inferno.schedule.composite.size_ranges import BySize
from inferno.schedule.rows import sized_columns

F = torch.nn.functional
PASSES = "fuse-reductions{target=sm_90a always=1}"


def chosen(change: dict):
    """Chooses ``sized_columns`` for what they take, with every schedule changed; those by turns, where it says so, for rows of any length."""
    found = []

    def changed(s):
        if isinstance(s, BySize):
            return changed(s.large) if change.get("held") is False else replace(s, small=changed(s.small), large=changed(s.large))
        if "cluster" in change and s.along == 1:
            s = replace(s, across=32)  # a thread that has all of a row leaves nothing to other blocks
        return replace(s, **change, longest=s.longest if change.get("held", s.held) else 0)

    def choose(kernel):
        s = sized_columns.choose(kernel, TARGET)
        if s is None:
            return None
        found.append(changed(s))
        return found[-1]

    return choose, found


def columns_of_blocks(x):
    """Of which each is as long as the batch."""
    return torch.softmax(x.flatten(0, 1), 0)


CASES = {  # the model, the example's sizes, the dimensions that vary, others
    "first": (lambda x: torch.softmax(x * 0.5, 0), (40, 16), (0,), [(2, 16), (9, 16), (41, 16), (160, 16), (701, 16)]),
    "middle": (lambda x: torch.softmax(x, 1), (3, 24, 8), (1,), [(3, 2, 8), (3, 7, 8), (3, 95, 8), (3, 400, 8)]),
    "batch": (lambda x: torch.softmax(x, 1), (3, 24, 8), (0,), [(2, 24, 8), (7, 24, 8), (65, 24, 8)]),
    "columns": (lambda x: torch.log_softmax(x, 0), (24, 16), (1,), [(24, 2), (24, 7), (24, 131)]),
    "all": (lambda x: torch.softmax(x, 1), (3, 24, 8), (0, 1, 2), [(2, 2, 3), (5, 33, 7), (2, 130, 9), (4, 5, 65)]),
    "layer norm": (lambda x: F.layer_norm(x.transpose(1, 2), x.shape[1:2]).transpose(1, 2), (2, 24, 16), (0, 1), [(3, 5, 16), (2, 97, 16), (2, 300, 16)]),
    "images": (lambda x: F.normalize(x, dim=1), (2, 24, 4, 6), (0, 2, 3), [(3, 24, 3, 3), (2, 24, 7, 5)]),
    "deviation": (lambda x: (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt(), (40, 16), (0,), [(3, 16), (65, 16), (300, 16)]),
    "rows of the batch": (columns_of_blocks, (4, 10, 16), (0, 1), [(2, 3, 16), (9, 9, 16), (13, 31, 16)]),
}
OWN = {"reciprocals": True}
SCHEDULES = {
    "own": OWN, "turns": {"held": False}, "not kept": {"held": False, "kept": 0}, "a cluster": {"cluster": 2}, "not approximate": {"approximate": False},
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, schedule, dtype):
    choose, found = chosen(SCHEDULES[schedule])
    assert_right_at_all_sizes(*CASES[name], dtype, choose, PASSES)
    assert found
