"""Writes to the place that a tensor of one number says compile once, whatever the number."""

import copy

import pytest
import torch
from torch import nn

import inferno
from inferno.errors import IndexOutOfRange


class Ring(nn.Module):
    """The last four inputs; ``write(buffer, count, x)`` is a line of the model's."""

    def __init__(self, write):
        super().__init__()
        self.write = write
        self.register_buffer("last", torch.zeros(4, 3, 2))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.write(self.last, self.count, x)
        self.count += 1
        return self.last.sum(0) + x


def at(*key, of=lambda x: x):
    """A write at a key whose functions are of the count."""

    def write(buffer, count, x):
        made = tuple(k(count) if callable(k) else k for k in key)
        buffer[made[0] if len(made) == 1 else made] = of(x)

    return write


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("write", [
    at(lambda n: n % 4), at(lambda n: n % 4 - 4), at(slice(None), lambda n: n % 3, of=lambda x: x[0]), at(..., lambda n: n % 2, of=lambda x: x[:, 0]),
    at(None, lambda n: n % 4, slice(1, 3), of=lambda x: x[:2]), at(1, lambda n: n % 3, of=lambda x: x[0]), at(lambda n: n % 4, of=lambda x: 7),
    at(lambda n: (n % 4).int(), of=lambda x: x[None].double()), at(slice(0, 4, 2), lambda n: n % 3, slice(None), of=lambda x: x[:2]),
    at(lambda n: n % 4, of=lambda x: x.sum()),
])
def test_one_program_for_each_number(write):
    inferno.stats(reset=True)
    model, x = Ring(write), torch.randn(3, 2)
    eager, fast = copy.deepcopy(model), inferno.compile(model, (x,))
    for step in range(6):
        torch.testing.assert_close(fast(x + step), eager(x + step))
    torch.testing.assert_close(model.last, eager.last)
    assert model.count == 6
    assert inferno.stats().fallbacks == 0 and "values of" not in str(fast.explain())


def test_a_number_that_is_out_of_range():
    model, x = Ring(at(lambda n: n)), torch.randn(3, 2)
    fast = inferno.compile(model, (x,), target="cpu")
    for _ in range(4):
        fast(x)
    with pytest.raises(IndexOutOfRange):
        fast(x)
