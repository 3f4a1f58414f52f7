"""Sizes that vary: what is known of their quotients."""

import random

import pytest

from inferno.size_forms import as_python, from_python
from inferno.symbolic import Symbol, bounds, evaluate, floordiv, is_unbounded, maximum, minimum, quotient, size_of

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


def test_what_both_are_multiples_of_cancels():
    assert floordiv(3 * A, 3 * B) == floordiv(A, B) and floordiv(6 * A * N, 4 * B * N + 2 * N) == floordiv(3 * A, 2 * B + 1)
    assert floordiv(6, 4 * A) == floordiv(3, 2 * A) and floordiv(3 * A, 2 * B) != floordiv(A, B)


def test_what_may_be_0_does_not_cancel():
    zero = size_of(Symbol("z", low=0, hint=5))
    assert evaluate(floordiv(zero * A, zero * B), lambda s: 0) == 0 and floordiv(zero * A, zero * B) != floordiv(A, B)
    by = zero * A + zero
    assert floordiv(by * B, by) != B and evaluate(floordiv(by * B, by), lambda s: 0) == 0


def test_a_part_of_what_has_no_bound_has_none():
    assert is_unbounded(floordiv(N, 320)) and bounds(floordiv(N + 5, 320))[0] == 0
    assert bounds(floordiv(size_of(Symbol("m", low=2, high=640)), 320)) == (0, 2)


@pytest.mark.parametrize("by", [4, A], ids=str)
def test_what_is_rounded_up_is_not_less(by):
    rounded = (N + by - 1) // by * by
    assert bounds(rounded - N)[0] == 0 and bounds(N - rounded)[1] == 0
    assert minimum(rounded * B, N * B) == N * B and maximum(N, rounded) == rounded
    assert -N // by == -((N + by - 1) // by)


def test_extremes_that_cancel_each_other():
    longer, shorter = maximum(N - 5, 0), maximum(5 - N, 0)
    assert longer - shorter == N - 5
    assert minimum(2 * longer + 9, 2 * N + shorter - 1) - shorter == 2 * N - 1


def test_bounds_hold_for_all_values():
    """Drawn sizes of two symbols, beside what they are for each of their values."""
    draw, (a, b) = random.Random(1), (Symbol("a", 0, 13), Symbol("b", 1, 7))
    values = [{a: x, b: y} for x in range(14) for y in range(1, 8)]

    def atom():
        c, (x, y) = draw.randint(-4, 5), map(size_of, (a, b))
        one, other = draw.choice([x, y, x - y, 5 - x, (x + 3) // 2, c]), draw.choice([c, y + c, x + c, c - x])
        quotient = draw.choice([x + draw.randint(0, 3), x * y, x + 3 * y]) // draw.choice([y, draw.randint(1, 4)])
        return draw.choice([x, y, quotient, minimum(one, other), maximum(one, other)])

    for _ in range(100):
        size = sum(draw.randint(-4, 4) * (atom() if draw.random() < 0.8 else 1) * (atom() if draw.random() < 0.5 else 1) for _ in range(draw.randint(1, 4)))
        found = [evaluate(size, v.__getitem__) for v in values]
        assert bounds(size)[0] <= min(found) and max(found) <= bounds(size)[1], size
        for number in (2, size_of(a)):
            for pick, of in ((minimum, min), (maximum, max)):
                picked = [of(f, number if number == 2 else v[a]) for f, v in zip(found, values)]
                assert [evaluate(pick(size, number), v.__getitem__) for v in values] == picked, size
        assert from_python(as_python(size), {"a": a, "b": b}) == size
