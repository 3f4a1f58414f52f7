"""Contractions whose tiles have the sides exchanged, and those of which two blocks share a multiprocessor, against float64, bit for bit the
same at each call."""

import pytest
import torch
from fixed_schedules import gelu, right
from on_gpu import on_hopper

from inferno.schedule.matmul.wgmma_schedule import Wgmma

pytestmark = on_hopper


def transposed(tile_m, tile_n, stages=4, split=1, spread=True, **knobs):
    return Wgmma(
        tile_m, tile_n, stages, min(2, tile_m // 64), persistent=split == 1, split=split, spread=split > 1 and spread, swapped=True, **knobs)


@pytest.mark.parametrize("m, k, n, schedule", [
    (80, 264, 320, transposed(64, 80)), (150, 512, 136, transposed(128, 160)), (200, 1000, 520, transposed(128, 96, 4, 2)),
    (72, 640, 1000, transposed(64, 96, 5, 2, spread=False)), (255, 2048, 648, transposed(128, 224, 4, 4)), (300, 520, 1000, transposed(64, 208)),
    (129, 768, 264, transposed(256, 80, 3)), (100, 384, 2056, transposed(128, 48, 6, cluster=2)), (1000, 1000, 1000, transposed(128, 176)),
    (40, 520, 4104, transposed(64, 48)),
])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_transposed(m, k, n, schedule, dtype):
    right(schedule, gelu, (m, k), (n, k), (m, n), dtype=dtype)
    right(schedule, lambda x, w: torch.relu(x @ w), (m, k), (k, n), dtype=dtype)


def test_transposed_with_results_of_float32():
    right(transposed(128, 160), lambda x, w: (x @ w.t()).float() * 2, (150, 520), (1000, 520))


@pytest.mark.parametrize("m, k, n, schedule", [
    (64, 1000, 4096, Wgmma(64, 64, 6, 1, resident=2, persistent=False)), (64, 2048, 1000, Wgmma(64, 128, 4, 1, resident=2)),
    (200, 520, 3000, Wgmma(128, 64, 3, 2, resident=2, persistent=False)),
    (8, 4096, 1000, Wgmma(64, 64, 8, 1, persistent=False, split=2, lhs_rows=8, resident=2)),
])
def test_two_blocks_a_multiprocessor(m, k, n, schedule):
    right(schedule, gelu, (m, k), (n, k), (m, n))
    right(schedule, lambda x, w: torch.relu(x @ w), (m, k), (k, n))
