"""Kernels write their results where a concatenation has them."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

import inferno
from inferno.runtime.plan.plan import Buffer
from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")
PLACED = "assign-schedules{target=sm_90a},place-results{target=sm_90a}"


def sums(x, y):
    """Rows of totals, of which one is read by another kernel as well."""
    a = x.sum(-1)
    return torch.stack((a, y.amax(-1), x.square().mean(-1))), (a[:, None] * y).sum()


def scans(x, y):
    """Pieces of two sizes, and one that is computed beside."""
    return torch.cat((x.cumsum(-1), y[:24].cumsum(-1), (x * y).exp()))


def nested(x, y):
    """A concatenation is a piece of another one, and a third one of a leading dimension of one element."""
    inner = torch.cat((x.cumsum(-1), y.cumsum(-1)))
    outer = torch.cat((inner.cumsum(0), (x + y).cumsum(0)))
    return torch.cat((outer.cumsum(0)[None], x.flip(0).cumsum(-1)[None]), 1)


def read_whole(x, y):
    """The concatenation is no result: it lies in the workspace."""
    a = torch.cat((x.cumsum(-1), y.cumsum(-1), x.cumsum(0)))
    return a.cumsum(0), a.amax(0)


MODELS = {sums: 0, scans: 0, nested: 3, read_whole: 1}
"""With how many launches less."""


def arguments(dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(64, 32, dtype=dtype), torch.randn(64, 32, dtype=dtype)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", MODELS)
def test_right(model, dtype):
    args = arguments(dtype)
    placed = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=PLACED, expand=True)
    apart = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), expand=True)
    found = check(placed, model, args)
    assert found.right, str(found)
    for one, other in zip(torch.utils._pytree.tree_leaves(placed(*args)), torch.utils._pytree.tree_leaves(apart(*args))):
        assert torch.equal(one, other)
    assert len(placed.program.plan.steps) == len(apart.program.plan.steps) - MODELS[model]
    assert any(isinstance(p, Buffer) and (p.offset or p.place == "workspace") for s in placed.program.plan.steps for p in s.parameters)


def returned(x, y):
    """What is a result itself lies where the caller wants it."""
    a = x.cumsum(-1)
    return torch.cat((a, y.cumsum(-1))), a


def twice(x, y):
    a = x.cumsum(-1)
    return torch.cat((a, y.cumsum(-1), a))


def of_arguments(x, y):
    return torch.cat((x, y, x))


def beside(x, y):
    """Pieces that do not lie together."""
    return torch.cat((x.cumsum(-1), y.cumsum(-1)), -1)


def unaligned(x, y):
    """Pieces that begin within a line of memory."""
    return torch.cat((x.view(-1)[:100].cumsum(-1), y.view(-1)[:40].cumsum(-1)))


@pytest.mark.parametrize("model", (returned, twice, of_arguments, beside, unaligned))
def test_what_stays(model):
    args = arguments()
    placed = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=PLACED, expand=True)
    found = check(placed, model, args)
    assert found.right, str(found)
    assert any("pieces" in s.kernel for s in placed.program.plan.steps)


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
def test_products_are_written_to_their_places(dtype):
    """In 16 bits, too: what ends a product is no part of the concatenation."""
    x, w, v = (torch.randn(512, 512, dtype=dtype) for _ in range(3))
    rows = inferno.compile(lambda x, w, v: torch.cat((x @ w, torch.nn.functional.gelu(x @ v))), (x, w, v), target="sm_90a").explain().rows
    assert not any("pieces" in r.kernel for r in rows)
    assert sum(r.bytes for r in rows) <= (3 if len(rows) == 1 else 4) * x.nbytes + 2 * x.nbytes


@pytest.mark.thorough
def test_a_program_of_one_concatenation_more():
    """A copy of what is an argument is one kernel, as the concatenation was."""
    x, w = (torch.randn(512, 512) for _ in range(2))
    rows = inferno.compile(lambda x, w: torch.stack((x @ w, x, (x @ w.t()).relu())), (x, w), target="sm_90a").explain().rows
    (copy,) = (r for r in rows if r.generator == "elementwise")
    assert copy.bytes == 2 * x.nbytes


def test_halves_of_what_a_step_attends_to_are_one_product():
    """What ends small products of computed factors is no end of their kernels."""
    def attend(q, k, v, scales):
        wide = (torch.cat((v & 15, v >> 4), -1).to(q.dtype) - 8) * scales
        return torch.softmax(q @ k.mT, -1) @ wide.transpose(1, 2)

    q, k, scales = (torch.rand(s, dtype=torch.bfloat16) for s in ((16, 8, 1, 128), (16, 8, 2048, 128), (16, 2048, 8, 1)))
    args = q, k, torch.zeros(16, 2048, 8, 64, dtype=torch.uint8), scales
    rows = inferno.compile(attend, args, target="sm_90a").explain().rows
    assert sum(r.bytes for r in rows) < args[1].nbytes + args[2].nbytes + (1 << 22)


def test_a_concatenation_that_a_tensor_is_added_to():
    """Its pieces are of other tensors than what a map reads by its own places: it stays a kernel."""
    model = lambda x, y, w, p: torch.cat((x @ w, y)) + p  # noqa: E731
    args = torch.randn(64, 128), torch.randn(64, 128), torch.randn(128, 128), torch.randn(128, 128)
    compiled = inferno.compile(model, args, target="sm_90a", fallback=False)
    assert [r.generator for r in compiled.explain().rows] == ["simt", "elementwise"]
