"""What a model's forward changes in Python is changed by calls of the compiled one, and by nothing else."""

import collections
import random
import types

import numpy
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensor
from torch.utils._pytree import tree_leaves

import inferno
from inferno.errors import CaptureError, StateNotKept
from inferno.runtime.module import CompiledModule
from inferno.runtime.region.dynamo import DynamoModule


class Stateful(nn.Module):
    """``forward`` is a function of the module and the input; ``state`` are attributes."""

    def __init__(self, function, **state):
        super().__init__()
        self.function = function
        for name, value in state.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.function(self, x)


def count(self, x):
    self.n += 1
    return x * self.n


def remember(self, x):
    before, self.last = self.last, x * 2
    return x + before


def gather(self, x):
    self.seen.append(x.mean())
    return x * torch.stack(list(self.seen)).sum()


def hold(self, x):
    self.cache.keys = x if self.cache.keys is None else torch.cat([self.cache.keys, x])
    return self.cache.keys.sum()


def tally(self, x):
    self.tally["calls"] += 1
    return x * self.tally["calls"]


def first(self, x):
    self.first, was = False, self.first
    return x * 2 if was else x * 3


def loss(self, x):
    self.loss = x.sum()
    return x * 2


def fill(self, x):
    self.table = x.clone() if self.table is None else self.table + x
    return self.table * 2


def register(self, x):
    if not hasattr(self, "total"):
        self.register_buffer("total", torch.zeros(4))
    self.total += x
    return self.total * 2


def replace(self, x):
    self.weight = nn.Parameter(self.weight * 2)
    return x * self.weight


def swap(self, x):
    self.total.data = self.total + x
    return self.total * 2


def with_buffer(name, value):
    module = Stateful(fill)
    module.register_buffer(name, value)
    return module


def with_sum():
    module = Stateful(swap)
    module.register_buffer("total", torch.ones(4))
    return module


STATEFUL = {
    "a counter": lambda: Stateful(count, n=0), "a counter of a part": lambda: nn.Sequential(Stateful(count, n=0), Stateful(count, n=3)),
    "a tensor": lambda: Stateful(remember, last=torch.zeros(4)), "a list": lambda: Stateful(gather, seen=[]),
    "a queue": lambda: Stateful(gather, seen=collections.deque()), "an object": lambda: Stateful(hold, cache=types.SimpleNamespace(keys=None)),
    "a dictionary": lambda: Stateful(tally, tally=collections.defaultdict(int)), "the first call": lambda: Stateful(first, first=True),
    "a tensor beside": lambda: Stateful(loss, loss=None), "a buffer that is none yet": lambda: with_buffer("table", None),
    "a new buffer": lambda: Stateful(register), "a new parameter": lambda: Stateful(replace, weight=nn.Parameter(torch.ones(4))),
    "a tensor's memory": with_sum,
}


def state_of(module):
    return [leaf for m in module.modules() for leaf in tree_leaves([m.state_dict(keep_vars=True), m.__dict__])]


@pytest.mark.covering
@pytest.mark.parametrize("name", STATEFUL)
def test_calls_change_what_eager_changes_and_compiling_nothing(name):
    model, eager = STATEFUL[name](), STATEFUL[name]()
    compiled = inferno.compile(model, (torch.ones(4),), target="cpu")
    assert isinstance(compiled, DynamoModule)
    assert not any(isinstance(leaf, FakeTensor) for leaf in state_of(model))
    with torch.no_grad():
        for i in range(3):
            x = torch.randn(4, generator=torch.Generator().manual_seed(i))
            torch.testing.assert_close(compiled(x), eager(x))
    for key, value in vars(eager).items():
        if isinstance(value, (torch.Tensor, int, list, dict)) and not key.startswith("_"):
            torch.testing.assert_close(vars(model)[key], value)


def test_queues_of_limited_length_are_refused():
    with pytest.raises(StateNotKept, match="forward changes .*seen.*, a deque with maxlen.*: use a list"):
        inferno.compile(Stateful(gather, seen=collections.deque(maxlen=2)), (torch.ones(4),), target="cpu")


