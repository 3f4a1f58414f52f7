"""Writes to elements that share memory, and to what is read in another place: as in eager, which refuses most of them."""

import pytest
import torch
import torch.nn.functional as F

import inferno
from inferno.capture.overlapping_writes import overlaps
from inferno.errors import CaptureError

X = torch.linspace(-1, 2, 4)


def _set(tensor, place, value):
    tensor[place] = value
    return tensor


REFUSED = {
    "add": lambda x: (x * 2).expand(3, 4).add_(1),
    "an argument": lambda x: x.expand(3, 4).add_(1),
    "set": lambda x: _set((x * 2).expand(3, 4), slice(None), 5.0),
    "scatter": lambda x: (x * 2).expand(3, 4).scatter_(0, torch.zeros(1, 4, dtype=torch.long), 2.0),
    "function": lambda x: F.relu_((x * 2).expand(3, 4)),
    "shift": lambda x: (y := x * 2)[1:].add_(y[:-1]),
    "copy": lambda x: (y := x * 2)[1:].copy_(y[:-1]),
    "set beside": lambda x: _set(y := x * 2, slice(1, None), y[:-1]),
    "transposed": lambda x: (y := x.repeat(4, 1)).add_(y.t()),
    "out": lambda x: torch.add((y := x * 2)[1:], y[:-1], out=y[1:]),
}
COMPUTED = {
    "fill": lambda x: ((y := x * 2).expand(3, 4).fill_(1), y),
    "zero": lambda x: ((y := x * 2).expand(3, 4).zero_(), y),
    "mask": lambda x: ((z := (y := x * 2).expand(3, 4)).masked_fill_(z > 0, 5.0), y),
    "set a row": lambda x: (_set((y := torch.cat([x, x])).as_strided((3, 4), (2, 1)), 0, 5.0), y),
    "set a column at a place": lambda x: (_set((y := torch.cat([x, x])).as_strided((3, 4), (2, 1)), (slice(None), torch.tensor(1)), 5.0), y),
    "row": lambda x: ((z := (y := x * 2).expand(3, 4))[0].add_(1), z, y),
    "in place": lambda x: F.hardtanh((x * 2).expand(3, 4).clone(), 0.0, 1.0, True),
    "strided": lambda x: ((y := torch.cat([x, x])).as_strided((3, 3), (1, 1)).add_(1), y),
}
COMPILED = {
    "sibling": lambda x: ((y := x * 2), (z := y.expand(3, 4)), y.add_(1), z + 1),
    "swap": lambda x: _set(y := x * 2, slice(0, 2), y[2:]),
    "itself": lambda x: (y := x * 2).add_(y),
    "one of one": lambda x: (x * 2).expand(1, 4).add_(1),
    "and": lambda x: (y := x > 0).view(4, 1) & y,
    "or": lambda x: (y := x.repeat(4, 1) > 0) | y.t(),
}


@pytest.fixture(autouse=True)
def anew():
    torch._dynamo.reset()


@pytest.mark.covering()
@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses(name, capfd):
    function = REFUSED[name]
    dynamic = torch.compile(function, backend="inferno", dynamic=True)
    for call in (function, torch.compile(function, backend="inferno"), inferno.compile(function, (X,)), dynamic):
        with pytest.raises(RuntimeError, match="refer to a single memory location|refers to a single memory location"):
            call(X.clone())
    assert "FX-traced Module" not in capfd.readouterr().err
    with pytest.raises(CaptureError, match="forward writes to a tensor by .*, and (elements of what it writes to share memory|it reads what)"):
        inferno.compile(function, (X,), fallback=False)


@pytest.mark.covering()
@pytest.mark.parametrize("name", COMPUTED)
def test_what_eager_computes(name):
    function = COMPUTED[name]
    for call in (torch.compile(function, backend="inferno"), inferno.compile(function, (X,))):
        torch.testing.assert_close(call(X.clone()), function(X.clone()), rtol=0, atol=0, check_stride=True)


def test_what_is_set_of_an_argument():
    """One write to elements that others of it share changes these, too."""
    def function(x):
        x[0] = 5.0
        return x.sum(1)

    for call in (torch.compile(function, backend="inferno"), inferno.compile(function, (torch.arange(20.0).as_strided((4, 5), (2, 1), 1),))):
        mine, theirs = (torch.arange(20.0).as_strided((4, 5), (2, 1), 1) for _ in range(2))
        assert torch.equal(call(mine), function(theirs)) and torch.equal(mine, theirs)
        assert not any("<function" in str(f) for f in inferno.explain(call).fallbacks)


@pytest.mark.covering
@pytest.mark.parametrize("name", COMPILED)
def test_what_is_compiled(name):
    function = COMPILED[name]
    for call in (compiled := torch.compile(function, backend="inferno"), inferno.compile(function, (X,), fallback=False)):
        torch.testing.assert_close(call(X.clone()), function(X.clone()), rtol=0, atol=0, check_stride=True)
    assert not inferno.explain(compiled).fallbacks


def test_an_argument_that_is_expanded():
    """A part of it that has no element twice."""
    function = lambda x: (x[0].add_(1), x * 2)  # noqa: E731
    for make in (lambda x: torch.compile(function, backend="inferno"), lambda x: inferno.compile(function, (x,))):
        ours, eager = X.clone().expand(3, 4), X.clone().expand(3, 4)
        torch.testing.assert_close(make(ours)(ours), function(eager), rtol=0, atol=0)
        assert torch.equal(ours, eager)


def test_which_tensors_overlap():
    x = torch.arange(12.0)
    assert all(map(overlaps, (x[0].expand(2), x.unfold(0, 3, 2), x.as_strided((3, 2), (1, 2)))))
    assert not any(map(overlaps, (x, x.view(3, 4).t(), x[::3], x[0].expand(1), x[:0].view(0, 1).expand(0, 5), x.unfold(0, 2, 3), x.as_strided((2, 2), (1, 2)))))
