"""Numbers that torch knows while it traces are known through decompositions, and may be sizes."""

import pytest
import torch

import inferno

X = torch.arange(36.0).view(2, 6, 3)
SIZES = {
    "two numbers": lambda x: x.view(2, torch.div(x.shape[1], 3, rounding_mode="trunc"), 3, 3),
    "rounded down": lambda x: x.view(torch.div(13, x.shape[1], rounding_mode="floor"), -1),
    "a tensor and a number": lambda x: x.view(torch.div(torch.tensor(x.shape[1]), 3, rounding_mode="floor"), -1),
    "two tensors": lambda x: x.view(torch.div(torch.tensor(13), torch.tensor(x.shape[1]), rounding_mode="floor"), -1),
    "of what is computed": lambda x: x[:, :torch.div(x.shape[1] - 1, 2, rounding_mode="floor") + 1],
    "in a loop": lambda x: sum(x[:, i] for i in range(torch.remainder(torch.tensor(x.shape[1]), 4))),
    "of a float": lambda x: x[:, :int(torch.floor_divide(torch.tensor(7.5), 2.0))],
}


@pytest.mark.covering
@pytest.mark.parametrize("name", SIZES)
def test_known_numbers_are_sizes(name):
    torch._dynamo.reset()
    function = lambda x: SIZES[name](x) * 2  # noqa: E731
    compiled = torch.compile(function, backend="inferno")
    for x in (X, -X):
        torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0)
    assert not inferno.explain(compiled).fallbacks
    torch.testing.assert_close(inferno.compile(function, (X,), fallback=False)(X), function(X), rtol=0, atol=0)


def test_known_numbers_are_operands():
    """What is not read as a size is computed."""
    torch._dynamo.reset()
    function = lambda x: (x * torch.div(x.shape[1], 4, rounding_mode="floor") + torch.div(7, 2), torch.fmod(torch.tensor(7), 4))  # noqa: E731
    for call in (torch.compile(function, backend="inferno"), inferno.compile(function, (X,))):
        torch.testing.assert_close(call(X), function(X), rtol=0, atol=0)


def test_what_is_drawn_is_not_known():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + torch.bernoulli(torch.tensor(0.5)), backend="inferno")
    torch.manual_seed(0)
    assert len({float((compiled(X) - X)[0, 0, 0]) for _ in range(20)}) == 2


def test_sizes_that_vary_are_not_asked_for():
    torch._dynamo.reset()
    function = lambda x: torch.div(x.masked_select(x > 5), 2, rounding_mode="floor") - 1  # noqa: E731
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, backend="inferno", fullgraph=True)
        for x in (X, X * 0, X * (X == 7)):
            torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0)
    fallbacks = inferno.explain(compiled).fallbacks
    assert fallbacks and not any("failed" in f for f in fallbacks)
