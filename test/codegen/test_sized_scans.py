"""Scans whose sizes vary on the simulator: along memory and across it, with maps in front and behind, of other sizes than the example's."""

import pytest
import torch
from checks import check
from kernels import TARGET
from scan_cases import PASSES
from torch.export import Dim
from universal_program import SimulatedModel

from inferno.capture.running import recurrence
from inferno.schedule import scans
from inferno.schedule.scans import Scans

AUTO = Dim.AUTO
bf16 = torch.bfloat16


def chosen(force: Scans | None):
    """Chooses ``scans`` for what they take, ``force`` if it fits."""
    found = []

    def choose(kernel):
        c = scans.read_sized(kernel, TARGET)
        if c is None:
            return None
        found.append(force if force is not None and force.fits(c) else scans.pick_sized(c, TARGET))
        return found[-1]

    return choose, found


def numbered(x):
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape)
    return (x + rows[:, None]).cumsum(1) * columns


CASES = {  # the model, the example's sizes, the dimensions that vary, others
    "rows": (lambda x: x.cumsum(-1), (6, 40), (1,), [(6, 3), (6, 1000), (6, 77)]),
    "any rows": (lambda x: x.cumsum(-1), (6, 40), (0, 1), [(3, 33), (50, 9), (2, 700)]),
    "many rows": (lambda x: x.cumsum(-1), (6, 200), (0,), [(1 + 1, 200), (37, 200)]),
    "one row": (lambda x: x.cumsum(0), (300,), (0,), [(7,), (5001,)]),
    "long rows": (lambda x: (x * 2).cumsum(-1), (2, 5000), (1,), [(2, 30), (2, 9001)]),
    "eights": (lambda x: x.repeat_interleave(8, 1).cumsum(1), (3, 40), (1,), [(3, 3), (3, 200)]),
    "the middle": (lambda x: x.cumsum(1), (2, 70, 64), (1,), [(2, 2, 64), (2, 301, 64)]),
    "the middle, few columns": (lambda x: x.cumsum(1), (3, 30, 3), (0, 1), [(2, 2, 3), (5, 200, 3)]),
    "the first": (lambda x: x.cumsum(0), (70, 24), (0,), [(3, 24), (333, 24)]),
    "the first of any columns": (lambda x: x.cumsum(0), (70, 24), (0, 1), [(3, 7), (90, 100)]),
    "any columns": (lambda x: x.cumsum(1), (3, 20, 16), (0, 1, 2), [(2, 2, 3), (5, 77, 41)]),
    "maxima, and where they are": (lambda x: x.cummax(1), (3, 40), (0, 1), [(2, 7), (5, 300)]),
    "minima across": (lambda x: x.cummin(0).values, (40, 8), (0,), [(2, 8), (300, 8)]),
    "products": (lambda x: (1 + x / 50).cumprod(1), (3, 40), (1,), [(3, 7), (3, 300)]),
    "logarithms of sums": (lambda x: x.logcumsumexp(0), (40, 5), (0, 1), [(2, 3), (200, 9)]),
    "maps": (lambda x: torch.relu(x * 2).cumsum(-1) + 1, (5, 40), (0, 1), [(2, 7), (4, 700)]),
    "maps across": (lambda x: torch.sigmoid(x.cumsum(1)) * x, (2, 40, 16), (1,), [(2, 3, 16), (2, 200, 16)]),
    "places": (numbered, (7, 40), (0, 1), [(3, 7), (9, 300)]),
    "a recurrence": (lambda x: recurrence(torch.sigmoid(x.float()), x.float(), 1), (2, 40, 12), (1,), [(2, 3, 12), (2, 130, 12)]),
}
FORCED = [None, Scans(64, 64, 1, 2), Scans(64, 4, 1, 3), Scans(128, 32, 1, 1), Scans(64, 8, 2, 2, stages=1), Scans(64, 64, 4, 1, stages=2)]


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("dtype", [torch.float32, bf16], ids=str)
@pytest.mark.parametrize("force", FORCED, ids=["own", "rows", "several", "warps", "staged", "vectors"])
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, force, dtype):
    model, shape, varying, others = CASES[name]
    torch.manual_seed(0)
    choose, found = chosen(force)
    run = SimulatedModel(model, (torch.randn(shape).to(dtype),), ({d: AUTO for d in varying},), choose, passes=PASSES)
    assert len(found) == len(run.program.plan.steps) == 1
    for sizes in (shape, *others):
        args = (torch.randn(sizes).to(dtype),)
        right = check(run, model, args)
        assert right.right, f"{sizes}: {right}"
