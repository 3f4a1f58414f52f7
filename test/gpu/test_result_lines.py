"""Results whose lines begin at any element: numbers against float64."""

import pytest
import torch
from layer_checks import assert_layer_right

from inferno.schedule.wgmma import Wgmma

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
