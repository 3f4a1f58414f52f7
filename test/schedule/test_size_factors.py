"""Sizes as products of others that have nothing to do with each other."""

from inferno.schedule.passes.size_factors import factors_of, in_factors
from inferno.symbolic import Symbol, floordiv, size_of

H, W, N = (size_of(Symbol(name, low=2)) for name in "hwn")
ROWS, PLACES = floordiv(H + 3, 4), floordiv(H, 4) * floordiv(W, 4) + 1


def test_the_factors_are_known_sizes():
    sizes = [N, ROWS, 3 * N * ROWS, 64]
    assert factors_of(sizes, sizes) == [ROWS, N]
    assert factors_of([N * PLACES, N, PLACES * 8, PLACES], [N, PLACES]) == [N, PLACES]
    assert factors_of([N, N * ROWS], [N, N * ROWS]) is None  # nobody has computed what is left


def test_symbols_do_where_all_are_products_of_them():
    assert factors_of([N, N * W, 3 * N * N], [N, W]) is None


def test_what_has_to_do_with_each_other_is_not_forgotten():
    for sizes in ([H, ROWS], [ROWS, floordiv(H, 4)], [PLACES, PLACES - 1]):
        assert factors_of(sizes, sizes) is None


def test_a_size_by_its_factors():
    a, b = (size_of(Symbol(name)) for name in ("n0", "n1"))
    assert in_factors(6 * N * N * ROWS, [N, ROWS], [a, b]) == 6 * a * a * b
    assert in_factors(5, [N], [a]) == 5 and in_factors(W * N, [N], [a]) is None
