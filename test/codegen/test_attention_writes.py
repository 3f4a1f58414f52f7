"""Attention that writes a step's keys and values to caches before it reads them, on the simulator."""

import copy

import pytest
import torch
from attention_write_cases import PagedStep, Step, apart, inputs, one, rows_outside, several, slots_of
from paged_cases import operands
from test_cache_writes import OnGpu

from inferno.schedule.attention.schedule import Attention
from inferno.schedule.attributes import ATTRIBUTE, from_attribute


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def schedule(parts, splits, bounded=True):
    return Attention(1, 16, turns=False, parts=parts, splits=splits, bounded=bounded, staged=parts * splits == 1)


def choosing(attention):
    def choose(kernel):
        found = from_attribute(kernel.attributes[ATTRIBUTE])
        return attention if isinstance(found, Attention) else found

    return choose


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("write, batch, queries, attention, early, places", [
    (one, 1, 1, schedule(2, 2), True, ([64], [128])),
    (several, 1, 4, schedule(1, 2, bounded=False), False, ([62, 200, 64, 63],)),
    (rows_outside, 2, 1, schedule(1, 3), True, ([47],)),
    (apart, 2, 1, schedule(1, 1), False, ([5, 100],)),
])
def test_caches_are_written_and_read(write, batch, queries, attention, early, places):
    """At the ends of blocks of keys, of parts and of the cache; in place and not."""
    model = Step(write, batch)
    given = inputs(model, queries=queries)
    on_gpu = OnGpu(model, given, choosing(attention), early)
    assert on_gpu.kernels(True)[-1] == "attention_writes" and len(on_gpu.kernels(True)) == len(on_gpu.kernels(False)) - 2
    for at in map(torch.tensor, places):
        expected, start = copy.deepcopy(model), copy.deepcopy(model.state_dict())
        expected.write_by_hand(*given[1:3], at)
        wanted = expected.attend(given[0], at).double()
        for in_place in (True, False):
            model.load_state_dict(start)
            (found,) = on_gpu((*given[:3], at), in_place)
            assert torch.equal(model.keys, expected.keys) and torch.equal(model.values, expected.values)
            assert (found.double() - wanted).norm() <= 4e-3 * wanted.norm()
        model.load_state_dict(start)


def test_pages_are_written_and_read(monkeypatch):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")  # which so few columns in pages were not
    q, keys, values, table, lengths = operands(16, 6, [90, 17], queries=1, table=torch.int64)
    new, slots = torch.randn(2, *keys.shape[2:]).bfloat16(), slots_of(table, lengths, 16)
    model, eager = PagedStep(keys, values), PagedStep(keys, values)
    on_gpu = OnGpu(model, (q, table, lengths, new, slots), choosing(schedule(1, 2)))
    assert on_gpu.kernels(True)[-1] == "attention_writes" and len(on_gpu.kernels(True)) == len(on_gpu.kernels(False)) - 2
    wanted = eager(q, table, lengths, new, slots).double()
    (found,) = on_gpu((q, table, lengths, new, slots), True)
    assert torch.equal(model.keys, eager.keys) and torch.equal(model.values, eager.values)
    assert (found.double() - wanted).norm() <= 4e-3 * wanted.norm()
