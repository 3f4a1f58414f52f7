"""Matrices of 16 bits that are broadcast, multiplied and added up are products of matrices, and right."""

import pytest
import torch
from checks import assert_right
from choices import generators


CASES = {  # function, shapes
    "pairs": (lambda a, b: (a[:, None] * b[None]).sum(-1), ((64, 32), (48, 32))),
    "batches": (lambda a, b: (a[:, :, None] * b[:, None]).sum(-1), ((3, 16, 40), (3, 24, 40))),
    "what is made of them": (lambda a, b, c: torch.relu((a[:, :, None] * b).sum(1) * 0.5 + c), ((64, 40), (40, 32), (32,))),
    "read twice": (lambda a, b: (lambda s: (s, s.amax(-1)))((a[:, :, None] * b).sum(1)), ((64, 40), (40, 32))),
    "squares": (lambda a, b: ((a[:, None] * b[None]) ** 2).sum(-1), ((32, 20), (24, 20))),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, dtype):
    function, shapes = CASES[name]
    torch.manual_seed(0)
    assert_right(function, [torch.randn(s).to(dtype) for s in shapes], target="cpu")


def test_tensor_cores_multiply():
    args = torch.randn(1024, 64).bfloat16(), torch.randn(512, 64).bfloat16()
    assert generators(CASES["pairs"][0], args) == ["wgmma"]
