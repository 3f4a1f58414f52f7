"""What a kernel computes of the numbers of its loops, and of elements that are picked there, computed apart: the same numbers, bit by bit."""

import re

import pytest
import torch
from checks import check
from choices import scheduled
from universal_program import SimulatedModel

from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")
HOIST = "hoist-vectors{target=sm_90a always=1}"


def rotary(q, positions):
    """Queries that are rotated by angles which all heads have in common."""
    size = q.shape[-1]
    f = 10000.0 ** (-torch.arange(0, size, 2, device=q.device, dtype=torch.float32) / size)
    e = positions[:, None, :, None].float() * torch.cat((f, f))
    a, b = q.chunk(2, -1)
    return q * e.cos().to(q.dtype) + torch.cat((-b, a), -1) * e.sin().to(q.dtype)


def yarn(q, positions):
    """The same, whose angles are put together of two halves."""
    size = q.shape[-1]
    i = torch.arange(0, size, 2, device=q.device, dtype=torch.float32)
    ramp = ((i / 2 - 2) / 3).clamp(0, 1)
    f = 10000.0 ** (-i / size) * (ramp / 4 + 1 - ramp)
    angle = positions[..., None].float() * f
    e = torch.cat((angle, angle), -1)
    c, s = ((g * 1.1386).to(q.dtype)[:, None] for g in (e.cos(), e.sin()))
    a, b = q.chunk(2, -1)
    return q * c + torch.cat((-b, a), -1) * s


def padded(x, gates):
    """Images of whose points a branch computes a gate for all channels."""
    return F.pad(x * torch.sigmoid(gates[:1] / 384 + gates[1:]), (1, 1, 1, 1), value=-2.0)


def beside(x, gates):
    return torch.cat((x * torch.exp(-gates[0].abs()), x * torch.tanh(gates[1])), 0)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", (padded, beside))
@pytest.mark.parametrize("shape", ((72, 5, 7), (130, 8, 12)))
def test_gates_of_branches(model, shape, dtype):
    torch.manual_seed(0)
    args = torch.randn(shape, dtype=dtype), torch.randn(2, *shape[1:], dtype=dtype)
    apart, whole = (SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=p) for p in (HOIST, ""))
    found = check(apart, model, args)
    assert found.right, str(found)
    assert len(apart.program.plan.steps) == len(whole.program.plan.steps) + (1 if model is padded else 2)
    assert all(torch.equal(one, other) for one, other in zip(apart(*args), whole(*args)))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", (rotary, yarn))
def test_same(model, dtype):
    torch.manual_seed(0)
    args = torch.randn(2, 8, 6, 16, dtype=dtype), torch.randint(0, 500, (2, 6))
    apart, whole = (SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=p) for p in (HOIST, ""))
    found = check(apart, model, args)
    assert found.right, str(found)
    if model is yarn:
        assert len(apart.program.plan.steps) > len(whole.program.plan.steps)
    for one, other in zip(apart(*args), whole(*args)):
        assert torch.equal(one, other)


def test_chosen():
    """Where many heads turn by the same angles; not for few."""
    for heads, apart in ((32, True), (1, False)):
        args = torch.empty(2, heads, 4096, 128, dtype=torch.bfloat16), torch.zeros(2, 4096, dtype=torch.int64)
        kernels = re.findall(r"call @(\w+)\(", scheduled(yarn, args))
        assert kernels and any(k.endswith("_vectors") for k in kernels) == apart


def test_gates_chosen():
    """Where many channels have one gate; not where few do, nor one of all that a vector's lanes have in common."""
    def scaled(x, gates):
        return F.pad(x * torch.sigmoid(gates), (1, 1, 1, 1))

    args = torch.empty(384, 128, 256, dtype=torch.bfloat16), torch.empty(384, 1, 1, dtype=torch.bfloat16)
    assert "_vectors(" not in scheduled(scaled, args)
    for channels, apart in ((384, True), (16, False)):
        args = torch.empty(channels, 128, 256, dtype=torch.bfloat16), torch.zeros(2, 128, 256, dtype=torch.bfloat16)
        kernels = re.findall(r"call @(\w+)\(", scheduled(padded, args))
        assert any(k.endswith("_vectors") for k in kernels) == apart


def test_what_is_computed_of_sums_is_their_kernels():
    """Vectors divide no rows of differences, whose points are read one by one: a logarithm for each comes to too much."""
    text = scheduled(lambda x: F.log_softmax(torch.diff(x, dim=1), 0), (torch.empty(4096, 1024, dtype=torch.bfloat16),))
    *_, sums, points = re.split("func.func private", text)
    assert "math.log " in sums and "math.log " not in points
