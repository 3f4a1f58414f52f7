"""Sizes that are said to vary and are none of the example's are an error that names the argument, before anything is captured."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import inferno
from inferno.capture.dynamic_shapes import check_dynamic_shapes

X = torch.randn(2, 3)


class Pair(nn.Module):
    def forward(self, x, more, scale=None):
        return x + more["y"][0]


@pytest.mark.parametrize("given, message", [
    ("b", "dynamic_shapes: expected a dict by the arguments' names, or a tuple .*, got str"),
    (({0: Dim("b")},), "an entry for each of the 2 arguments, None where nothing varies, got 1 entries"),
    ({"z": {0: Dim("b")}}, "names of the arguments, x, more, got 'z'"),
    (({7: Dim("b")}, None), "dynamic_shapes of x: expected numbers of its 2 dimensions, got 7"),
    (((Dim("b"),), None), "of x: expected an entry for each of its 2 dimensions, got 1 entries"),
    ((Dim("b"), None), "of x: expected a dict of dimensions, .*, or None, got"),
    (({0: "b"}, None), r"of x: expected torch.export.Dim\('batch'\), a number or None for dimension 0, got 'b'"),
    (({0: 5}, None), "of x: expected a range of dimension 0 with the example's size, 2, in it, got 5"),
    ((None, {"y": [{1: Dim("b", min=4, max=9)}]}), r"of more\['y'\]\[0\]: expected a range of dimension 1 with the example's size, 3, in it, got 4 to 9"),
])
def test_what_does_not_fit(given, message):
    with pytest.raises(inferno.OptionError, match=message):
        inferno.compile(Pair(), (X, {"y": [X]}), dynamic_shapes=given)


@pytest.mark.parametrize("given", [
    None, {"x": {0: Dim("b")}},
    ({0: Dim("b", min=2, max=9), 1: None}, None), ({-1: 3}, {"y": [(Dim.AUTO, None)]}), {"x": None, "scale": None}, (None, None, None),
])
def test_what_fits(given):
    check_dynamic_shapes(Pair(), (X, {"y": [X]}), {}, given)


def test_what_has_no_names_is_left_to_torch():
    check_dynamic_shapes(lambda *tensors: tensors[0], (X, X), {}, ({0: Dim("b")},))
    check_dynamic_shapes(lambda x, **others: x, (X,), {"y": X}, {"x": None, "others": {"y": None}})


def test_nothing_that_passes_ask_is_a_condition():
    """A choice between matrices is looked at for a substitution, whose rows are as many as columns: other sizes may be the same in a later call."""
    def model(q, k):
        i, j = torch.arange(q.shape[0])[:, None] + (k.shape[0] - q.shape[0]), torch.arange(k.shape[0])
        return torch.where((j <= i) & (i - j < 3), q @ k.T, k[:, 0] - q[:, :1])

    compiled = inferno.compile(model, (torch.randn(5, 4), torch.randn(7, 4)), dynamic_shapes=({0: Dim("s", max=99)}, {0: Dim("t", max=99)}))
    for s, t in ((5, 7), (9, 9), (1, 1), (6, 3)):
        q, k = torch.randn(s, 4), torch.randn(t, 4)
        torch.testing.assert_close(compiled(q, k), model(q, k))


def test_what_is_full_of_a_float_of_sizes_and_what_is_compared_with_one():
    def model(x):
        n = x.shape[0]
        weights = torch.full((n,), 1 / n, dtype=torch.float16)
        return weights, torch.full_like(x, n ** -0.5), torch.where(x > 1 / n, n / 7, x), torch.arange(n) * (1 / n), x.clamp(max=2 / n)

    fast = inferno.compile(model, (torch.randn(6),), dynamic_shapes=({0: Dim("n", min=2, max=99)},), target="cpu", fallback=False)
    for n in (6, 2, 31):
        x = torch.randn(n)
        for found, expected in zip(fast(x), model(x), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-7 if found.dtype == torch.float32 else 0, atol=0)


def test_what_an_operation_assumes_where_a_condition_is_asserted():
    """A height of 3 halves to a row, so that torch asserts what it else had to prove, also what becomes of a pooling: windows of one size."""
    def model(x):
        return nn.functional.interpolate(x, mode="area", scale_factor=(0.5, 3.0))

    sizes = ({2: Dim("height", min=2, max=64), 3: Dim("width", min=2, max=64)},)
    fast = inferno.compile(model, (torch.randn(2, 2, 8, 6),), dynamic_shapes=sizes, target="cpu")
    with pytest.raises(inferno.InputError, match=r"captured for: \(s0 % \(s0 // 2\)\) == 0 must hold, where s0 is 9"):
        fast(torch.randn(2, 2, 9, 14))
    x = torch.randn(2, 2, 12, 5)
    torch.testing.assert_close(fast(x), model(x))
