"""A table of blocks that are hidden, masked or whole is told apart from the scores that it hides."""

import pytest
import torch
from attention_cases import fused, read
from flex_block_cases import alibi, by_hand, causal, tensors

from inferno.mlir import idle_context, ir
from inferno.schedule.analysis.expression_tracer import LoopNumbers, NotUnderstood
from inferno.schedule.analysis.expressions import Loop
from inferno.schedule.attention.candidates import candidates
from inferno.schedule.attention.kernel import sources
from inferno.schedule.attention.resources import fits
from inferno.schedule.attention.schedule import Attention
from inferno.schedule.attention.tiling import tile_attention
from inferno.target import find_target


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("length, last, batch, heads", [(200, 300, 2, 4), (256, 384, 1, 1)])
def test_blocks_of_any_sizes(length, last, batch, heads):
    """Heads that share keys keep their own blocks; the last blocks may be less."""
    torch.manual_seed(0)
    case = by_hand(causal, tensors(2, 4, 2, length, last, 16), batch, heads, (128, 64), score_mod=alibi)
    with idle_context(), ir.Location.unknown():
        module = fused(case, case.args)
        a, _ = read(module, case.args)
        b, target = a.blocks, find_target("sm_90a")
        count = -(-last // 64)
        assert a.band is None and a.queries.size == length and (b.queries, b.keys, b.count, b.step) == (128, 64, count, count)
        assert b.whole.differs and not b.whole.hides and b.whole.score is not a.score and not sources(b.whole.score) and a.uneven
        assert sorted(s for s in b.table.strides if s) == ([] if batch == 1 else [2 * count, 4 * count, 8 * count])
        assert all(128 % s.queries == 0 and 64 % s.keys == 0 for s in candidates(a, tile_attention(a), target))
        assert not any(fits(s, a, target) for s in (Attention(3, 64), Attention(2, 128), Attention(1, 64, turns=False, parts=2)))


def test_a_loop_without_a_number_is_not_understood():
    """As that of blocks of which the last one is less, where only whole ones are known."""
    numbers = LoopNumbers({Loop("keys", 1, 700): 0})
    assert numbers[Loop("keys", 1, 700)] == 0
    with pytest.raises(NotUnderstood):
        numbers[Loop("keys", 128, 6)]
