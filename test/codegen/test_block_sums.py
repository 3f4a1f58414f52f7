"""Sums of small blocks of rows are maps: the gradients of enlarged images with channels last, and pooled patches."""

import pytest
import torch
from checks import check
from choices import generators
from universal_program import SimulatedModel

from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")


def enlarged(x):
    return x.view(2, 3, 2, 5, 2, 8).sum((2, 4))


def enlarged_volumes(x):
    return x.view(2, 2, 2, 2, 2, 3, 2, 8).sum((2, 4, 6)) * 0.5


def transposed(x):
    return x.view(2, 2, 4, 3, 4, 16).mean((2, 4)).permute(0, 3, 1, 2).contiguous()


def largest(x, y):
    return (x * y).view(2, 3, 2, 5, 2, 8).amax((2, 4)), y


def twice(x, y):
    """Two kernels read the sums, which one gives back, too."""
    sums = x.view(2, 3, 2, 5, 2, 8).sum((2, 4))
    return sums, torch.softmax(sums, -1) + y


CASES = {
    "enlarged": (enlarged, [(2, 6, 10, 8)]), "enlarged volumes": (enlarged_volumes, [(2, 4, 4, 6, 8)]), "transposed": (transposed, [(2, 8, 12, 16)]),
    "largest": (largest, [(2, 6, 10, 8), (8,)]), "twice": (twice, [(2, 6, 10, 8), (2, 3, 5, 8)]),
}


TYPES = (torch.bfloat16, torch.float32, torch.float16, torch.int32, torch.float32)


@pytest.mark.covering
@pytest.mark.parametrize("name, dtype", list(zip(CASES, TYPES)), ids=list(CASES))
def test_numbers(name, dtype):
    torch.manual_seed(0)
    model, shapes = CASES[name]
    args = tuple((torch.randn(s) * 8).to(dtype) for s in shapes)
    assert "reductions" not in generators(model, args)
    found = check(SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), expand=True), model, args)
    assert found.right, str(found)


def test_long_sums_stay_reductions():
    def blocks(x):
        return x.view(2, 2, 8, 3, 8, 16).sum((2, 4))

    assert generators(blocks, (torch.randn(2, 16, 24, 16),)) == ["reductions"]
