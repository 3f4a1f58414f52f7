"""Scans whose sizes vary on the simulator: along memory and across it, with maps in front and behind, of other sizes than the example's."""

import pytest
import torch
from checks import check
from kernels import TARGET
from scan_cases import PASSES, numbered
from torch.export import Dim
from universal_program import SimulatedModel, assert_assembles

from inferno.capture.running import recurrence
from inferno.schedule.composite.size_ranges import BySize
from inferno.schedule.scans import scans, sized_scans
from inferno.schedule.scans.scan_schedule import Scans

AUTO = Dim.AUTO
bf16 = torch.bfloat16


def chosen(force: Scans | None):
    """Chooses ``scans`` for what they take, ``force`` if it fits."""
    found = []

    def choose(kernel):
        c = scans.read_sized(kernel, TARGET)
        if c is None:
            return None
        found.append(force if force is not None and force.fits(c) else sized_scans.choose(kernel, TARGET))
        return found[-1]

    return choose, found


CASES = {  # the model, the example's sizes, the dimensions that vary, others
    "rows": (lambda x: x.cumsum(-1), (6, 40), (1,), [(6, 3), (6, 1000), (6, 77)]),
    "any rows": (lambda x: x.cumsum(-1), (6, 40), (0, 1), [(3, 33), (300, 9), (2, 9001)]),
    "many rows": (lambda x: x.cumsum(-1), (6, 200), (0,), [(1 + 1, 200), (37, 200)]),
    "one row": (lambda x: x.cumsum(0), (300,), (0,), [(7,), (5001,), (20003,)]),
    "long rows": (lambda x: (x * 2).cumsum(-1), (2, 5000), (1,), [(2, 30), (2, 20001)]),
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
FORCED = {  # a schedule, where it fits; of those that look back the words' number is known to be no larger than 31 bits count
    "own": None, "rows": Scans(64, 64, 1, 2), "several": Scans(64, 4, 1, 3), "warps": Scans(128, 32, 1, 1), "staged": Scans(64, 8, 2, 2, stages=1),
    "vectors": Scans(64, 64, 4, 1, stages=2), "looking back": Scans(64, 64, 1, 2, 4), "across": Scans(64, 4, 1, 3, 2),
}


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("dtype", [torch.float32, bf16], ids=str)
@pytest.mark.parametrize("force", FORCED.values(), ids=FORCED)
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, force, dtype):
    model, shape, varying, others = CASES[name]
    torch.manual_seed(0)
    choose, found = chosen(force)
    run = SimulatedModel(model, (torch.randn(shape).to(dtype),), ({d: AUTO for d in varying},), choose, passes=PASSES)
    assert len(found) == 1 and (not isinstance(found[0], Scans) or len(run.program.plan.steps) == 1 + (found[0].group > 0))
    for sizes in (shape, *others):
        args = (torch.randn(sizes).to(dtype),)
        right = check(run, model, args)
        assert right.right, f"{sizes}: {right}"


@pytest.mark.parametrize("model, shape, others", [
    (lambda x: x.cumsum(1), (3, 40), [(0, 4), (4, 0), (1, 1), (1, 9001), (400, 2)]),
    (lambda x: x.cumsum(0), (40, 6), [(0, 4), (4, 0), (1, 1), (2000, 1)]),
])
def test_none_and_many(model, shape, others):
    choose, found = chosen(None)
    run = SimulatedModel(model, (torch.randn(shape),), ({d: Dim(f"n{d}", min=0, max=1 << 20) for d in (0, 1)},), choose)
    assert found
    for sizes in (shape, *others):
        x = torch.randn(sizes)
        torch.testing.assert_close(run(x), model(x.double()).float())


@pytest.mark.parametrize("most, looks_back", [(1 << 33, True), (1 << 45, False)])
def test_offsets_of_64_bits(most, looks_back):
    """Where ranges ask for them; blocks look back if 31 bits count what they leave each other."""
    choose, found = chosen(None)
    run = SimulatedModel(lambda x: x.cumsum(1), (torch.randn(4, 40),), ({1: Dim("n", min=0, max=most)},), choose)
    assert isinstance(found[0], BySize) == looks_back
    for length in (0, 3, 9001):
        x = torch.randn(4, length)
        torch.testing.assert_close(run(x), x.double().cumsum(1).float())


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("model, shape", [
    (lambda x: x.cumsum(1), (64, 10000)), (lambda x: x.logcumsumexp(1), (64, 10000)),
])
def test_assembles(model, shape):
    """With kernels that look back, in which no register spills."""
    choose, found = chosen(None)
    run = SimulatedModel(model, (torch.randn(shape),), ({0: AUTO, 1: AUTO},), choose)
    assert isinstance(found[0], BySize)
    assert_assembles(run.program.gpu, TARGET)
