"""Attention whose weights are masked or multiplied by something behind the softmax, on the simulator: against float64; and that ptxas takes it."""

import pytest
import torch
from attention_program import simulate
from checks import assert_close_to_float64
from kernels import build
from test_attention import chosen, empty, heads, kernel_of
from test_wgmma import assembled

from inferno.schedule.attention.schedule import Attention


def hidden(q, k, v, seen, least=-1e4):
    return torch.softmax((q @ k.mT / 4).masked_fill(~seen, least), -1).masked_fill(~seen, 0) @ v


def chosen_elsewhere(q, k, v, seen):
    """What is seen, in the order in which ``torch.where`` has it, with the smallest number there is."""
    scores = torch.where(seen, q @ k.mT / 4, torch.finfo(q.dtype).min)
    return torch.where(seen, torch.softmax(scores, -1), 0.0) @ v


def by_infinity(q, k, v, seen):
    return hidden(q, k, v, seen, -torch.inf)


def multiplied(q, k, v, factors):
    return torch.softmax(q @ k.mT / 4, -1) * factors / 0.5 @ v


def by_place(q, k, v):
    """By factors that are infinite one key behind the last one."""
    return torch.softmax(q @ k.mT / 4, -1) / (k.shape[2] - torch.arange(k.shape[2])).to(q.dtype) @ v


def both(q, k, v, seen, factors):
    return (torch.softmax((q @ k.mT / 4).masked_fill(~seen, -torch.inf), -1) * factors).masked_fill(~seen, 0) @ v


def some(*shape):
    seen = torch.rand(shape) > 0.4
    seen[..., 3, :] = False  # a row of which nothing is seen, or a key that nobody sees
    return seen


FORMS = {
    "a mask of each": (hidden, lambda: [some(2, 2, 72, 48)]), "a mask of keys": (hidden, lambda: [some(2, 1, 48, 1).mT]),
    "the smallest number": (chosen_elsewhere, lambda: [some(2, 1, 72, 48)]), "infinity": (by_infinity, lambda: [some(2, 1, 72, 48)]),
    "factors of queries": (multiplied, lambda: [torch.randn(2, 1, 72, 1)]), "factors of each": (multiplied, lambda: [torch.randn(2, 72, 48)]),
    "factors, and infinity": (both, lambda: [some(2, 1, 72, 48), torch.randn(1, 2, 1, 48)]),
}
SCHEDULES = {
    "one": Attention(1, 16, turns=False), "masks are brought": Attention(1, 16, turns=False, masks="1"),
    "a block after the other": Attention(1, 32, turns=False, overlap=False), "shared": Attention(1, 16, turns=False, parts=2),
}


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", FORMS)
def test_simulated(name, schedule):
    function, more = FORMS[name]
    brought = schedule == "masks are brought"
    if brought and name in ("a mask of keys", "factors of queries", "factors of each"):
        pytest.skip("there is no mask of scores with an element for each")
    torch.manual_seed(0)
    args = [torch.randn(2, 2, n, 16).bfloat16() for n in (72, 48, 48)] + [x.bfloat16() if x.is_floating_point() else x for x in more()]
    found = simulate(function, tuple(args), SCHEDULES[schedule])
    if "factors" not in name and name != "a mask of keys":
        assert not found[:, :, 3].any()
    assert_close_to_float64(found, function, args)


def test_nothing_is_made_of_what_is_behind_the_last_key():
    torch.manual_seed(0)
    args = [torch.randn(2, 2, n, 16).bfloat16() for n in (72, 45, 45)]
    assert_close_to_float64(simulate(by_place, tuple(args), SCHEDULES["one"]), by_place, args)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("size", [64, 128, 192])
@pytest.mark.parametrize("function, mask", [
    (hidden, empty(2, 1, 512, 512, dtype=torch.bool)), (hidden, empty(2, 1, 1, 512, dtype=torch.bool)), (multiplied, empty(4, 512, 512)),
])
def test_assembled(function, mask, size):
    text = kernel_of(function, (*heads(512, 512, size), mask))
    assert isinstance(chosen(text), Attention)
    built = build(text, "attention")
    if size < 192:
        assembled(built)
    assert built.resources is None or built.resources.spills <= 64  # else some addresses wait in memory for the end of a tile
