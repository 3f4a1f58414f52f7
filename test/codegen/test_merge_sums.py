"""Several reductions of a tensor read it once."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")
PASSES = ",".join(f"{name}{{target=sm_90a}}" for name in ("fuse-reductions", "merge-variances", "merge-sums", "fuse-sum-maps"))


def statistics(x):
    return x.mean(), x.std(), x.min(), x.max()


def scaled(x):
    return x.abs().max(), (x * x).sum(), x.var(), x.mean()


def deviation(x):
    return x.std(), x.abs().max()


def by_column(x):
    return x.mean(0), x.var(0), x.amin(0), x.abs().amax(0)


def by_row(x):
    return x.mean(1), x.var(1), x.amin(1), x.abs().amax(1)


MODELS = (statistics, scaled, deviation, by_column, by_row)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
@pytest.mark.parametrize("shape", ((512, 384), (77, 131)))
@pytest.mark.parametrize("model", MODELS)
def test_right(model, shape, dtype):
    torch.manual_seed(0)
    args = ((torch.randn(shape) + 3).to(dtype),)
    made = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=PASSES)
    found = check(made, model, args)
    assert found.right, str(found)


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_one_pass(dtype):
    """Of 16M elements on a GPU, to scalars and along dimensions."""
    x = torch.zeros(4096, 4096, dtype=dtype)
    for model in (statistics, deviation, by_column, by_row):
        rows = inferno.compile(model, (x,), target="sm_90a").explain().rows
        assert sum(r.bytes > x.nbytes // 2 for r in rows) == 1 and sum(r.bytes for r in rows) < 1.1 * x.nbytes
        assert not any(r.spills for r in rows)


def test_double():
    """Where variances need the mean first."""
    x = torch.randn(120, 90, dtype=torch.float64) + 3
    made = SimulatedModel(statistics, (x,), choose=lambda k: assign.choose(k, TARGET), passes=PASSES)
    for one, other in zip(made(x), statistics(x)):
        assert torch.allclose(one, other, rtol=1e-13, atol=0)


def test_nan():
    x = torch.randn(300, 300)
    x[7, 9] = torch.nan
    made = SimulatedModel(statistics, (x,), choose=lambda k: assign.choose(k, TARGET), passes=PASSES)
    assert all(r.isnan() for r in made(x))
