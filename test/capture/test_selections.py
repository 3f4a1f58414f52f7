"""Integer powers, and a selection between a tensor and itself."""

import torch
from checks import assert_right


def test_integer_powers():
    x = torch.randint(-9, 9, (5, 7))
    assert_right(lambda x: (x**0, x**1, x**2, x**5, x**40), (x,), target="cpu")
    assert_right(lambda x: x**3, (x.to(torch.int32),), target="cpu")


def test_both_branches_are_one_tensor():
    x = torch.randn(4, 4)
    assert_right(lambda c, x: torch.where(c, x, x), (torch.rand(3, 4, 4) > 0.5, x), target="cpu")


def test_booleans_compared_with_numbers():
    x = torch.tensor([True, False, True])
    assert_right(lambda x: (x > -2, x >= 1, x < 2, x <= 0, x == 2, x != -1, x > True, x < 0.5, x > -2.5), (x,), target="cpu")
