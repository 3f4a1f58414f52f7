"""Decompositions of integers of every width, of bytes, which have no sign, and of operands of two types, against torch's operators."""

import pytest
import torch
from torch.utils._pytree import tree_leaves
from decomposition_checks import aten, same, whole

import inferno
from inferno.capture.decompositions import own


def test_products_of_integers_added():
    """torch takes beta and alpha as integers too."""
    same(aten.addmv.default, whole(4), whole(4, 3), whole(3), beta=2, alpha=3)
    assert own()[aten.addmv.default](whole(4), whole(4, 3), whole(3), beta=0.2, alpha=0.6).dtype == torch.int64


def test_bytes_have_no_sign():
    x = torch.tensor([0, 1, 127, 128, 200, 255], dtype=torch.uint8)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        same(getattr(aten, name).Scalar, x, 200)
        same(getattr(aten, name).Tensor, x, x.flip(0))
        same(getattr(aten, name).Tensor, x, torch.tensor([-1, 300, 127, -128, 200, 0]))
    same(aten.sum.default, x)
    same(aten.sum.dim_IntList, x, [0], True)
    same(aten.prod.default, x[2:4])
    same(aten.cumsum.default, x, 0)
    same(aten.abs.default, x)
    same(aten.div.Tensor, x, x.flip(0))
    same(aten.div.Scalar_mode, x, 3, rounding_mode="floor")
    same(aten.remainder.Scalar, x, 7)
    same(aten.remainder.Scalar, x.view(torch.int8), 7)
    assert torch.equal(inferno.compile(lambda x: x % 7, (x.view(torch.int8),), target="cpu", fallback=False)(x.view(torch.int8)), x.view(torch.int8) % 7)
    same(aten.bitwise_or.Scalar, x, 129)
    for shift in (aten.__rshift__, aten.__lshift__):
        same(shift.Scalar, x, 4)
        same(shift.Tensor, x, torch.tensor([0, 1, 3, 4, 7, 8], dtype=torch.uint8))
        same(shift.Tensor, x, torch.arange(6))
    same(aten.scatter_reduce.two, x, 0, torch.tensor([0, 0, 1, 1, 2, 2]), x.flip(0), "amax")
    same(aten.scatter_reduce.two, x, 0, torch.tensor([0, 0, 1, 1, 2, 2]), x.flip(0), "mean")  # whose sums are bytes
    assert own()[aten.eq.Scalar](x.int(), 200) is NotImplemented
    for name in ("lt", "ne", "remainder", "fmod"):
        same(getattr(aten, name).Scalar, x, -3)
    same(aten.clamp.default, x, -5, 5)
    same(aten.any.dim, x, 0)
    same(aten.max.default, x)
    same(aten.min.default, x.view(torch.int8))
    same(aten.all.default, x)
    same(aten.round.default, x)
    same(aten.isnan.default, x)


_TYPES = (torch.uint8, torch.int8, torch.int16, torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.float32)


@pytest.mark.covering(most=1, also=lambda name: name in ("where", "cat", "div"))
@pytest.mark.parametrize("name", [
    "add", "mul", "maximum", "where", "cat", "lt", "bitwise_and", "fmod", "div", "by numbers",
])
def test_operands_of_two_types(name):
    """Compiled, since it is the import that takes each type for what it is."""
    values = [torch.tensor([3, 200, 1, 255, 0, 128, 77]).to(t) for t in _TYPES]
    values[5], values[6] = (torch.tensor([0.1, 2.5, -3.3, 7, 1, 9, -0.7]).to(t) for t in (torch.float16, torch.bfloat16))
    pairs = [(x, y) for x in values for y in values if x.dtype != y.dtype]
    if name == "bitwise_and":
        pairs = [(x, y) for x, y in pairs if not x.is_floating_point() and not y.is_floating_point()]
    if name == "fmod":
        pairs = [(x, torch.where(y == 0, torch.ones_like(y), y)) for x, y in pairs if torch.bool not in (x.dtype, y.dtype)]
        pairs = [(x, y) for x, y in pairs if x.is_floating_point() or y.is_floating_point()]

    def model(pairs):
        if name == "by numbers":
            return [(x * 2.5, 1.5 - x, x > 0.5, x**2.0, x.clamp(0.5, 100.5), x / 3) for x, _ in pairs[::7] if x.dtype != torch.bool]
        if name == "where":
            return [torch.where(x > 1, x, y) for x, y in pairs]
        if name == "cat":
            return [torch.cat([x, y]) for x, y in pairs]
        return [getattr(torch, name)(x, y) for x, y in pairs]

    compiled = inferno.compile(model, (pairs,), target="cpu", fallback=False)
    for mine, theirs in zip(tree_leaves(compiled(pairs)), tree_leaves(model(pairs)), strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine, theirs, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16], ids=str)
def test_floats_become_narrow_integers(dtype):
    """As many as vectors have, with bytes from 128 on, and what only has low bits there."""
    x = torch.linspace(-300, 300, 1201) if dtype == torch.int8 else torch.linspace(0, 300, 1201)
    compiled = inferno.compile(lambda x: (x * 1).to(dtype), (x,), target="cpu", fallback=False)
    assert torch.equal(compiled(x), x.to(dtype))


