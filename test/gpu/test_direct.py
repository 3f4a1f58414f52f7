"""Narrow products by mma.sync from registers on a GPU: tall matrices in parts, tiles of a warp, layouts and ends, against float64."""

import pytest
import torch
from contraction_cases import LAYOUTS, layout_shapes, not_finite
from fixed_schedules import TARGET, compile_universal, right

from checks import check
from on_gpu import on_hopper
from inferno.schedule.matmul.direct import Direct

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("exact_float32"),
]
F = torch.nn.functional
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("m, n, k, schedule", [
    (16, 32, 1 << 18, Direct(16, 32, 16, 1, 132)), (8, 8, 100000, Direct(16, 8, 8, 1, 100)), (3, 7, 65537, Direct(16, 8, 8, 2, 60)),
    (64, 64, 1 << 16, Direct(32, 32, 8, 1, 64)), (130, 100, 20000, Direct(64, 32, 8, 1, 12)), (17, 33, 9001, Direct(16, 16, 4, 2, 40)),
    (20000, 8, 64, Direct(16, 8, 1, 2, 1, 8)), (4099, 6, 1030, Direct(16, 8, 8, 2)), (1000, 15, 200, Direct(32, 16, 2, 1, 1, 4)),
], ids=str)
def test_layouts(m, n, k, schedule, layout, dtype):
    right(schedule, LAYOUTS[layout], *layout_shapes(m, n, k), dtype=dtype)


PROGRAMS = {
    "small matrices": (Direct(16, 8, 1, 1, 1, 8), lambda x, y: torch.einsum("nik,njk->nij", x, y), ((4001, 8, 32), (4001, 8, 32))),
    "odd ones": (Direct(16, 16, 1, 2, 1, 8), torch.matmul, ((3000, 12, 40), (3000, 40, 9))),
    "tall ones": (Direct(16, 16, 4, 1, 20), lambda x, y, b: F.gelu(torch.relu(x).mT @ y + b), ((3, 20000, 16), (3, 20000, 24), (24,))),
    "a narrow layer": (Direct(16, 8, 1, 2, 1, 8), lambda x, w, b: F.relu(F.linear(x, w, b)), ((50001, 64), (3, 64), (3,))),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_and_epilogues(name, dtype):
    schedule, function, shapes = PROGRAMS[name]
    right(schedule, function, *shapes, dtype=dtype)


@pytest.mark.parametrize("schedule", [Direct(16, 8, 8, 1, 30), Direct(16, 8, 1, 1, 1, 8)], ids=str)
def test_infinite_numbers(schedule):
    """Each part adds its own again, one after the other."""
    args = not_finite(lambda *shape: torch.randn(shape, device="cuda"), 40, 8, 20000 if schedule.parts > 1 else 64)
    verdict = check(compile_universal(torch.matmul, args, torch.device("cuda"), TARGET.name, lambda kernel: schedule), torch.matmul, args)
    assert verdict.right, str(verdict)
