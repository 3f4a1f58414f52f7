"""Kernels that begin with the end of their tensors, and sums in chunks that are taken in turns: their numbers on a simulated GPU."""

from dataclasses import replace

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

from inferno.schedule import assign
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.reductions.reduction_schedule import Reductions
from inferno.schedule.rows.row_schedule import Rows
from inferno.target import find_target

TARGET = find_target("sm_90a")


def right(model, x, changed, passes=""):
    """A model whose every kernel has the schedule that ``changed`` makes of the chosen one, which it does at least once."""
    seen = []

    def choose(kernel):
        own = assign.choose(kernel, TARGET)
        new = changed(own)
        seen.append(new != own)
        return new

    torch.manual_seed(0)
    simulated = SimulatedModel(model, (x,), choose=choose, passes=passes)
    assert any(seen)
    found = check(simulated, model, (x,))
    assert found.right, str(found)


def backwards(schedule):
    return replace(schedule, backwards=True) if isinstance(schedule, (Elementwise, Rows)) else schedule


@pytest.mark.parametrize("model, shape", [
    (lambda x: torch.tanh(x), (70, 300)), (lambda x: torch.tanh(x), (77, 301)), (lambda x: x.t() * 2, (70, 130)), (lambda x: x + x[0], (30, 37)),
    (lambda x: torch.cat((x, x * 2)), (33, 20)),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_maps(model, shape, dtype):
    right(model, torch.randn(shape).to(dtype), backwards)


@pytest.mark.parametrize("shape", [(70, 300), (7, 1000), (33, 18)])
def test_rows(shape):
    right(lambda x: torch.softmax(x, -1), torch.randn(shape), backwards, "fuse-reductions{target=sm_90a always=1}")


def test_rows_of_clusters():
    def clusters(s):
        return Rows(threads=128, across=128, vector=4, cluster=4, backwards=True) if isinstance(s, Rows) else s

    right(lambda x: torch.softmax(x, -1), torch.randn(3, 4096), clusters, "fuse-reductions{target=sm_90a always=1}")


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("model", [
    lambda x: x.sum(0), lambda x: (x.sum(0), x.amax(0)), lambda x: x.argmax(0), lambda x: x.view(2, -1).sum(-1), lambda x: x.sum(),
])
@pytest.mark.parametrize("shape", [(500, 64), (777, 24), (96, 128)])
@pytest.mark.parametrize("chunks", [2, 5])
def test_sums_in_turns(model, shape, chunks):
    x = torch.randn(shape)
    x[9] = x[3]  # a tie

    def turns(s):
        return Reductions(8, 4 if shape[1] > s.vector * 8 else 8, 2, 3, chunks, True) if isinstance(s, Reductions) else s

    right(model, x, turns, "fuse-reductions{target=sm_90a always=1}")
