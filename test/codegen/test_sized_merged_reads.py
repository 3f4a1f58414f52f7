"""Kernels that read the same data become one where its sizes vary, too, on the simulator: of other sizes than the example's, none, and one."""

import pytest
import torch
from checks import assert_close_to_float64
from kernels import TARGET
from merged_read_cases import MODELS, of_none
from torch.export import Dim
from universal_program import SimulatedModel

from inferno.schedule import assign

PASSES = ",".join(f"{p}{{target=sm_90a}}" for p in ("merge-variances", "merge-sums", "fuse-sum-maps", "merge-maps", "merge-reads"))


def pair(shape, dtype=torch.float32):
    return tuple((torch.randn(shape) + 0.5).to(dtype) for _ in range(2))


def simulated(model, args, varying, passes=PASSES):
    return SimulatedModel(model, args, varying, choose=lambda k: assign.choose(k, TARGET), passes=passes)


SHAPE = (2048, 1280)  # of the example: what is merged is large


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("varying", ((0,), (1,), (0, 1)), ids=("rows", "columns", "both"))
@pytest.mark.parametrize("model", MODELS)
def test_right(model, varying, dtype):
    dims = {d: Dim.AUTO for d in varying}
    args = tuple(torch.zeros(SHAPE, dtype=dtype) for _ in range(2))
    merged = simulated(model, args, (dims, dims))
    assert len(merged.program.plan.steps) < len(simulated(model, args, (dims, dims), "").program.plan.steps)
    torch.manual_seed(0)
    # (Where one size varies, the other is as large as the example's: a few suffice.)
    for other in ((24, 40), (2, 3), (37, 129), (300, 8)) if len(varying) > 1 else ((2, 3), (37, 33)):
        args = pair([o if d in varying else n for d, (o, n) in enumerate(zip(other, SHAPE))], dtype)
        assert_close_to_float64(merged(*args), model, args)


@pytest.mark.thorough
def test_none_and_one():
    """Sums of nothing are 0, and what is divided by no elements is no number, as elsewhere."""
    rows = {0: torch.export.Dim("n", min=0, max=1 << 20)}
    args = tuple(torch.zeros(SHAPE) for _ in range(2))
    merged = simulated(of_none, args, (rows, rows))
    torch.manual_seed(0)
    for count in (0, 1, 5):
        args = pair((count, SHAPE[1]))
        for found, expected in zip(merged(*args), of_none(*args)):
            assert torch.allclose(found, expected, equal_nan=True), (found, expected)
