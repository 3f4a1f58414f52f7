"""Tiles as wide as fill rounds of them, of which a part may have columns of the one before: numbers against float64."""

import pytest
import torch
from layer_checks import assert_layer_right

from inferno.schedule.matmul.wgmma_schedule import Wgmma

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("m, k, n", [(640, 1024, 4096), (1000, 264, 1112)])
@pytest.mark.parametrize("schedule", [
    Wgmma(128, 144, 5, 2), Wgmma(256, 144, 3, 2), Wgmma(256, 112, 4, 2), Wgmma(128, 240, 4, 2), Wgmma(128, 144, 4, 2, pingpong=True), Wgmma(64, 80, 6, 1),
    Wgmma(256, 160, 3, 2, swapped=True), Wgmma(128, 144, 5, 2, swapped=True),
], ids=lambda s: f"{s.tile_m}x{s.tile_n}{'pp' if s.pingpong else ''}{'transposed' if s.swapped else ''}")
def test_numbers(m, k, n, schedule):
    assert_layer_right(m, k, n, schedule)
