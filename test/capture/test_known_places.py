"""Rows that are taken at places which are known when compiling are slices."""

import pytest
import torch
from checks import assert_right

from inferno.capture import capture

ARANGE = torch.arange
CASES = {  # function, whether places are still looked up
    "cross product": (lambda x: torch.linalg.cross(x[:3], x[1:4], dim=0), False),
    "cross product of rows": (lambda x: torch.linalg.cross(x[:, :3], x[:, 2:5], dim=-1), False),
    "broadcast": (lambda x: torch.linalg.cross(x[:, None, :3], x[None, :, 2:5], dim=-1), False),
    "every second": (lambda x: x.index_select(1, ARANGE(0, 6, 2)), False),
    "rotated": (lambda x: x[:, (ARANGE(6) + 4) % 6], False),
    "backwards, by negative places": (lambda x: x[:, -1 - ARANGE(3)], False),
    "twice": (lambda x: x[ARANGE(2).repeat(2)], False),
    "many": (lambda x: x[:, 5 - ARANGE(6)], True),
    "two indices": (lambda x: x[ARANGE(4), ARANGE(4)], True),
    "a matrix of places": (lambda x: x[ARANGE(4).view(2, 2)], True),
    "of the input": (lambda x: x[(x[:, 0] > 0).long()], True),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", CASES)
def test_what_remains(name):
    function, looked_up = CASES[name]
    args = (torch.randn(4, 6),)
    text = capture(function, args).text
    assert ("aten.index" in text) == looked_up
    assert_right(function, args, target="cpu")


def test_sizes_that_vary_are_left():
    n = torch.export.Dim("n", min=4, max=64)
    text = capture(lambda x: x[ARANGE(3)] + x[-1 - ARANGE(3)], (torch.randn(8, 4),), dynamic_shapes=({0: n},)).text
    assert "aten.index" in text
