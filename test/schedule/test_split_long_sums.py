"""Products of tall matrices compute the same in parts (on the CPU), and are cut where that was measured to be faster."""

import sys
from choices import scheduled
from pathlib import Path

import pytest
import torch
from checks import check


sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import compile_universal

from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
CPU = find_target("cpu")
CASES = {
    "with what ends it": (lambda x, y, b: torch.relu(x.t() @ y + b), ((4096, 128), (4096, 64), (64,)), 2),
    "rows": (F.linear, ((128, 4608), (64, 4608), (64,)), 2),
    "one matrix": (lambda x: x.t() @ x, ((4100, 96),), 2),
    "batches of terms": (lambda x, y: torch.einsum("bti,btj->ij", x, y), ((5, 1024, 128), (5, 1024, 64)), 2),
    "a residual": (lambda x, y, r: F.gelu(x @ y) + r, ((128, 4096), (4096, 64), (128, 64)), 2),
    "terms that are no product": (lambda x, y: x.t() @ y, ((4099, 128), (4099, 64)), 1),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_the_same(name, dtype):
    function, shapes, kernels = CASES[name]
    torch.manual_seed(0)
    args = tuple(torch.randn(s).to(dtype) for s in shapes)
    compiled = compile_universal(function, args, torch.device("cpu"), "cpu", lambda k: assign.choose(k, CPU), passes="split-long-sums{target=sm_90a}")
    verdict = check(compiled, function, args)
    assert verdict.right, str(verdict)
    assert sum(row.calls for row in compiled.explain().rows) == kernels


@pytest.mark.parametrize("m, n, k, dtype, cut", [
    (256, 256, 16384, torch.bfloat16, True), (768, 768, 16384, torch.bfloat16, False), (128, 128, 2048, torch.bfloat16, False),
    (256, 256, 16384, torch.float32, False), (24, 512, 16384, torch.bfloat16, False),
])
def test_what_is_cut(m, n, k, dtype, cut):
    text = scheduled(lambda x, y: x.t() @ y, (torch.empty(k, m, dtype=dtype), torch.empty(k, n, dtype=dtype)))
    assert ("_parts(" in text) == cut
