"""Results whose lines begin at any element: numbers against float64."""

import pytest
import torch
import torch.nn.functional as F
from universal_program import compile_universal

from inferno.schedule.contraction import parse_contraction
from inferno.schedule.wgmma import Wgmma

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def layer(x, w, bias, added):
    return F.gelu(F.linear(x, w, bias)) + added


@pytest.mark.parametrize("m, k, n", [(512, 768, 5003), (201, 264, 1111), (333, 72, 1026)])
@pytest.mark.parametrize("schedule", [
    Wgmma(128, 128, 6, 2), Wgmma(128, 256, 4, 2), Wgmma(256, 160, 3, 2), Wgmma(128, 96, 6, 2, inside=True), Wgmma(64, 64, 12, 1),
    Wgmma(128, 128, 6, 2, pingpong=True),
], ids=lambda s: f"{s.tile_m}x{s.tile_n}{'pp' if s.pingpong else ''}")
def test_numbers(m, k, n, schedule):
    if schedule.inside and m % 128 == 0:
        pytest.skip("no rows are outside")
    torch.manual_seed(11)
    args = [torch.randn(*shape, device="cuda").bfloat16() for shape in ((m, k), (n, k), (n,), (m, n))]
    args[1] /= k ** 0.5
    compiled = compile_universal(layer, tuple(args), torch.device("cuda"), "sm_90a", lambda kernel: parse_contraction(kernel) and schedule)
    expected = layer(*(a.double() for a in args))
    for _ in range(3):
        difference = compiled(*args).double() - expected
        assert difference.norm() < 2 ** -7 * expected.norm() and difference.abs().max() < 2 ** -3
