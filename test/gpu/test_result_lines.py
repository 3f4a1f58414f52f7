"""Results whose lines begin at any element: numbers against float64."""

import pytest
import torch
from layer_checks import assert_layer_right, layer
from universal_program import compile_universal

from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Wgmma

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("m, k, n", [(512, 768, 5003), (201, 264, 1111), (333, 72, 1026)])
@pytest.mark.parametrize("schedule", [
    Wgmma(128, 128, 6, 2), Wgmma(128, 256, 4, 2), Wgmma(256, 160, 3, 2), Wgmma(128, 96, 6, 2, inside=True), Wgmma(64, 64, 12, 1),
    Wgmma(128, 128, 6, 2, pingpong=True),
], ids=lambda s: f"{s.tile_m}x{s.tile_n}{'pp' if s.pingpong else ''}")
def test_numbers(m, k, n, schedule):
    if schedule.inside and m % 128 == 0:
        pytest.skip("no rows are outside")
    assert_layer_right(m, k, n, schedule)


def test_every_call_gives_the_same():
    """A tile's last part is half as wide as the others: its rows are staged where the same warp's were, and no other one's."""
    torch.manual_seed(0)
    args = [torch.randn(*shape, device="cuda").bfloat16() for shape in ((333, 72), (1026, 72), (1026,), (333, 1026))]
    compiled = compile_universal(layer, tuple(args), torch.device("cuda"), "sm_90a", lambda kernel: parse_contraction(kernel) and Wgmma(256, 160, 3, 2))
    first = compiled(*args)
    assert all(torch.equal(compiled(*args), first) for _ in range(100))
