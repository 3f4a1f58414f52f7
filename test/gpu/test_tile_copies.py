"""Contractions against float64, bit for bit the same at each call, however tiles come to shared memory: weights in narrow panels, of the lhs
only the rows that there are, the last ones with some of those before them."""

import pytest
import torch
from fixed_schedules import gelu, right
from on_gpu import on_hopper

from inferno.schedule.matmul.wgmma_schedule import Wgmma

pytestmark = on_hopper


def thin(tile_n, stages=6, split=1, **knobs):
    return Wgmma(64, tile_n, stages, 1, persistent=split == 1, split=split, **knobs)


@pytest.mark.parametrize("m, k, n, schedule", [
    (64, 520, 1000, thin(96, panel=32)), (5, 2048, 4096, thin(224, 4, panel=32, lhs_rows=8)), (40, 1000, 520, thin(48, panel=16)),
    (64, 512, 1024, thin(192)), (8, 2056, 8448, thin(256, 5, lhs_rows=8)), (64, 520, 992, thin(96, panel=32)), (64, 2048, 1000, thin(64, 8, 2)),
    (4, 4096, 1000, thin(192, 6, 4, lhs_rows=8)), (33, 4096, 520, thin(64, 8, 8, lhs_rows=40)), (17, 4096, 520, thin(96, 8, 2, lhs_rows=24, panel=32)),
    (256, 520, 1000, Wgmma(128, 96, 5, 2, panel=32)), (256, 1000, 3000, Wgmma(256, 160, 3, 2)), (160, 512, 2048, Wgmma(64, 192, 6, 1, inside=True)),
])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_columns_innermost(m, k, n, schedule, dtype):
    right(schedule, lambda x, w: torch.relu(x @ w), (m, k), (k, n), dtype=dtype)


@pytest.mark.parametrize("m, k, n, schedule", [
    (200, 1000, 520, Wgmma(64, 64, 8, 1, inside=True)), (200, 2048, 1000, Wgmma(128, 64, 6, 2, inside=True)),
    (65, 520, 1000, Wgmma(64, 128, 6, 1, inside=True)), (1000, 264, 520, Wgmma(256, 128, 4, 2, inside=True)),
    (137, 4096, 520, Wgmma(128, 64, 6, 2, persistent=False, split=3, spread=True, inside=True)),
    (200, 6144, 264, Wgmma(128, 128, 5, 2, persistent=False, split=4, spread=True, inside=True)),
    (200, 1000, 1000, Wgmma(256, 64, 4, 2, lhs_rows=200)), (72, 2048, 520, Wgmma(128, 64, 6, 2, lhs_rows=72)),
    (256, 1000, 1160, Wgmma(256, 160, 3, 2)), (72, 5120, 1000, Wgmma(128, 40, 8, 2, lhs_rows=72)), (100, 520, 1000, Wgmma(128, 96, 6, 2, lhs_rows=104)),
])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_terms_innermost(m, k, n, schedule, dtype):
    right(schedule, gelu, (m, k), (n, k), (m, n), dtype=dtype)
