"""Attention that a program writes by hand, where it is trained, on the simulator: against float64, and rows of which all is hidden."""

import pytest
import torch
from universal_program import SimulatedModel

from inferno.capture import scored_attention, trained_attention
from inferno.schedule.attention.attention_gradients import AttentionGradients
from inferno.schedule.attention.gradient_parser import parse_attention_gradient
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.attention.schedule import Attention

PASSES = "fuse-attention{target=sm_90a always=1},fuse-attention-gradients{target=sm_90a always=1%s}"
SEED = torch.tensor(5_000_000_123_456_789)
LEAST = torch.finfo(torch.bfloat16).min


def some(rows, *shape):
    """Random ones, but for these rows."""
    seen = torch.rand(2, 1, *shape) > 0.4
    seen[..., 0] = True
    seen[0, 0, rows] = False
    return seen


def padding():
    return torch.zeros(2, 1, 1, 40).masked_fill(torch.arange(40) >= torch.tensor([40, 30]).view(2, 1, 1, 1), LEAST).bfloat16()


# A bias, its gradient wanted, what is seen of queries and keys (a tensor, or a distance that a key may have from a query), what is hidden, dropout.
FORMS = {
    "added numbers": (lambda: padding().expand(2, 1, 50, 40).contiguous().index_fill(2, torch.tensor([3]), LEAST), False, None, 0.0, 0.0),
    "infinity where a tensor says so": (None, False, lambda: some(slice(3, 5), 50, 40), -torch.inf, 0.0),
    "infinity in a band": (None, False, 20, -torch.inf, 0.0),
    "a number, and numbers are added, dropped": (padding, False, lambda: some(slice(3, 5), 50, 40), LEAST, 0.25),
    "a number in a band, a learned bias": (lambda: torch.randn(1, 2, 1, 40), True, 0, LEAST, 0.0),
}


def exact(q, k, v, gradient, bias, seen, hidden, kept, learned):
    """In float64 by torch's own differentiation: the result and the gradients."""
    leaves = [t.double().requires_grad_() for t in (q, k, v, *([bias] if learned else []))]
    scores = leaves[0] @ leaves[1].mT * 0.25
    scores = scores if seen is None else scores.masked_fill(~seen, hidden)
    scores = scores if bias is None else scores + (leaves[3] if learned else bias.double())
    result = (scores.softmax(-1) * kept) @ leaves[2]
    return [result.detach(), *torch.autograd.grad(result, leaves, gradient.double())]


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", FORMS)
def test_simulated(name):
    made, learned, seen, hidden, dropout = FORMS[name]
    torch.manual_seed(0)
    q, k, v, gradient = (torch.randn(2, 2, n, 16).bfloat16() for n in (50, 40, 40, 50))
    band = seen if isinstance(seen, int) else None
    bias, mask = made() if made else None, seen() if callable(seen) else None
    given = [t for t in (bias, mask) if t is not None]
    found = []

    def chosen(kernel):
        for parse, schedule in ((parse_attention, Attention(1, 16, turns=False)), (parse_attention_gradient, AttentionGradients(1, 16))):
            if parse(kernel) is not None:
                found.append(schedule)
                return schedule
        return None

    def run(function, *args):
        together = "" if name == "infinity in a band" else " together=1"  # whose first rows see nothing
        return SimulatedModel(function, args, choose=chosen, passes=PASSES % together)(*args)

    def read(rest):
        rest = list(rest)
        own = [None if t is None else rest.pop(0) for t in (bias, mask)]
        if band is not None:
            own[1] = torch.arange(40) + band <= torch.arange(50).unsqueeze(-1)
        return own, (rest.pop(0) if dropout else None), rest

    def forward(q, k, v, *rest):
        own, seed, _ = read(rest)
        return scored_attention.forward(q, k, v, *own, hidden, 0.25, seed, dropout)

    def backward(gradient, q, k, v, *rest):
        own, seed, first = read(rest)
        function = scored_attention.learned_backward if learned else scored_attention.backward
        return function(gradient, q, k, v, *own, *first, hidden, 0.25, seed, dropout)

    args = (q, k, v, *given, *([SEED] if dropout else []))
    first = run(forward, *args)
    ours, own = [first[0], *run(backward, gradient, *args, *first)], read(args[3:])[0]
    kept = trained_attention.kept(torch.zeros(2, 2, 50, 40), SEED, dropout).double() if dropout else 1.0
    assert found[:1] == [Attention(1, 16, turns=False)] and found[1:] in ([AttentionGradients(1, 16)], [AttentionGradients(1, 16)] * 2)
    plain = [forward(*args)[0], *backward(gradient, *args, *forward(*args))]
    for mine, theirs, right in zip(ours, plain, exact(q, k, v, gradient, *own, hidden, kept, learned), strict=True):
        assert mine.shape == right.shape and torch.equal(mine.isnan(), right.isnan()) and torch.equal(theirs.isnan(), right.isnan())
        mine, theirs, right = (t.double().nan_to_num() for t in (mine, theirs, right))
        assert (mine - right).norm() <= max(1.5 * (theirs - right).norm(), torch.finfo(torch.bfloat16).eps * right.norm())
    assert ours[0].isnan().any() == (hidden == -torch.inf)
