"""What contractions compute of parts of tensors that they read where they lie, by the simulator."""

import dataclasses

import pytest
import torch
from checks import check
from part_cases import CASES
from universal_program import SimulatedModel

import inferno
from inferno.schedule.assign import choose
from inferno.target import TARGETS, find_target


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_numbers(monkeypatch, name):
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=16))
    torch.manual_seed(3)
    function, make, generators = CASES[name]
    args, chosen = make(1), []

    def chooses(kernel):
        chosen.append((kernel.name.value, choose(kernel, find_target("sm_90a"))))
        return chosen[-1][1]

    run = SimulatedModel(function, tuple(args), choose=chooses, passes="fold-slices{target=sm_90a}", expand=True)
    assert not any("slice" in kernel for kernel, _ in chosen) and chosen[-1][1].generator in generators
    found = check(run, function, tuple(args))
    assert found.right, str(found)


def test_the_library_reads_them_too():
    """Beside a product whose epilogue is a kernel of its own, which reads a part as well."""
    args = torch.empty(48, 5, 64).bfloat16(), torch.empty(40, 64).bfloat16(), torch.empty(48, 64).bfloat16()
    compiled = inferno.compile(
        lambda x, w, r: torch.nn.functional.gelu(torch.nn.functional.linear(x[:, 0], w)) * r[:, 8:48], args, target="sm_90a", matmul="library")
    assert [row.generator for row in compiled.explain().rows] == ["cublaslt", "elementwise"]
