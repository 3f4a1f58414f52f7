"""The kernel that walks the lists of a block mask, on the simulator against float64."""

import pytest
import torch
from attention_program import simulated
from flex_block_cases import alibi, by_hand, causal, documents, made, tensors
from torch.nn.attention.flex_attention import noop_mask

from inferno.codegen.attention_tiles import TileOrder
from inferno.schedule.attention import Attention


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    torch.manual_seed(0)


CASES = {
    "by hand": (lambda: by_hand(causal, tensors(1, 2, 2, 150, 170, 16), 1, 2, (64, 64), more={"return_lse": True}), Attention(1, 32, turns=False)),
    "no masks": (lambda: by_hand(noop_mask, tensors(1, 2, 1, 256, 96, 16), 1, 1, (128, 32), whole=False), Attention(2, 32, order="dynamic")),
    "documents": (lambda: made(documents(2, 128), tensors(2, 1, 1, 128, 128, 16), 2, size=64, score_mod=alibi), Attention(1, 64, turns=False)),
}


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
