"""The universal generator's kernels on the GPU, one model for each kind of operation, against float64."""

import pytest
import torch
from checks import check, poison_memory
from universal_cases import CASES
from universal_program import compile_universal

from inferno.runtime.device import target_of


# Eager itself does not run these on a GPU: a constant on the CPU, and integer matmuls.
NOT_ON_CUDA = {"constants", "matmul i64"}


@pytest.mark.parametrize("name", [c for c in CASES if c not in NOT_ON_CUDA])
def test_right(name):
    model, args = CASES[name]()
    model, args = model.cuda(), tuple(a.cuda() for a in args)
    before = [a.clone() for a in args]
    device = args[0].device
    compiled = compile_universal(model, args, device, target_of(device).name)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(args, before)), "an input was written to"
