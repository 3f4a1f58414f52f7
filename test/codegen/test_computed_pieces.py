"""Rows of a concatenation of which pieces are computed are read from what these are made of, and one of what is computed is selected."""

import pytest
import torch
from computed_piece_cases import PROGRAMS, SHAPES
from scheduled_program import assert_right, launches


@pytest.mark.covering(most=12)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(name, shapes, dtype):
    program, most = PROGRAMS[name]
    torch.manual_seed(0)
    text = assert_right(program, tuple(torch.randn(s).to(dtype) for s in shapes))
    assert launches(text) <= most, text[:3000]


def test_what_may_trap_is_not_computed_of_other_pieces():
    """Nor is it refused: it is put together first."""
    x, y = torch.randint(1, 90, (30, 24)), torch.zeros(30, 24, dtype=torch.int64)
    text = assert_right(lambda x, y: torch.cat((100 // x, y), -1).cumsum(-1), (x, y))
    assert "arith.divsi" in text or "arith.floordivsi" in text or "divf" in text
