"""Convolutions whose windows lie side by side are one kernel that multiplies matrices: its numbers on a simulated GPU."""

import pytest
from checks import check
from kernels import TARGET
from patch_cases import CASES
from universal_program import SimulatedModel

from inferno.schedule.assign import choose


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    model, args = CASES[name]()
    chosen = []

    def pick(kernel):
        chosen.append(choose(kernel, TARGET))
        return chosen[-1]

    simulated = SimulatedModel(model, args, choose=pick, expand=True)
    assert [s.generator for s in chosen] in (["mma"], ["simt"])
    found = check(simulated, model, args)
    assert found.right, str(found)
