"""Numbers of a program that vary, and may be below 0: where slices begin and end, diagonals, steps of a roll, factors; under torch.compile."""

import pytest
import torch
import torch.nn.functional as F

PROGRAMS = {
    "a slice's begin": lambda x, n: x[:, n:] * 2,
    "a slice's end": lambda x, n: x[:, :n] * 2,
    "its negative": lambda x, n: x[:, :-n] * 2,
    "both": lambda x, n: torch.cat((x[:, n:], x[:, :n]), 1) * 2,
    "rows": lambda x, n: x[n:n + 2] * 2,
    "a place": lambda x, n: x[:, n] * 2,
    "a roll": lambda x, n: x.roll(n, 1) * 2,
    "a border": lambda x, n: F.pad(x, (n, 1)) * 2,
    "a border that goes around": lambda x, n: F.pad(x, (n, 2), mode="circular") * 2,
    "a triangle": lambda x, n: x.tril(n) * 2,
    "a diagonal": lambda x, n: x.diagonal(n) * 2,
    "a factor": lambda x, n: x * n + 1,
    "a range": lambda x, n: torch.arange(n, n + 5) + x,
    "a bound": lambda x, n: x[:, max(n, 0):] * n,
    "an absolute value": lambda x, n: x[:, :abs(n)] * n,
    "what is written": lambda x, n: torch.slice_scatter(x, x[:, n:] + 7, 1, n) * 2,
}


@pytest.mark.covering
@pytest.mark.parametrize("numbers", [(1, 2, -2, 0, -1), (-1, -2, -3, 2, 1)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_signs_that_change(name, numbers):
    torch._dynamo.reset()
    model = PROGRAMS[name]
    compiled = torch.compile(model, backend="inferno")
    for number in numbers:
        x = torch.arange(15.0).view(3, 5)
        found, expected = compiled(x, number), model(x, number)
        assert torch.equal(found, expected) and found.stride() == expected.stride(), number
