"""Kernels that go over rows side by side: their numbers on a simulated GPU, and what they are made of."""

import pytest
import torch
from checks import check
from column_cases import CASES, SCHEDULES, TURNED, choose
from row_kernel_cases import PASSES
from universal_program import SimulatedModel, assert_assembles

from inferno.errors import CompileError
from inferno.target import find_target


def right(name, schedule="chosen", cases=CASES):
    torch.manual_seed(0)
    model, args = cases[name]()
    simulated = SimulatedModel(model, args, choose=choose(SCHEDULES[schedule]), passes=PASSES)
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, model, args)
    assert found.right, str(found)
    return simulated


@pytest.mark.parametrize("name", CASES)
def test_right(name):
    right(name)


@pytest.mark.parametrize("name", ["softmax bf16", "softmax, middle", "variance and mean"])
@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s != "chosen"])
def test_schedules(name, schedule):
    right(name, schedule)


@pytest.fixture
def unmeasured(monkeypatch):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")


@pytest.mark.parametrize("name", TURNED)
def test_turned(unmeasured, name):
    right(name, cases=TURNED)


def test_turned_by_two_blocks(unmeasured):
    simulated = right("threads of no row", "two blocks", TURNED)
    assert_assembles(simulated.program.gpu, find_target("sm_90a"))


def test_assembles():
    assert_assembles(right("channels last").program.gpu, find_target("sm_90a"))


def test_schedules_that_do_not_fit():
    model, args = CASES["softmax, odd sizes"]()
    with pytest.raises(CompileError, match="does not fit"):
        SimulatedModel(model, args, choose=choose({"vector": 8}), passes=PASSES)
