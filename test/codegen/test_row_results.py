"""Rows whose results are parts of larger tensors, parts of what rows have, or that several times: one kernel that writes each point where it goes."""

import pytest
import torch
from checks import check
from row_kernel_cases import GRIDS, PASSES, F, choose, choose_grid
from test_rows_of_pieces import BF16, F16, F32, TARGET, made
from universal_program import SimulatedModel

from inferno.schedule import assign


def rms(x):
    return F.rms_norm(x, x.shape[-1:])


def norm(x):
    return F.layer_norm(x, x.shape[-1:])


def sinks(x, s):
    """Attention's scores beside a number that takes a part of each row's weights."""
    return torch.cat((x, s), -1).softmax(-1)[..., :-1]


def into(buffer, x):
    buffer = buffer.clone()
    buffer[:, 3 : 3 + x.shape[1]] = norm(x)
    return buffer


def into_rows(buffer, x):
    buffer = buffer.clone()
    buffer[2 : 2 + x.shape[0]] = rms(x)
    return buffer


def scaled(x):
    """Channels that are scaled by their means."""
    return x * torch.sigmoid(x.mean((2, 3), keepdim=True))


def shuffled(x, y):
    """Channels of a sum, in another order."""
    return (x + y).view(x.shape[0], 2, -1, *x.shape[2:]).transpose(1, 2).reshape(x.shape)


def halves(x):
    return tuple(half.contiguous() for half in norm(x).chunk(2, -1))


