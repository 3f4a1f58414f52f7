"""Attention that writes a step's keys and values to caches before it reads them: right, the caches as eager's, call after call."""

import copy

import pytest
import torch
from attention_write_cases import PagedStep, Step, apart, by_place, inputs, one, rows_outside, slots_of
from checks import poison_memory
from on_gpu import on_hopper
from paged_cases import operands

import inferno

pytestmark = on_hopper


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def compiled_for(model, given, **options):
    """One launch for all, but for what makes a table of several places."""
    compiled = inferno.compile(model, given, fallback=False, **options)
    plan = compiled._executable.plan
    assert plan.steps[-1].kernel.endswith("attention_writes") and sum("attention" in s.kernel for s in plan.steps) == 1
    assert all(plan.outputs[i].argument == r.target for i, r in enumerate(compiled.program.signature.results) if r.kind == "mutation")
    return compiled


def assert_steps(compiled, model, given, places):
    """``compiled`` changes ``model``'s caches; no synchronisation between its calls."""
    eager = copy.deepcopy(model)
    exact, found = copy.deepcopy(model).double(), []
    poison_memory()
    with torch.no_grad():
        rows = [[torch.randn_like(x) for x in given[:3]] for _ in places]
        for new, at in zip(rows, places):
            found.append(compiled(*new, at))
        for new, at, ours in zip(rows, places, found):
            wanted, theirs = exact(*(x.double() for x in new), at), eager(*new, at)
            errors = [((y.double() - wanted).norm() / wanted.norm()).item() for y in (ours, theirs)]
            assert errors[0] <= max(1.5 * errors[1], torch.finfo(ours.dtype).eps), (at, errors)
    for ours, theirs in zip(model.caches, eager.caches):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("write, batch, heads, group, length, queries", [
    (one, 1, 8, 4, 512, 1), (one, 8, 8, 4, 512, 1), (one, 1, 4, 8, 4096, 1), (one, 8, 4, 8, 4096, 1), (one, 64, 8, 4, 512, 1), (one, 1, 1, 8, 8192, 1),
    (by_place, 1, 8, 4, 4096, 4), (by_place, 8, 4, 8, 512, 4), (by_place, 1, 8, 4, 1000, 16), (rows_outside, 8, 8, 4, 1024, 1), (apart, 8, 8, 4, 1024, 1),
])
def test_places(write, batch, heads, group, length, queries):
    """First and last ones, at the ends of blocks and of parts, one after the other and any."""
    model = Step(write, batch, heads, length, 128, device="cuda")
    given = inputs(model, group, queries)
    compiled = compiled_for(model, given)
    first = [0, 1, 15, 63, 64, 127, 128, length // 8, length // 4 - 1, length // 2, length - queries - 1, length - queries]
    first += torch.randint(length - queries, (12,)).tolist()
    if write is apart:
        places = [torch.randint(length, (batch,), device="cuda") for _ in first]
    else:
        places = [torch.arange(at, at + queries, device="cuda") for at in first]
    if queries == 16:
        places += [torch.randperm(length, device="cuda")[:queries] for _ in range(4)]
    assert_steps(compiled, model, given, places)


@pytest.mark.parametrize("columns, dtype", [(64, torch.float16), (80, torch.bfloat16), (256, torch.bfloat16)])
def test_columns(columns, dtype):
    model = Step(one, 2, 2, 700, columns, dtype, "cuda")
    given = inputs(model)
    assert_steps(compiled_for(model, given, cuda_graphs=True), model, given, [torch.tensor([at], device="cuda") for at in (0, 350, 699, 351)])


def test_a_place_that_there_is_not():
    model = Step(one, 2, 4, 512, 128, device="cuda")
    given = inputs(model, 2)
    compiled, before = compiled_for(model, given), [x.clone() for x in model.caches]
    for at in (512, -1, 2**40):
        compiled(*given[:3], torch.tensor([at], device="cuda"))
    assert all(map(torch.equal, model.caches, before))


def test_a_cache_that_is_returned_as_it_was_is_copied():
    class Kept(Step):
        def forward(self, q, k, v, places):
            before = self.keys.clone()
            return super().forward(q, k, v, places), before

    model = Kept(one, 1, 2, 512, 64, device="cuda")
    given, start = inputs(model), model.keys.clone()
    compiled, eager = inferno.compile(model, given, fallback=False), copy.deepcopy(model)
    (_, before), _ = compiled(*given), eager(*given)
    assert torch.equal(before, start) and torch.equal(model.keys, eager.keys) and torch.equal(model.values, eager.values)


@pytest.mark.parametrize("rows, pages, lengths", [(16, 20, [1, 300, 77, 320]), (64, 8, [512]), (256, 4, [1000, 5, 513, 256, 257, 1, 2, 1024])])
def test_pages(rows, pages, lengths):
    q, keys, values, table, lengths = operands(rows, pages, lengths, heads=(8, 2), columns=128, device="cuda", table=torch.int64)
    model, eager = PagedStep(keys, values), PagedStep(keys, values)
    new, slots = torch.randn(len(lengths), 2, 128, device="cuda").bfloat16(), slots_of(table, lengths, rows)
    compiled = inferno.compile(model, (q, table, lengths, new, slots), fallback=False)
    assert compiled._executable.plan.steps[-1].kernel.endswith("attention_writes")
    for _ in range(20):
        new, slots = torch.randn_like(new), slots_of(table, lengths, rows)
        ours, theirs = compiled(q, table, lengths, new, slots), eager(q, table, lengths, new, slots)
        assert torch.equal(model.keys, eager.keys) and torch.equal(model.values, eager.values)
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)
        lengths -= lengths.gt(1).long()
