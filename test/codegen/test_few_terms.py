"""Sums of few whole numbers in a row, as of which experts a token has, are made where they are read."""

import pytest
import torch
import torch.nn.functional as F
from checks import check
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")


def balance(chosen, p):
    """How often experts are chosen, beside how likely they were."""
    often = F.one_hot(chosen, 64).sum(1).float()
    return 64 * (often.mean(0) * p.mean(0)).sum(), often.mean(0)


def counts(chosen, p):
    return F.one_hot(chosen, 64).sum(1), (F.one_hot(chosen, 64).sum(1) > 1) * p


@pytest.mark.parametrize("model", (balance, counts))
def test_right(model):
    torch.manual_seed(0)
    args = torch.randint(0, 64, (48, 4)), torch.rand(48, 64)
    found = check(SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET)), model, args)
    assert found.right, str(found)


def test_not_written():
    """Whole numbers of 64 bits of every token and expert would be 8.4 MB."""
    args = torch.zeros(16384, 8, dtype=torch.int64), torch.empty(16384, 64)
    rows = inferno.compile(lambda i, p: F.one_hot(i, 64).sum(1).float().mean(0), args, target="sm_90a").explain().rows
    assert len(rows) == 1 and rows[0].bytes < 2e6
