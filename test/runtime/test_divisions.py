"""Integers divided: exact to the last digit, at the ends of the type, and an error by zero as in eager."""

import pytest
import torch

import inferno

DIVISIONS = {
    "fmod": torch.fmod, "remainder": torch.remainder, "floor": torch.floor_divide, "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("name", DIVISIONS)
def test_as_in_eager(name, dtype):
    divide, lowest = DIVISIONS[name], torch.iinfo(dtype).min
    x = torch.tensor([lowest, lowest + 1, -lowest - 1, -7, 7, 0, 1], dtype=dtype)
    compiled = inferno.compile(divide, (x, x), target="cpu", fallback=False)
    for y in (torch.tensor([3, -7, 10, 2, -2, 5, -1], dtype=dtype), x[[1, 2, 3, 4, 6, 0, 1]]):
        assert torch.equal(compiled(x, y), divide(x, y))
    # The lowest number over -1 is itself, as it wraps around; at that quotient the processor stops, in eager too.
    minus = torch.full_like(x, -1)
    assert torch.equal(compiled(x, minus), torch.zeros_like(x) if name in ("fmod", "remainder") else -x)
    y = torch.tensor([1, 2, 3, 0, 5, 6, 7], dtype=dtype)
    for by_zero in (divide, compiled):
        with pytest.raises(RuntimeError):
            by_zero(x, y)
    with pytest.raises(inferno.DivisionByZero, match="test_divisions.py|" + divide.__name__):
        compiled(x, y)
    assert torch.equal(compiled(x, x.where(x != 0, 1)), divide(x, x.where(x != 0, 1)))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("number", [3, -7, -1, 0])
def test_by_a_number(number):
    x = torch.tensor([-(1 << 63) + 1, (1 << 63) - 1, -7, 7, 0])

    def divide(x):
        return torch.fmod(x, number), x % number, x // number

    compiled = inferno.compile(divide, (x,), target="cpu", fallback=False)
    if number:
        assert all(torch.equal(a, b) for a, b in zip(compiled(x), divide(x)))
    else:
        with pytest.raises(ZeroDivisionError):
            compiled(x)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int32], ids=str)
def test_numbers_that_tensors_divide(dtype):
    """Dynamo's graph has the number as the first argument of floor_divide, as I-BERT's activations do."""
    torch._dynamo.reset()
    y = torch.tensor([[-3.25, 0.75, 2.0], [7.5, -1.0, 100.0]]).to(dtype)
    y[y == 0] = 5

    def divided(y):
        return 7 // y, 7.5 // y, -7.5 // y, 1.0 // y[0, 0], -3 // y

    for ours, eager in zip(torch.compile(divided, backend="inferno")(y), divided(y)):
        assert ours.dtype == eager.dtype and torch.equal(ours, eager)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("rounding", ["trunc", "floor", None])
def test_numbers_by_numbers(rounding):
    """Tensors without dimensions, as Longformer counts its chunks."""
    torch._dynamo.reset()
    x = torch.randn(3, 8)

    def divided(x):
        tensors = [torch.div(a, b, rounding_mode=rounding) for a, b in ((7, 2), (-7, 2), (7.5, 2), (-7, 2.5))]
        return x.view(-1, torch.div(x.shape[1], 4, rounding_mode="trunc")), torch.floor_divide(x.shape[0], 2), *tensors

    for compiled in (torch.compile(divided, backend="inferno"), inferno.compile(divided, (x,), target="cpu")):
        for ours, eager in zip(compiled(x), divided(x), strict=True):
            assert ours.dtype == eager.dtype and torch.equal(ours, eager)
