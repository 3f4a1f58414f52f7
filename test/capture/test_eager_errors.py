"""Operations that are an error in eager, by the types of tensors or by numbers that do not fit them, are one in compiled programs: eager itself raises it."""

import math

import pytest
import torch
import torch.nn.functional as F

import inferno
from inferno.capture.eager_errors import error, fits

aten = torch.ops.aten
INTEGERS = torch.tensor([[3, -4, 5], [100, 0, -1]])
BOOLEANS = INTEGERS > 0

NUMBERS = (
    0, 1, -1, 127, 128, 255, 256, -128, -129, -255, -256, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, True, 0.0, -0.0, 0.5, -0.5, -1.0, 127.5, -128.5, 255.5,
    65504.0, 65505.0, 3.3e38, -3.4e38, 3.5e38, 1e40, math.inf, -math.inf, math.nan, 1 + 0j, 1e40j,
)
DTYPES = (
    torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_that_fit(dtype):
    for number in NUMBERS:
        try:
            torch.empty(2, dtype=dtype).fill_(number)
            expected = True
        except RuntimeError as raised:
            assert "without overflow" in str(raised)
            expected = False
        assert fits(number, dtype) == expected, number


OVERFLOWS = {
    "pad": lambda x: F.pad(x, (1, 1), value=300),
    "full": lambda x: torch.full((2,), 300, dtype=x.dtype) + x[0, :2],
    "full like": lambda x: torch.full_like(x, 300),
    "new": lambda x: x.new_full((2,), -129),
    "fill": lambda x: x.clone().fill_(300),
    "fill of nothing that is a number": lambda x: x.clone().fill_(math.nan),
    "mask": lambda x: x.masked_fill(x > 0, 300),
    "where": lambda x: torch.where(x > 0, x, 300),
    "index_fill": lambda x: x.index_fill(0, torch.tensor([0]), 300),
    "scatter": lambda x: x.scatter(0, torch.tensor([[0, 1, 0]]), 300),
    "clamp": lambda x: x.clamp(max=300),
    "threshold": lambda x: F.threshold(x, 3, 300),
    "factor": lambda x: torch.add(x, x, alpha=300),
    "factor of a number": lambda x: torch.rsub(x, 3, alpha=300),
    "products": lambda x: torch.addcmul(x, x, x, value=300),
    "matrices": lambda x: torch.addmm(x[:, :2], x, x.t(), alpha=300),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", OVERFLOWS)
def test_numbers_that_do_not_fit(name):
    x = INTEGERS.to(torch.int8)
    for call in (OVERFLOWS[name], inferno.compile(OVERFLOWS[name], (x,)), torch.compile(OVERFLOWS[name], backend="inferno")):
        with pytest.raises(RuntimeError, match="value cannot be converted to type int8_t without overflow"):
            call(x)


def test_numbers_that_16_bit_floats_lack():
    x = torch.randn(3, 4, dtype=torch.float16)
    for number in (-1e9, torch.finfo(torch.float32).min):
        compiled = inferno.compile(lambda x, number=number: x.masked_fill(x > 0, number), (x,))
        with pytest.raises(RuntimeError, match="c10::Half without overflow"):
            compiled(x)
    compiled = inferno.compile(lambda x: x.masked_fill(x > 0, -math.inf), (x,), fallback=False)
    assert torch.equal(compiled(x), x.masked_fill(x > 0, -math.inf))


def test_low_bits_of_numbers_beside_elements():
    x = INTEGERS.to(torch.int8)
    model = lambda x: (x + 300, x * 300, x - 1000, F.pad(x, (1, 1), value=-128), torch.full_like(x.to(torch.uint8), -1))  # noqa: E731
    for made, expected in zip(inferno.compile(model, (x,), fallback=False)(x), model(x), strict=True):
        assert made.dtype == expected.dtype and torch.equal(made, expected)


TYPES = {
    "variance": (lambda x: x.var(0), INTEGERS, "floating point"),
    "deviation": (lambda x: x.std(), BOOLEANS, "floating point"),
    "fraction": (lambda x: x.frac(), INTEGERS, "not implemented for 'Long'"),
    "pooling": (lambda x: F.avg_pool1d(x[None].int(), 2), INTEGERS, "not implemented for 'Int'"),
    "difference": (lambda x: 1 - x, BOOLEANS, "not supported"),
    "mean at places": (lambda x: x.scatter_reduce(0, torch.tensor([[0, 1, 1]]), x, "mean"), BOOLEANS, "not implemented for 'Bool'"),
    "mean of rows": (lambda x: x.index_reduce(0, torch.tensor([0, 1]), x, "mean"), BOOLEANS, "not implemented for 'Bool'"),
    "place": (lambda x: x.argmax(), BOOLEANS, "does not support bool"),
    "size": (lambda x: x.abs(), BOOLEANS, "not implemented for 'Bool'"),
    "product": (lambda x: x @ x.t(), BOOLEANS, "not implemented for 'Bool'"),
    "labels": (lambda x: F.cross_entropy(x.float(), torch.zeros(2, dtype=torch.int32)), INTEGERS, "Long or Byte"),
    "dimensions": (lambda x: x.float().sum().index_add(0, torch.tensor([0]), torch.ones(1)), INTEGERS, "shape must match"),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    model, x, text = TYPES[name]
    with pytest.raises(RuntimeError, match=text):
        model(x)
    for call in (inferno.compile(model, (x,)), torch.compile(model, backend="inferno")):
        with pytest.raises(RuntimeError, match=text):
            call(x)


def test_reasons():
    x = torch.zeros(3, dtype=torch.int8)
    assert error(aten.full.default, ([2], 300), {"dtype": torch.int8}) == "300 is no number of int8"
    assert error(aten.full.default, ([2], 300), {}) is None and error(aten.add.Tensor, (x, 300), {}) is None
    assert error(aten.clamp.default, (x, -math.inf), {}) is None  # is computed in float32
    assert error(aten.full.default, ([], 1e6), {"dtype": torch.float16}) is None
    assert error(aten.addcmul.default, (x.half(), x.half(), x.half()), {"value": 1e6}) is None
    assert error(aten.var.correction, (x, [0]), {}) == "it takes floating-point numbers alone"
    compiled = inferno.compile(lambda x: torch.full_like(x, 300), (x,))
    assert "it is an error in eager: 300 is no number of int8" in str(compiled.explain())
