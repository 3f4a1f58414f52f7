"""Sums of products of which each factor is read once, against float64."""

import pytest
import torch
from checks import assert_right
from product_cases import CASES

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("scale", [1, 30])
@pytest.mark.parametrize("name", CASES)
def test_right(exact_float32, name, scale, dtype):
    function, shapes = CASES[name]
    compiled = assert_right(function, tuple(torch.randn(s, device="cuda").to(dtype) for s in shapes(scale)))
    assert "universal" not in {row.generator for row in compiled.explain().rows}
