"""The steps of an unrolled loop and the stack of their values become one kernel, which stores each in its part."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

import inferno
from inferno.codegen.maps.side_by_side import side_by_side
from inferno.mlir import idle_context, ir
from inferno.schedule import assign
from inferno.schedule.analysis.accesses import Access
from inferno.target import find_target

TARGET = find_target("sm_90a")
STEPS = 6


def filtered(x, y):
    """Each value is an element of a group."""
    blocks, out = x.view(x.shape[0], -1, STEPS), []
    y1 = y2 = torch.zeros_like(blocks[..., 0])
    for t in range(STEPS):
        y1, y2 = blocks[..., t] - y[:, :1] * y1 - 0.2 * y2, y1
        out.append(y1)
    return torch.stack(out, -1).view_as(x)


def returns(x, y):
    """The values are rows, the last one first, and read behind the loop."""
    last, out = torch.zeros_like(x[0]), []
    for t in reversed(range(STEPS)):
        last = x[t] + 0.9 * y[t + 1] - y[t] + 0.8 * y[t].sigmoid() * last
        out.append(last)
    a = torch.stack(out[::-1])
    return a, a + y[1:STEPS + 1]


def middle(x, y):
    """The values are neither outermost nor innermost, and one of them is a result besides."""
    state, out = x, []
    for t in range(STEPS):
        state = (state * y.cos() + t).sin()
        out.append(state)
    return torch.stack(out, 1), state


def oscillator(x, y):
    """Of what steps exchange one tensor is stacked."""
    place, speed, out = x, y, []
    for _ in range(STEPS):
        speed = speed - 0.1 * place.sin()
        place = place + 0.1 * speed
        out.append(place)
    return torch.stack(out), speed


def columns(x, y):
    """Pieces of several columns, side by side."""
    state, out = x, []
    for _ in range(4):
        state = torch.tanh(state * 1.5 + y)
        out.append(state)
    return torch.cat(out, -1)


def chosen(x, y):
    """A step that is not like the others, and an argument among the values."""
    a = (x * y).exp()
    b = torch.where(y > 0, a.sin(), x).tanh()
    c = (b * a + x).sin()
    return torch.stack((a, b, x, c), -1)


def flags(x, y):
    """Booleans, which are bytes in memory."""
    a = x > y
    b = a ^ (x > 0)
    c = b & (y > 0.5)
    return torch.stack((a, b, c, b ^ c), -1), c


MODELS = {filtered: ((8, 5 * STEPS), (8, 5)), returns: ((STEPS, 37), (STEPS + 1, 37)), middle: ((9, 20), (9, 20)), oscillator: ((9, 20), (9, 20)),
          columns: ((9, 20), (9, 20)), chosen: ((9, 20), (9, 20)), flags: ((9, 20), (9, 20))}
PASSES = "join-steps{target=sm_90a}"


def arguments(model, dtype, scale=1):
    torch.manual_seed(0)
    return tuple(torch.randn(s[0], s[1] * scale, dtype=dtype) for s in MODELS[model])


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", MODELS)
def test_right(model, dtype):
    args = arguments(model, dtype)
    joined = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=PASSES, expand=True)
    apart = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), expand=True)
    assert len(joined.program.plan.steps) == 1 <= len(apart.program.plan.steps)
    found = check(joined, model, args)
    assert found.right, str(found)
    for one, other in zip(torch.utils._pytree.tree_leaves(joined(*args)), torch.utils._pytree.tree_leaves(apart(*args))):
        assert torch.equal(one, other)


@pytest.mark.covering
@pytest.mark.parametrize("scale", (1, 64, 4096))
@pytest.mark.parametrize("model", MODELS)
def test_one_kernel(model, scale):
    found = inferno.compile(model, arguments(model, torch.bfloat16, scale), target="sm_90a").explain().rows
    assert [r.generator for r in found] == ["elementwise"]
    assert not found[0].spills


def test_what_stays_apart():
    def product_between(x, w):
        state, out = x, []
        for _ in range(4):
            state = (state @ w).sigmoid()
            out.append(state)
        return torch.stack(out)

    def few_steps(x, w):
        return torch.stack((x, w, x.exp().sin(), w, x, w, w, x))

    x = torch.randn(256, 256)
    products = inferno.compile(product_between, (x, x), target="sm_90a").explain().rows
    assert [(r.generator != "elementwise", r.calls) for r in products] == [(True, 4)]  # each writes to its place (``place-results``)
    assert all("pieces" in r.kernel for r in inferno.compile(few_steps, (x, x), target="sm_90a").explain().rows[-1:])


@pytest.mark.thorough
def test_what_else_is_made_of_steps():
    """Of two stacks of the same steps one is made with them; a step is written to a part of an argument, and summed, by others."""
    def two(x, y):
        out, state = [], x
        for _ in range(4):
            state = (state * y).sin()
            out.append(state)
        return torch.stack(out), torch.stack(out[::-1], -1)

    def written(x, y):
        out, state = [], x[:, 1:]
        for _ in range(4):
            state = (state * y[:, 1:]).sin()
            out.append(state)
        x[:, 1:] = state
        return torch.stack(out), state.sum()

    for model in (two, written):
        args = torch.randn(24, 40), torch.randn(24, 40)
        passes = f"{PASSES},merge-maps{{target=sm_90a}},merge-reads{{target=sm_90a}},write-parts{{target=sm_90a}}"
        joined = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=passes, expand=True)
        wanted = model(*(a.clone() for a in args))
        for one, other in zip(joined(*(a.clone() for a in args)), wanted):
            assert torch.allclose(one, other, atol=1e-5)
        assert inferno.compile(model, args, target="sm_90a").explain().rows


def test_neighbours_of_a_point_are_one_access():
    with idle_context():
        element = ir.F32Type.get()
        at = [Access(0, element, (64, 8), offset, (4, 64)) for offset in (3, 0, 1, 2, 4, 6)]
        assert side_by_side([*at, None, Access(1, element, (1, 0), 5, (9,))]) == [[1, 2, 3, 0], [4], [5], [7]]
        odd = [Access(0, element, (66, 6), offset, (4, 66)) for offset in range(6)]
        assert side_by_side(odd) == [[0, 1], [2, 3], [4, 5]]
