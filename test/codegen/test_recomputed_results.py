"""What a kernel over rows made, and others read, is computed by these: never written, and right."""

import pytest
import torch
from recomputed_cases import gated_columns, normed_columns
from scheduled_program import assert_right, launches


@pytest.mark.covering
@pytest.mark.parametrize("program, shapes", [(gated_columns, [(140, 2100), (1001, 140)]), (normed_columns, [(140, 1100), (1001, 140)])])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["f32", "bf16", "f16"])
def test_right(program, shapes, dtype):
    torch.manual_seed(0)
    text = assert_right(program, tuple(torch.randn(s).to(dtype) for s in shapes))
    assert "@recomputed" in text and launches(text) == 2, text[:3000]
