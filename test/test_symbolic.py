"""Sizes that vary: what is known of their quotients."""

import pytest

from inferno.symbolic import Symbol, bounds, evaluate, floordiv, is_unbounded, quotient, size_of

A, B, N = (size_of(Symbol(name, low=2, hint=5)) for name in "abn")


@pytest.mark.parametrize("exact", [A, A * B, A + B, 2 * A * B - B + 3, (N // 7) * A - A, A * A + 2 * A * B + B * B])
@pytest.mark.parametrize("by", [A, A + 1, A * B + B, 4 * N * N - 4 * N + 1, 3 * (N // 7) + 2])
def test_a_product_is_divided_by_a_factor(exact, by):
    assert floordiv(exact * by, by) == exact and quotient(exact * by, by) == exact
    assert quotient(exact * by + 1, by) is None


def test_what_is_no_product_is_rounded_down():
    of = {"a": 5, "b": 4, "n": 9}
    for a, by in ((A * B + 1, A + 1), (A * A + B, A + B), (6 * A + 3, 2 * B + 1)):
        assert quotient(a, by) is None
        assert evaluate(floordiv(a, by), lambda s: of[s.name]) == evaluate(a, lambda s: of[s.name]) // evaluate(by, lambda s: of[s.name])


def test_what_may_be_0_does_not_cancel():
    zero = size_of(Symbol("z", low=0, hint=5))
    by = zero * A + zero
    assert floordiv(by * B, by) != B and evaluate(floordiv(by * B, by), lambda s: 0) == 0


def test_a_part_of_what_has_no_bound_has_none():
    assert is_unbounded(floordiv(N, 320)) and bounds(floordiv(N + 5, 320))[0] == 0
    assert bounds(floordiv(size_of(Symbol("m", low=2, high=640)), 320)) == (0, 2)
