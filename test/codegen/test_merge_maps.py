"""Maps of the same points become one kernel with several results."""

import pytest
import torch
from checks import check
from choices import generators
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")


def given_back(x, y, z):
    a = x + y
    return torch.tanh(a) * z, a


def two(x, y, z):
    return x.sin() * y, x.cos() * z


def cell(i, f, g):
    c = f.sigmoid() * i + i.sigmoid() * g.tanh()
    return f.sigmoid() * c.tanh(), c


def step(p, g, m):
    m = m * 0.9 + g * 0.1
    v = g * g * 0.001
    return p - 0.1 * m / (v.sqrt() + 1e-3), m, v


def parts(x, y, z):
    a, b = (x + y).chunk(2, -1)
    return a.sigmoid() * b, b.tanh(), z


def pieces(x, y, z):
    a = torch.cat((x, y), -1) + 1.5
    return a.exp() * torch.cat((z, z), -1), a


def transposed(x, y, z):
    a = (x * y).exp()
    return a.t() + z.t(), a


def chain(x, y, z):
    a = x * y
    b = a.exp()
    return a, b, b + z


def chosen(x, y, z):
    a = torch.where(x > y, x, z)
    return a, a > 0.5, a.abs() * 3


def columns(x, y, z):
    a, b, c, d, *_ = z.unbind(-1)
    return a.exp(), b + 1, c.sin() * d, x + y


def filtered(x, y, z):
    before, found = torch.zeros_like(x[:, ::4]), []
    for t in range(4):  # parts of an argument in another shape
        before = x.view(x.shape[0], -1, 4)[..., t] * y[:, :1] - before * z[:, :1]
        found.append(before)
    return tuple(found)


MODELS = (given_back, two, cell, step, parts, pieces, transposed, chain, chosen, filtered)


def kernels(model, *shapes, dtype=torch.float32):
    return inferno.compile(model, tuple(torch.randn(s, dtype=dtype) for s in shapes), target="sm_90a").explain().rows


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", MODELS)
def test_right(model, dtype):
    torch.manual_seed(0)
    args = tuple(torch.randn(24, 40, dtype=dtype) for _ in range(3))
    merged = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes="merge-maps{target=sm_90a}")
    apart = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET))
    assert len(merged.program.plan.steps) < len(apart.program.plan.steps)
    found = check(merged, model, args)
    assert found.right, str(found)
    for one, other in zip(merged(*args), apart(*args)):
        assert torch.equal(one, other)


@pytest.mark.covering
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("shape", ((16, 512), (4096, 4096)))
def test_one_kernel(model, shape):
    assert generators(model, tuple(torch.empty(shape, dtype=torch.bfloat16) for _ in range(3))) == ["elementwise"]


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_columns_of_short_rows(dtype):
    """They lie in the same sectors, which are read once."""
    def model(x):
        return tuple(c.relu() * 2 + i for i, c in enumerate(x.unbind(-1)))

    (row,) = kernels(model, (1 << 20, 8), dtype=dtype)
    assert row.generator == "elementwise"
    torch.manual_seed(0)
    x = torch.randn(37, 8, dtype=dtype)
    simulated = SimulatedModel(model, (x,), choose=lambda k: assign.choose(k, TARGET), passes="merge-maps{target=sm_90a}")
    found = check(simulated, model, (x,))
    assert found.right, str(found)


def test_halves_of_long_rows_stay_apart():
    found = kernels(lambda x: (x[:, :1024].exp(), x[:, 1024:].sin()), (4096, 2048))
    assert len(found) == 2
