"""Elementwise kernels that read another order in short pieces, by boxes."""

import pytest
import torch
from box_cases import BYTES, CASES
from checks import assert_right
from on_gpu import on_hopper

pytestmark = on_hopper


@pytest.mark.parametrize("name", CASES)
def test_right(name):
    model, make = CASES[name]
    compiled = assert_right(model, tuple(a.cuda() for a in make()))
    assert [row.generator for row in compiled.explain().rows] == ["elementwise" if name in BYTES else "boxes"]


def test_large():
    """Of more boxes than are on the GPU at a time, in sizes that no box divides."""
    compiled = assert_right(lambda x: x.permute(0, 3, 1, 2).contiguous(), (torch.randn(7, 1021, 1019, 3, device="cuda"),))
    assert [row.generator for row in compiled.explain().rows] == ["boxes"]
