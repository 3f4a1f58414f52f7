"""What a kernel over rows made, and readers of other rows compute on a GPU: their numbers."""

import pytest
import torch
from checks import check, poison_memory
from on_gpu import on_hopper
from recomputed_cases import gated_columns, normed_columns

import inferno

pytestmark = on_hopper


@pytest.mark.parametrize("program", [gated_columns, normed_columns])
@pytest.mark.parametrize("rows, columns, read", [(255, 16832, 8417), (2048, 8192, 8192), (1000, 3001, 1777), (140, 1100, 1001)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["f32", "bf16", "f16"])
def test_right(program, rows, columns, read, dtype):
    torch.manual_seed(0)
    args = tuple(torch.randn(s, device="cuda").to(dtype) for s in ((rows, columns), (read, rows)))
    compiled = inferno.compile(program, args)
    poison_memory()
    found = check(compiled, program, args)
    assert found.right, str(found)
