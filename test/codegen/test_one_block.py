"""Small programs as one block of threads: their numbers on a simulated GPU, that threads wait for each other, and what becomes one."""

import pytest
import torch
from checks import check
from one_block_cases import CASES, PASSES, choose
from races import watched
from universal_program import SimulatedModel, assert_assembles

import inferno
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


def test_shared_arrays_are_aligned():
    """Behind arrays of an odd number of bytes, too: vectors are read of those of whole numbers."""
    def program(x, i):
        return torch.softmax(torch.softmax(x, 1).sum(0), 0)[i.mul(100).long() % 4]

    compiled = inferno.compile(program, (torch.randn(4, 287).half(), torch.rand(4)), target="sm_90a")
    assert "one_block" in [row.generator for row in compiled.explain().rows]
    arrays = [line for line in compiled.ir("ptx").splitlines() if ".shared .align" in line]
    assert len(arrays) > 1 and all(".align 16 " in line for line in arrays), arrays