def test_integers_by_numbers_on_their_left():
    i = torch.tensor([3, 0, 2, 5, 7])
    same(aten.pow.Scalar, 2, torch.tensor([0, 1, 5, 31, 62, 63, 64, -1]))
    same(aten.pow.Scalar, 2, i.to(torch.int8))
    same(aten.pow.Scalar, -3, i)
    same(aten.bitwise_left_shift.Scalar_Tensor, 1, i)
    same(aten.bitwise_right_shift.Scalar_Tensor, 1000, i)
    same(aten.bitwise_left_shift.Tensor_Scalar, i, 3)
    same(aten.remainder.Scalar_Tensor, 100, i - 4)
    least = torch.tensor([-(2**31), 6, -(2**31), 7], dtype=torch.int32)
    same(aten.gcd.default, least, torch.tensor([3, 4, 2**31 - 1, -(2**31)], dtype=torch.int32))
    same(aten.bitwise_right_shift.Tensor_Scalar, (i + 200).to(torch.uint8), 3)


def test_booleans_as_complex_numbers():
    same(torch.ops.prims.convert_element_type.default, torch.tensor([True, False]), torch.complex64)


@pytest.mark.thorough
def test_common_multiples_of_what_is_not_negative():
    """LLVM's vectorizer did not come to an end."""
    x, y = torch.arange(12), torch.arange(12).flip(0)
    fast = inferno.compile(lambda x, y: torch.lcm(x.clamp(0, 20), y.clamp(0, 20)), (x, y), fallback=False)
    assert torch.equal(fast(x, y), torch.lcm(x, y))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8], ids=str)
def test_integers_of_two(dtype):
    top = torch.iinfo(dtype).max
    x = torch.tensor([0, 1, -1, 2, 12, -18, 100, 55, 34, top, top - 1]).to(dtype)
    same(aten.gcd.default, x[:, None], x[None])
    same(aten.lcm.default, x[:9, None], x[None, :9])
    same(aten.pow.Tensor_Tensor, x[:, None], x[None].abs())
    assert own()[aten.pow.Tensor_Tensor](torch.tensor([1, -1, -1, 2]), torch.tensor([-3, -3, -2, -1])).tolist() == [1, -1, 1, 0]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8], ids=str)
def test_negated_integers_keep_all_their_bits(dtype):
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.max, limits.max // 2 + 2, limits.min, 5, 0, -1], dtype=dtype)
    assert torch.equal(inferno.compile(torch.neg, (x,), fallback=False)(x), -x)


def test_powers_of_booleans():
    for exponent in (0, 1, 3):
        same(aten.pow.Tensor_Scalar, whole(5, high=2).bool(), exponent)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
def test_numbers_of_too_many_bits_keep_the_low_ones(dtype):
    """As torch takes a number, or a tensor without dimensions, beside integers: 300 is 44 in eight bits."""
    limits = torch.iinfo(dtype)
    x = torch.tensor([0, 1, limits.max, limits.min, 5, 44, 100], dtype=dtype)

    def model(x):
        for n in (limits.max + 46, limits.min - 2):
            number, divisor = torch.tensor(n), torch.where(x == 0, 1, x)
            yield [x >= n, x > n, x == n, x != n, x <= n, x < n, n > x, x == number, x < number]
            yield [x + n, n - x, x * n, torch.maximum(x, number), n // divisor, torch.remainder(n, divisor)]
            yield [x % n, x // n, torch.div(x, n, rounding_mode="trunc"), torch.fmod(x, n)]

    compiled = inferno.compile(lambda x: list(model(x)), (x,), target="cpu", fallback=False)
    for mine, theirs in zip(tree_leaves(compiled(x)), tree_leaves(list(model(x))), strict=True):
        assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16], ids=str)
def test_what_is_left_of_integers_to_torch_is_nothing(dtype):
    x = torch.tensor([3, 1, 0, 100, 127, 6] if dtype != torch.uint8 else [3, 1, 0, 200, 255, 6], dtype=dtype)

    def model(x):
        return [
            torch.bitwise_and(12, x), torch.bitwise_or(3, x), torch.bitwise_xor(5, x), 77 >> (x % 8), torch.full_like(x, 101), torch.pow(x, x % 5),
            torch.gcd(x, torch.full_like(x, 6)), torch.lcm(x, torch.full_like(x, 20)),
            *(getattr(x.view(2, 3), name)(0, dtype=t) for name in ("sum", "prod", "cumsum") for t in (dtype, torch.uint8, torch.int8)),
            (x > 3).sum(dtype=dtype), (x > 3).view(2, 3).sum(0, dtype=torch.uint8), torch.arange(3, 15, 2, dtype=dtype) + x, (x.float() / 3).sum(dtype=dtype),
            x.mean(dtype=torch.float64), x.view(2, 3).mean(0, dtype=torch.float64), x.view(2, 3).mean(1, True, dtype=torch.float32),
        ]

    compiled = inferno.compile(model, (x,), target="cpu", fallback=False)
    for mine, theirs in zip(compiled(x), model(x), strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine, theirs)


@pytest.mark.covering
@pytest.mark.parametrize("floats", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("integers", [torch.int16, torch.int32, torch.int64], ids=str)
def test_integers_beside_short_floats_are_rounded_first(integers, floats):
    """As in a comparison: what is equal differs by nothing, and a number that is infinite in 16 bits is so in a quotient."""
    n = torch.tensor([2049, 257, -257, -2049, 31745, 5] + [70000, 2**31 - 1] * (integers != torch.int16), dtype=integers)
    x = torch.tensor([2048, 256, -256, -2048, torch.inf, 2, torch.inf, 3], dtype=floats)[:len(n)]

    def model(n, x):
        return n - x, x - n, n % x, x % n, n // x, n / x, x / n, n * x, n == x, n < x, torch.maximum(n, x), torch.where(n > x, n, x), torch.atan2(n, x)

    compiled = inferno.compile(model, (n, x), target="cpu", fallback=False)
    for mine, theirs in zip(compiled(n, x), model(n, x), strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True)