def test_state_beside_modules():
    """Of closures, objects and arguments."""
    seen = []

    def closure(x):
        seen.append(x.sum())
        return torch.stack(seen).sum() * x

    class Counting:
        n = 0

        def __call__(self, x):
            self.n += 1
            return x * self.n

    x = torch.arange(4.0)
    for model, results in ((closure, (6, 12)), (Counting(), (1, 2)), (Counting().__call__, (1, 2))):
        compiled = inferno.compile(model, (x,), target="cpu")
        assert not seen or isinstance(seen[0], torch.Tensor)
        for factor in results:
            torch.testing.assert_close(compiled(x), x * factor)

    def write(given):
        given["sum"] = given["x"] + 1
        return given["sum"] * 2

    compiled, given = inferno.compile(write, ({"x": x},), target="cpu"), {"x": x}
    torch.testing.assert_close(compiled(given), x * 2 + 2)
    torch.testing.assert_close(given["sum"], x + 1)


def settle(self, x):
    self.height, self.width = x.shape
    self.sizes = [self.height, self.width]
    if self.table is None:
        self.table = torch.arange(self.width)
    return x * self.table * self.height


def test_what_no_call_depends_on_is_one_program():
    """Numbers that every call sets the same, and a table that the first call makes of no input."""
    compiled = inferno.compile(model := Stateful(settle, table=None, height=None), (torch.ones(3, 4),), target="cpu", fallback=False)
    assert isinstance(compiled, CompiledModule)
    assert model.table is None and model.height is None and not hasattr(model, "sizes")
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x), model(x))


def step(self, x):
    self.rows[self.at % 2] = x
    self.at += 1
    self.last = x * 2
    return self.rows.sum(0)


def test_state_beside_an_integer_that_decides():
    """A place that a buffer's value says is told to the trace, which looks at a tensor that is left behind when this is over."""
    model, eager = (Stateful(step, last=None) for _ in range(2))
    for module in (model, eager):
        module.register_buffer("rows", torch.zeros(2, 4))
        module.register_buffer("at", torch.tensor(0))
    compiled = inferno.compile(model, (torch.ones(4),), target="cpu")
    with torch.no_grad():
        for x in torch.randn(3, 4):
            torch.testing.assert_close(compiled(x), eager(x))
    torch.testing.assert_close(model.last, eager.last)
    torch.testing.assert_close(model.state_dict(), eager.state_dict())


def test_the_error_names_what_is_changed():
    with pytest.raises(CaptureError, match=r"forward changes what is no tensor of its graph: self\.0\.n, self\.1\.n; a buffer"):
        inferno.compile(STATEFUL["a counter of a part"](), (torch.ones(4),), target="cpu", fallback=False)
    with pytest.raises(CaptureError, match=r"x\.data = y"):
        inferno.compile(with_sum(), (torch.ones(4),), target="cpu", fallback=False)


def test_a_forward_that_raises_leaves_no_trace():
    def fails(self, x):
        self.n += 1
        self.seen.append(x)
        raise ValueError("no")

    model = Stateful(fails, n=0, seen=[], weight=nn.Parameter(torch.ones(4)))
    with pytest.raises(CaptureError, match="no"):
        inferno.compile(model, (torch.ones(4),), target="cpu", fallback=False)
    assert model.n == 0 and model.seen == [] and type(model.weight) is nn.Parameter and not isinstance(model.weight.data, FakeTensor)


def seeded(x):
    torch.manual_seed(3)
    return x + torch.rand(4)


def forked(x):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        first = torch.rand(4)
    with torch.random.fork_rng():
        again = torch.rand(4)
    return first + x, again, torch.rand(4) * x


NUMBERS = {
    "seed": (seeded, "torch's seed"), "forked": (forked, "the state of torch's generator"),
    "state": (lambda x: (torch.get_rng_state(), torch.rand(4) + x), "the state of torch's generator"),
    "initial seed": (lambda x: torch.rand(4) + x * (torch.initial_seed() % 100), "the state of torch's generator"),
    "python": (lambda x: x * random.random(), "Python's random numbers"), "numpy": (lambda x: x * float(numpy.random.rand()), "NumPy's random numbers"),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_the_host(name):
    """Each call seeds or draws as eager does, and compiling does neither."""
    def begin():
        torch.manual_seed(3)
        random.seed(1)
        numpy.random.seed(1)

    x, (model, text) = torch.ones(4), NUMBERS[name]
    with pytest.raises(CaptureError, match=text):
        inferno.compile(model, (x,), target="cpu", fallback=False)
    begin()
    expected = [model(x) for _ in range(3)]
    begin()
    compiled = inferno.compile(model, (x,), target="cpu")
    torch.testing.assert_close([compiled(x) for _ in range(3)], expected)