CASES = {
    "sinks": (sinks, ((2, 3, 8, 40), (2, 3, 8, 1))),
    "without the last": (lambda x: x.softmax(-1)[..., :-1], ((9, 65),)),
    "without the first": (lambda x: x.softmax(-1)[..., 1:], ((9, 64),)),
    "half": (lambda x: x.softmax(-1)[..., :32], ((9, 64),)),
    "the middle, of long rows": (lambda x: x.log_softmax(-1)[..., 64:1800], ((5, 2048),)),
    "the first rows left out": (lambda x: norm(x)[:, 1:], ((3, 9, 64),)),
    "halves": (halves, ((9, 64),)),
    "beside a tensor": (lambda x, y: torch.cat((norm(x), y), -1), ((9, 64), (9, 64))),
    "behind a tensor": (lambda x, y: torch.cat((y, norm(x)), -1), ((9, 64), (9, 64))),
    "beside narrow ones": (lambda x, y, z: torch.cat((y, rms(x), z), -1), ((9, 64), (9, 3), (9, 16))),
    "beside a wide one": (lambda x, y: torch.cat((rms(x), y), -1), ((9, 64), (9, 200))),
    "beside itself": (lambda x: torch.cat((norm(x), x), -1), ((9, 64),)),
    "two beside each other": (lambda x, y: torch.cat((norm(x), norm(y)), 1), ((9, 64), (9, 64))),
    "two behind each other": (lambda x, y: torch.cat((norm(x), rms(y)), 0), ((9, 48), (9, 48))),
    "rows behind others": (lambda x, y: torch.cat((norm(x), y), 0), ((9, 48), (5, 48))),
    "a token in front": (lambda t, x: torch.cat((t, norm(x)), 1), ((3, 1, 64), (3, 7, 64))),
    "a token in front, flat": (lambda t, x: torch.cat((t.expand(3, -1, -1), norm(x)), 1).reshape(24, 64).exp(), ((1, 1, 64), (3, 7, 64))),
    "padded": (lambda x: F.pad(norm(x), (1, 2)), ((9, 64),)),
    "padded by vectors": (lambda x: F.pad(norm(x), (8, 16), value=2.0), ((9, 64),)),
    "padded rows": (lambda x: F.pad(norm(x), (0, 0, 1, 2)), ((9, 64),)),
    "stacked": (lambda x, y: torch.stack((norm(x), norm(y)), 1), ((9, 64), (9, 64))),
    "into a buffer": (into, ((9, 70), (9, 64))),
    "into rows of a buffer": (into_rows, ((15, 64), (9, 64))),
    "repeated": (lambda x: norm(x).repeat_interleave(2, 0), ((9, 64),)),
    "heads for groups": (lambda x: rms(x)[:, :, None].expand(-1, -1, 4, -1, -1).reshape(2, 12, 7, 32), ((2, 3, 7, 32),)),
    "beside totals": (lambda x: torch.cat((x, x.mean(-1, True)), -1), ((9, 64),)),
    "totals": (lambda x: torch.cat((x.sum(-1, True), x.amax(-1, True)), -1), ((9, 64),)),
    "padded on all sides": (lambda x: F.pad(norm(x), (0, 0, 1, 2, 2, 1)), ((2, 5, 4, 32),)),
    "two softmaxes": (lambda x, y: torch.cat((x.softmax(-1), y.softmax(-1)), -1) * 2, ((9, 32), (9, 32))),
    "whole, and beside another": (lambda x, y: (norm(x), torch.cat((norm(x), y), -1)), ((9, 64), (9, 64))),
    "a crop": (lambda x: F.layer_norm(x, x.shape[-2:])[..., 1:, 1:-2], ((2, 3, 9, 12),)),
    "a crop by vectors": (lambda x: F.layer_norm(x, x.shape[-2:])[..., 2:5, 8:24], ((2, 3, 9, 32),)),
    "lines of an image": (lambda x: F.layer_norm(x, x.shape[-2:])[..., 2:-3, :], ((2, 3, 9, 16),)),
    "a crop of short lines": (lambda x: F.layer_norm(x, x.shape[-2:])[..., 1:, :], ((2, 3, 8, 5),)),
    "a crop of volumes": (lambda x: F.layer_norm(x, x.shape[-3:])[..., 1:-1, :, 2:], ((3, 5, 6, 8),)),
    "lines of volumes": (lambda x: F.layer_norm(x, x.shape[-3:])[..., 1:5, :], ((3, 5, 6, 8),)),
    "lines beside others": (lambda x, y: torch.cat((F.layer_norm(x, x.shape[-2:])[..., 1:, :], y), -2), ((2, 3, 9, 16), (2, 3, 1, 16))),
    "lines of volumes beside others": (lambda x, y: torch.cat((F.layer_norm(x, x.shape[-3:])[..., 1:, :], y), -2), ((3, 5, 6, 8), (3, 5, 1, 8))),
    "padded images": (lambda x: F.pad(F.layer_norm(x, x.shape[-2:]), (1, 1, 1, 1)), ((2, 3, 9, 12),)),
    "padded gated images": (lambda x: F.pad(scaled(x), (1, 2, 0, 1), value=-1.0) * 2, ((2, 3, 9, 12),)),
    "a crop of groups": (lambda x: F.group_norm(x, 2)[:, :, 1:, 3:], ((2, 8, 7, 12),)),
    "a crop of some channels": (lambda x: scaled(x)[:, 1:, 1:, 1:-1], ((3, 4, 7, 12),)),
    "a crop of shuffled channels": (lambda x, y, z: (scaled(shuffled(x, y)) + z)[:, :, 1:, 1:], ((2, 8, 7, 12), (2, 8, 7, 12), (2, 8, 7, 12))),
    "whole and a part": (lambda x: (norm(x), norm(x)[:, :16].contiguous()), ((9, 64),)),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [BF16, F32, F16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_one_kernel_writes_the_parts(name, dtype):
    model, shapes = CASES[name]
    args = made(*shapes, dtype=dtype)
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=PASSES, expand=True)
    assert [step.kernel.startswith("rows_") for step in simulated.program.plan.steps] == [True]
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("schedule", [
    {"held": False, "kept": 0, "unroll": 2}, {"threads": 64, "across": 64}, {"vector": 1}, {"threads": 64, "across": 64, "cluster": 2, "held": False},
])
@pytest.mark.parametrize("name", ["sinks", "beside a tensor", "beside narrow ones", "padded by vectors", "a token in front"])
def test_schedules(name, schedule):
    model, shapes = CASES[name]
    args = made(*shapes, dtype=BF16)
    simulated = SimulatedModel(model, args, choose=choose(schedule), passes=PASSES, expand=True)
    found = check(simulated, model, args)
    assert found.right, str(found)


LONG = {
    "a part": (lambda x: x.softmax(-1)[:, 4:-3], ((5, 1284),)),
    "beside narrow ones": (lambda x, y: torch.cat((y, norm(x)), -1), ((5, 1280), (5, 16))),
    "behind rows": (lambda x, y: torch.cat((y, rms(x)), 0), ((5, 1280), (3, 1280))),
}


@pytest.mark.covering
@pytest.mark.parametrize("schedule", ["one group", "groups"])
@pytest.mark.parametrize("name", LONG)
def test_blocks_that_have_a_part_of_each_row(name, schedule):
    model, shapes = LONG[name]
    args = made(*shapes, dtype=F32)
    simulated = SimulatedModel(model, args, choose=choose_grid(GRIDS[schedule]), passes=PASSES, expand=True)
    assert len(simulated.program.plan.steps) == 2 and simulated.program.plan.steps[-1].cooperative
    found = check(simulated, model, args)
    assert found.right, str(found)
