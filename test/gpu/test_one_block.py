"""Small programs as one block of threads on a GPU: right, and the same bits each time."""

import pytest
import torch
from checks import check, poison_memory
from on_gpu import on_hopper
from one_block_cases import CASES, PASSES, choose
from torch.utils._pytree import tree_leaves
from universal_program import compile_universal

pytestmark = on_hopper


@pytest.mark.parametrize("threads", [None, 1024])
@pytest.mark.parametrize("name", CASES)
def test_right(name, threads):
    torch.manual_seed(0)
    model, make, few = CASES[name]
    args = tuple(a.cuda() for a in make())
    compiled = compile_universal(model, args, args[0].device, "sm_90a", choose(threads or few), passes=PASSES)
    assert compiled.explain().launches == 1 or name == "pieces"  # which are left to more kernels here
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)
    first = tree_leaves(compiled(*args))
    assert all(torch.equal(a, b) for _ in range(20) for a, b in zip(first, tree_leaves(compiled(*args)), strict=True))
