"""Tiles that the blocks of a cluster share, of operands whose rows begin anywhere in 128 bytes: numbers against float64."""

import pytest
import torch
from layer_checks import assert_layer_right

from inferno.schedule.matmul.wgmma_schedule import Wgmma

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("m, k, n", [(1000, 1000, 1000), (1000, 264, 2040)])
@pytest.mark.parametrize("schedule", [
    Wgmma(128, 256, 4, 2, cluster=2), Wgmma(64, 128, 8, 1, cluster=2), Wgmma(128, 64, 8, 2, cluster=2, across=True),
    Wgmma(128, 128, 6, 2, cluster=2, across=True), Wgmma(128, 96, 6, 2, cluster=4), Wgmma(128, 64, 8, 2, cluster=4, across=True),
], ids=lambda s: f"{s.tile_m}x{s.tile_n}{'across' if s.across else ''}")
def test_numbers(m, k, n, schedule):
    assert_layer_right(m, k, n, schedule)
