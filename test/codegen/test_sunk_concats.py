"""Tensors side by side that are only reduced: rows of each, by one kernel with what makes them, and the numbers that it computes."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

from inferno.passes import sink_concats
from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")
PASSES = "fuse-reductions{target=sm_90a},fuse-totals{target=sm_90a}"
CASES = {  # and how many launches each is
    "of a norm": (lambda x, y, w: torch.cat((F.layer_norm(x, x.shape[1:]), y), -1).logsumexp(-1), 1),
    "normalized": (lambda x, y, w: F.rms_norm(torch.cat((x * 2, y), -1), w.shape[1:], w[0]).amax(-1), 1),
    "weighed": (lambda x, y, w: (torch.softmax(torch.cat((x.sin(), y), -1), -1) * w[1:2] + w[0]).sum(-1), 1),
    "of all": (lambda x, y, w: (torch.cat((x.cumsum(-1) / 9, y), -1) ** 2).mean(), 2),
    "three": (lambda x, y, w: torch.log_softmax(torch.cat((x, y, x - y), -1), -1).amin(-1), 1),
    "two of two": (lambda x, y, w: (torch.cat((x, y), -1) * torch.cat((y, x.tanh()), -1)).sum(-1), 1),
    "in front": (lambda x, y, w: torch.cat((x.exp(), y), 0).t().sum(-1), 1),
}


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("columns", [36, 75])
@pytest.mark.parametrize("name", CASES)
def test_right(name, columns, dtype):
    torch.manual_seed(0)
    model, launches = CASES[name]
    rows = 70 if name == "in front" else 5  # few terms of float32 are not added before they are widened
    args = tuple(torch.randn(rows, n * columns).to(dtype) for n in (1, 1, 2))
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=PASSES, expand=True)
    assert "pieces" not in simulated.program.gpu and len(simulated.program.plan.steps) == launches
    found = check(simulated, model, args)
    assert found.right, str(found)


COLUMNS = {
    "sum": lambda x, y, w: torch.cat((x.sin(), y), -1).sum(0),
    "normalized, then columns": lambda x, y, w: (F.normalize(torch.cat((x.exp(), y), -1), dim=-1) * w[0]).sum(0),
    "two of two": lambda x, y, w: torch.cat((F.normalize(torch.cat((x, y), -1), dim=-1), w), -1).amax(0),
    "columns, then rows": lambda x, y, w: (lambda c: (c - c.mean(0, keepdim=True)).square().sum(-1))(torch.cat((x, y), -1)),
    "columns and rows": lambda x, y, w: (lambda c: (c.mean(0), torch.relu(c.amax(0)) + w[0], c.sum(-1)))(torch.cat((x, y), -1)),
    "places": lambda x, y, w: torch.cat((x, y), -1).argmax(0),
    "of all, too": lambda x, y, w: (lambda c: (c.sum(0).square().sum(), c.sum(0)))(torch.cat((x, y), -1)),
}


@pytest.mark.covering(most=7)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns(monkeypatch, name, dtype):
    """Columns of each piece are reduced by themselves, and what is left is put together."""
    monkeypatch.setattr(sink_concats, "_LARGE", 0)
    monkeypatch.setattr(sink_concats, "_MANY", 0)
    torch.manual_seed(0)
    args = tuple(torch.randn(70, n * 36).to(dtype) for n in (1, 1, 2))
    simulated = SimulatedModel(COLUMNS[name], args, choose=lambda k: assign.choose(k, TARGET), passes=PASSES, expand=True)
    found = check(simulated, COLUMNS[name], args)
    assert found.right, str(found)
