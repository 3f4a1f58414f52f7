"""The kernels that walk the lists of a block mask, of attention and of its gradients, on the simulator against float64."""

import pytest
import torch
from attention_program import simulated
from flex_block_cases import alibi, by_hand, causal, tensors
from torch.fx import symbolic_trace
from torch.nn.attention.flex_attention import noop_mask
from universal_program import SimulatedModel

from inferno.capture import flex_attention
from inferno.codegen.attention.tiles import TileOrder
from inferno.schedule.attention.attention_gradients import AttentionGradients
from inferno.schedule.attention.gradient_parser import parse_attention_gradient
from inferno.schedule.attention.schedule import Attention


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


CASES = {
    "by hand": (
        lambda: by_hand(causal, tensors(1, 2, 2, 150, 170, 16), 1, 2, (64, 64), score_mod=alibi, more={"return_lse": True}), Attention(1, 32, turns=False),
    ),
    "no masks": (lambda: by_hand(noop_mask, tensors(1, 2, 1, 256, 96, 16), 1, 1, (128, 32), whole=False), Attention(2, 32, order="dynamic")),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", CASES)
def test_lists(name, monkeypatch):
    make, schedule = CASES[name]
    case, walked = make(), []
    monkeypatch.setattr(TileOrder, "block", lambda order, place, i, plain=TileOrder.block: walked.append(place.listed) or plain(order, place, i))
    found, exact = simulated(case, case.args, schedule)(*case.args), case.exact()
    found = found if isinstance(found, (tuple, list)) else (found,)
    assert walked and None not in walked
    assert (found[0].double() - exact[0]).norm() <= 4e-3 * exact[0].norm()
    if len(found) > 1:
        assert torch.allclose(found[1].double(), exact[1], atol=1e-5)


@pytest.mark.thorough
def test_gradients():
    """Of heads that share keys, with a bias: lists of keys' blocks for queries, and of queries' for keys."""
    case = by_hand(causal, tensors(1, 2, 1, 150, 170, 16), size=(64, 64))
    q, k, v = case.args
    slopes, gradient, lists = torch.rand(2), torch.randn_like(q), [x for each in case.lists for x in each]
    score, joint = symbolic_trace(lambda s, b, h, i, j, slopes: s + slopes[h] * (j - i)), symbolic_trace(lambda s, b, h, i, j, g, slopes: (g,))
    mask = symbolic_trace(causal)

    def blocks(lists):
        return (150, 170, *lists, *[None] * 4, 64, 64, mask)

    def backward(q, k, v, result, logarithms, gradient, slopes, *lists):
        return flex_attention.backward(q, k, v, result, logarithms, gradient, None, score, joint, blocks(lists), 0.25, {}, (slopes,))[:3]

    wide = [t.double().requires_grad_() for t in (q, k, v)]
    result, logarithms, _ = flex_attention.forward(*wide, score, blocks(lists), 0.25, {}, (slopes.double(),))
    case.score_mod = lambda s, b, h, i, j: s + slopes[h] * (j - i)
    assert torch.allclose(result.nan_to_num(), case.exact()[0], atol=1e-5)
    result.nan_to_num().backward(gradient.double())
    given, found = (q, k, v, result.detach().bfloat16(), logarithms.detach().float(), gradient, slopes, *lists), []

    def choose(kernel):
        g = parse_attention_gradient(kernel)
        if g is not None:
            found.append((g.transposed, g.blocks is not None))
        return None if g is None else AttentionGradients(1, 32, order="static" if g.transposed else "dynamic")

    ours = SimulatedModel(backward, given, choose=choose, passes="fuse-attention-gradients{target=sm_90a always=1}")(*given)
    assert sorted(found) == [(False, True), (True, True)]
    for mine, plain, one in zip(ours, backward(*given), wide):
        assert (mine.double() - one.grad).norm() <= max(1.5 * (plain.double() - one.grad).norm(), 4e-3 * one.grad.norm())
