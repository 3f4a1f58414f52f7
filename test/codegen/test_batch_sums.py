"""Products of a batch with one row each, of which the larger factor has the batch innermost: reductions, right on the simulated GPU."""

import pytest
import torch
from checks import check
from choices import generators
from universal_program import SimulatedModel

import inferno
from inferno.schedule.reductions import batch_sums, reductions
from inferno.target import find_target

TARGET = find_target("sm_90a")
bf16 = torch.bfloat16


def row(p, v):
    """[2, b, k] by [2, c, k, b]."""
    return (p[..., None, :] @ v.permute(0, 3, 2, 1))[..., 0, :]


def column(p, v):
    return (v.permute(0, 3, 1, 2) @ p[..., None])[..., 0]


MODELS = {"row": row, "column": column, "with an end": lambda p, v: torch.relu(row(p, v) * 0.5 + 1)}


@pytest.mark.covering
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, bf16, torch.float16])
def test_right(name, dtype):
    torch.manual_seed(0)
    args, chosen = (torch.randn(2, 72, 9).to(dtype), torch.randn(2, 10, 9, 72).to(dtype)), []

    def choose(kernel):
        chosen.append(batch_sums.candidate(kernel, TARGET)[1])
        return chosen[-1]

    found = check(SimulatedModel(MODELS[name], args, choose=choose), MODELS[name], args)
    assert found.right, str(found)
    assert len(chosen) == 1 and chosen[0].vector > 1 and isinstance(chosen[0], reductions.Reductions)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.float32, bf16])
def test_the_smaller_factor_is_transposed_where_that_pays(dtype):
    """Each of 6272 rows of 25 would be read 32 times, its neighbours in lines of their own."""
    args = torch.empty(2, 3136, 25, dtype=dtype), torch.empty(2, 32, 25, 3136, dtype=dtype)
    rows = inferno.compile(row, args, target="sm_90a").explain().rows
    assert [r.generator for r in rows][1:] == ["reductions"] and len(rows) == 2


def test_other_batches_are_products():
    """With columns or terms innermost they are read as vectors are; with many rows by tiles."""
    def generator(model, *shapes):
        return generators(model, tuple(torch.empty(s) for s in shapes))[-1]

    assert generator(lambda p, v: p @ v, (6272, 1, 25), (6272, 25, 32)) != "reductions"
    assert generator(lambda p, v: p @ v.permute(2, 1, 0), (3136, 64, 64), (64, 64, 3136)) != "reductions"
