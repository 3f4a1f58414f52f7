"""Small programs as one block of threads: their numbers on a simulated GPU, that threads wait for each other, and what becomes one."""

import pytest
import torch
from checks import check
from one_block_cases import CASES, PASSES, choose
from races import watched
from universal_program import SimulatedModel, assert_assembles

from inferno.target import find_target


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, make, threads = CASES[name]
    args = make()
    simulated = SimulatedModel(model, args, choose=choose(threads), passes=PASSES, expand=True)
    (launch,) = simulated.program.plan.steps
    assert launch.grid == (1, 1, 1) and launch.block == (threads, 1, 1)
    with watched():
        found = check(simulated, model, args)
    assert found.right, str(found)


def test_assembles():
    model, make, threads = CASES["a scan between rows"]
    simulated = SimulatedModel(model, make(), choose=choose(threads), passes=PASSES, expand=True)
    assert_assembles(simulated.program.gpu, find_target("sm_90a"))
