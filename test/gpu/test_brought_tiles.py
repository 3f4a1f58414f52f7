"""Long ends of tiles: what they read is brought by the copy engine, or consumers take turns; numbers against float64."""

import pytest
import torch
import torch.nn.functional as F
from universal_program import compile_universal

from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Wgmma

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def scaled(x, w, residual, scale, offset):
    return torch.relu(F.linear(x, w) * scale + offset + residual)


def gated(x, w, residual, scale, offset):
    return F.gelu(F.linear(x, w, offset)) * residual + residual.square()


@pytest.mark.parametrize("function", [scaled, gated])
@pytest.mark.parametrize("m, k, n", [(3000, 64, 512), (1111, 328, 200)])
@pytest.mark.parametrize("schedule", [
    Wgmma(128, 128, 4, 2, bring=4), Wgmma(128, 64, 4, 2, bring=3), Wgmma(64, 128, 4, 1, bring=6),
    Wgmma(128, 128, 4, 2, pingpong=True, bring=4), Wgmma(64, 256, 3, 2, pingpong=True, bring=2), Wgmma(64, 64, 6, 2, pingpong=True, bring=1),
    Wgmma(128, 128, 6, 2, pingpong=True),
], ids=lambda s: f"{s.tile_m}x{s.tile_n}b{s.bring}{'pp' if s.pingpong else ''}")
def test_numbers(function, m, k, n, schedule):
    torch.manual_seed(11)
    args = [torch.randn(*shape, device="cuda").bfloat16() for shape in ((m, k), (n, k), (m, n), (n,), (n,))]
    args[1] /= k ** 0.5
    compiled = compile_universal(function, tuple(args), torch.device("cuda"), "sm_90a", lambda kernel: parse_contraction(kernel) and schedule)
    expected = function(*(a.double() for a in args))
    for _ in range(5):  # what is under way when a launch begins is different each time
        difference = compiled(*args).double() - expected
        assert difference.norm() < 2 ** -7 * expected.norm() and difference.abs().max() < 2 ** -3
