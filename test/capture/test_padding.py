"""Padding by widths of both signs: what is added on one side may be as much as is cut off on the other."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_right


@pytest.mark.parametrize("widths", [(1, -1), (-2, 2, 3, -1), (-1, -1), (0, 2, -3, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_widths_of_both_signs(widths, dtype):
    x = torch.arange(35, dtype=dtype).reshape(5, 7)
    assert_right(lambda x: F.pad(x, widths, value=-2), (x,), target="cpu")
