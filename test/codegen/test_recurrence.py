"""Recurrences in one launch: their numbers on a simulated GPU, for layers of torch's and cells that programs call, and how they are launched."""

import pytest
import torch
from checks import check
from choices import generators
from recurrent_cases import Cells, Own, Powers, bf16, randn
from torch import nn
from universal_program import SimulatedModel, assert_assembles

from inferno.errors import CompileError
from inferno.schedule.recurrence import recurrence
from inferno.schedule.recurrence.recurrence import Recurrence
from inferno.target import find_target

TARGET = find_target("sm_90a")
PASSES = "roll-steps{target=sm_90a always=1}"

# The model, its inputs, and the steps of each loop: a step that the program ends with may be other kernels than those before it.
CASES = {
    "lstm": lambda: (nn.LSTM(12, 24), (randn(4, 3, 12),), [4]),
    "lstm, states": lambda: (nn.LSTM(12, 24, batch_first=True), (randn(3, 4, 12), (randn(1, 3, 24), randn(1, 3, 24))), [4]),
    "lstm, long": lambda: (nn.LSTM(12, 20), (randn(40, 2, 12),), [40]),
    "lstm, a row": lambda: (nn.LSTM(12, 24), (randn(4, 1, 12),), [4]),
    "lstm, no batch": lambda: (nn.LSTM(12, 24), (randn(4, 12),), [4]),
    "lstm, two directions": lambda: (nn.LSTM(12, 24, bidirectional=True), (randn(4, 3, 12),), [4, 4]),
    "lstm bf16": lambda: (nn.LSTM(12, 24).bfloat16(), (randn(4, 3, 12).to(bf16),), [4]),
    "gru": lambda: (nn.GRU(12, 28), (randn(4, 9, 12),), [4]),
    "gru, two directions, long": lambda: (nn.GRU(8, 12, bidirectional=True, batch_first=True), (randn(2, 40, 8),), [40, 40]),
    "gru f16": lambda: (nn.GRU(12, 24).half(), (randn(4, 3, 12).half(),), [4]),
    "rnn, an odd number of units": lambda: (nn.RNN(12, 33, nonlinearity="relu"), (randn(4, 2, 12),), [4]),
    "lstm cells": lambda: (Cells(nn.LSTMCell(12, 24)), (randn(3, 5, 12), randn(3, 24)), [4]),
    "lstm cells bf16": lambda: (Cells(nn.LSTMCell(12, 24)).bfloat16(), (randn(3, 5, 12).to(bf16), randn(3, 24).to(bf16)), [4]),
    "gru cells, two layers": lambda: (Cells(nn.GRUCell(12, 20), nn.GRUCell(20, 28)), (randn(3, 4, 12), randn(3, 20), randn(3, 28)), [4, 4]),
    "own": lambda: (Own(24), (randn(4, 3, 24), randn(3, 24)), [4]),
    "powers": lambda: (Powers(), (randn(24, 24) / 5, randn(3, 24)), [6]),
}
SCHEDULES = {
    "chosen": None,
    "several rows and units": Recurrence(2, 5, 3, 2, False),
    "held": Recurrence(2, 7, 2, 1, True),
    "a block": Recurrence(9, 33, 4, 1, True),
}


def simulate(name, schedule=None):
    torch.manual_seed(0)
    model, args, steps = CASES[name]()
    loops = []

    def choose(kernel):
        parts = recurrence.read(kernel, TARGET)
        if not parts:
            return None
        loops.extend(c.steps for c in parts)
        chosen = schedule or recurrence.choose(kernel, TARGET)
        return chosen if schedule is None else Recurrence(
            min(chosen.rows, parts[0].rows), min(chosen.units, parts[0].units), chosen.columns, chosen.split, chosen.held)

    with torch.no_grad():
        return SimulatedModel(model, args, choose=choose, passes=PASSES), model, args, loops, steps


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name, schedule", [
    *((name, "chosen") for name in CASES), ("lstm", "several rows and units"), ("gru", "held"), ("own", "a block"), ("lstm, a row", "several rows and units"),
])
def test_right(name, schedule):
    simulated, model, args, loops, steps = simulate(name, SCHEDULES[schedule])
    assert loops == steps
    assert sum(launch.cooperative for launch in simulated.program.plan.steps) == 1 + ("layers" in name)
    found = check(simulated, model, args)
    assert found.right, str(found)


def test_numbers_that_are_none():
    """A state of NaN is no word that nobody has written."""
    simulated, model, args, *_ = simulate("gru")
    x = args[0].clone()
    x[2, 1, 3], x[3, 2, 0] = torch.nan, torch.inf
    with torch.no_grad():
        torch.testing.assert_close(simulated(x)[0], model(x)[0], equal_nan=True)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("change", [{"rows": 4}, {"units": 0}, {"units": 25}, {"split": 64}, {"columns": 0}])
def test_what_does_not_fit(change):
    with pytest.raises(CompileError, match="does not fit 3 rows of 24 units"):
        model, args, _ = CASES["lstm"]()
        fields = {"rows": 3, "units": 4, "columns": 2, "split": 1, "held": True, **change}
        choose = lambda kernel: Recurrence(**fields) if recurrence.read(kernel, TARGET) else None  # noqa: E731
        SimulatedModel(model, args, choose=choose, passes=PASSES)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", ["lstm", "gru f16"])
def test_assembles(name):
    assert_assembles(simulate(name)[0].program.gpu, TARGET)


@pytest.mark.thorough
def test_states_of_many_steps_are_chosen_by_their_place():
    """Those of a loop, in reverse for one direction, and the last one's, by elementwise kernels."""
    gru, steps = nn.GRU(80, 96, bidirectional=True), 40
    with torch.no_grad():
        found = generators(gru, (torch.empty(steps, 4, 80),))
    assert "recurrence" in found and "universal" not in found
