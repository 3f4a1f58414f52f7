"""Integer powers, and a selection between a tensor and itself."""

import pytest
import torch
from checks import assert_right

import inferno


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


def test_floats_compared_with_numbers_that_they_round():
    def compare(x):
        return x == 0.1, x > 0.1, x <= 0.1, x != -0.1, x < 2.5, x >= 16777217, x == float("inf"), x != float("nan"), x < -0.1

    for dtype in (torch.float32, torch.bfloat16):
        x = torch.tensor([0.1, -0.1, 2.5, 16777216.0], dtype=dtype)
        for mine, theirs in zip(inferno.compile(compare, (x,), target="cpu", fallback=False)(x), compare(x), strict=True):
            assert torch.equal(mine, theirs)


def test_shifts_by_too_many_bits():
    def shift(x, by):
        return x << by, x >> by, torch.bitwise_left_shift(x, by), x << 3, x >> 70, x >> 1

    for dtype in (torch.int64, torch.int32):
        x, by = torch.tensor([5, -3, 2, -7, 1], dtype=dtype), torch.tensor([-1, 100, 3, 64, 31], dtype=dtype)
        for mine, theirs in zip(inferno.compile(shift, (x, by), target="cpu", fallback=False)(x, by), shift(x, by), strict=True):
            assert torch.equal(mine, theirs)


def test_a_boolean_added_to_booleans():
    def compute(x):
        return x + True, x + False, True + x

    x = torch.tensor([True, False])
    for mine, theirs in zip(inferno.compile(compute, (x,), target="cpu", fallback=False)(x), compute(x), strict=True):
        assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)


def test_what_imports_as_an_invalid_module_runs_in_eager():
    """Here a boolean that is a bound of integers, at which the program's text is in MLIR's generic form."""
    x = torch.tensor([5, -3, 2])
    compiled = inferno.compile(lambda x: x.clamp_min(True) + 1, (x,), target="cpu")
    assert torch.equal(compiled(x), x.clamp_min(True) + 1)


@pytest.mark.thorough
def test_masks_that_select_nothing():
    """How much they select varies from call to call."""
    def put(o, m, x):
        o = o.clone()
        o[:, m] = x[:, m] * 2
        return o, o.masked_scatter(m, x[:, m])

    o, x = torch.randn(3, 6), torch.randn(3, 6)
    compiled = inferno.compile(put, (o, torch.arange(6) > 2, x), target="cpu")
    for least in (2, 9, -1, 4, 9, 3):
        mask = torch.arange(6) > least
        for mine, theirs in zip(compiled(o, mask, x), put(o, mask, x), strict=True):
            assert torch.equal(mine, theirs)


def test_booleans_between_numbers():
    x = torch.tensor([True, False, True])
    for mine, theirs in zip(
        inferno.compile(lambda x: (x.clamp_min(2), x.clamp_max(0), x.clamp(0, 3), x.clamp(0.5, 3)), (x,), target="cpu", fallback=False)(x),
        (x.clamp_min(2), x.clamp_max(0), x.clamp(0, 3), x.clamp(0.5, 3)), strict=True,
    ):
        assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)
