"""Reductions whose sizes vary on the simulator: whatever is summed, neighbours that are terms or not, cut or whole, of other sizes than the example's."""

import pytest
import torch
from checks import assert_close_to_float64
from torch.export import Dim
from kernels import TARGET
from universal_program import SimulatedModel

from inferno.schedule.reductions import reductions
from inferno.schedule.reductions.reduction_schedule import Reductions
from inferno.target import STATIC_SHARED


def chosen(force: Reductions | None):
    """Chooses ``reductions`` for what they take, ``force`` if it fits."""
    found = []

    def choose(kernel):
        c = reductions.read_sized(kernel, TARGET)
        if c is None:
            return None
        s = reductions.pick_sized(c, TARGET)
        found.append(force if force is not None and force.fits(c) and force.shared_bytes(c) <= STATIC_SHARED else s)
        return found[-1]

    return choose, found


CASES = {  # the model, the example's sizes, the dimensions that vary, others
    "all": (lambda x: x.square().sum(), (4, 6, 40), (0, 1), [(2, 3, 40), (9, 7, 40)]),
    "all of any size": (lambda x: x.abs().mean(), (4, 6, 40), (0, 1, 2), [(2, 3, 5), (9, 7, 41), (2, 2, 2)]),
    "all of few": (lambda x: x.abs().sum(), (4, 5), (0, 1), [(3, 7), (9, 41), (2, 2)]),
    "all but the first": (lambda x: x[1:].abs().sum(), (40,), (0,), [(5,), (33,), (2,), (100,)]),
    "rows": (lambda x: x.sum(-1), (6, 40), (1,), [(6, 3), (6, 1000), (6, 77)]),
    "any rows": (lambda x: x.amax(-1), (6, 40), (0, 1), [(3, 33), (50, 9)]),
    "columns": (lambda x: x.sum(0), (40, 24), (0,), [(3, 24), (333, 24)]),
    "any columns": (lambda x: x.prod(0), (9, 24), (0, 1), [(3, 7), (12, 40)]),
    "batch norm": (lambda x: (x.mean((0, 2, 3)), x.var((0, 2, 3))), (4, 8, 6, 10), (0, 2, 3), [(2, 8, 3, 5), (3, 8, 11, 9)]),
    "channels last": (lambda x: x.sum((0, 1, 2)), (2, 6, 10, 8), (0, 1, 2), [(3, 5, 2, 8), (1 + 1, 11, 9, 8)]),
    "middle": (lambda x: x.sum(1), (3, 20, 16), (1,), [(3, 2, 16), (3, 101, 16)]),
    "computed": (lambda x: (x.abs() * 2).exp().sum(-1), (6, 40), (1,), [(6, 3), (6, 130)]),
    "distances from a mean": (lambda x: x.var(), (6, 40), (0, 1), [(3, 7), (50, 33), (2, 2)]),
    "of a size": (lambda x: (x / x.shape[0]).sum(-1), (6, 40), (0,), [(3, 40), (70, 40)]),
    "parts": (lambda x: (x[:, 1:] - x[:, :-1]).abs().sum(1), (6, 40), (0, 1), [(3, 7), (50, 33)]),
    "halves": (lambda x: x[x.shape[0] // 2 :].amax(0), (6, 40), (0, 1), [(4, 7), (50, 33)]),
    "numbers": (lambda x: (x > 0).sum(), (6, 40), (0, 1), [(3, 7), (20, 33), (2, 3)]),
}
FORCED = [None, Reductions(1, 32, 1, 2, chunks=7), Reductions(8, 8, 1, 3, chunks=3), Reductions(32, 2, 1, 1), Reductions(1, 32, 8, 2, chunks=3)]
NAMES = ["own", "cut", "side by side", "whole", "vectors"]


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("force", FORCED, ids=NAMES)
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, force, dtype):
    model, shape, varying, others = CASES[name]
    torch.manual_seed(0)
    choose, found = chosen(force)
    run = SimulatedModel(model, (torch.randn(shape).to(dtype),), ({d: Dim.AUTO for d in varying},), choose)
    assert found
    for other in (shape, *others):
        x = torch.randn(other).to(dtype)
        if name == "numbers":
            assert torch.equal(run(x), model(x))
        else:
            assert_close_to_float64(run(x), model, (x,))


PLACES = {  # as in CASES
    "rows": (lambda x: x.argmax(-1), (6, 40), (1,), [(6, 3), (6, 1000), (6, 77)]),
    "any rows": (lambda x: x.max(-1), (6, 40), (0, 1), [(3, 33), (50, 9)]),
    "columns": (lambda x: x.argmin(0), (40, 24), (0,), [(3, 24), (333, 24)]),
    "any columns": (lambda x: x.min(0), (9, 24), (0, 1), [(3, 7), (12, 40)]),
    "middle": (lambda x: x.max(1), (3, 20, 16), (0, 1), [(2, 3, 16), (3, 101, 16)]),
    "computed": (lambda x: (x.abs() * 2).max(-1), (6, 40), (1,), [(6, 3), (6, 130)]),
    "all": (lambda x: x.flatten().argmax(), (6, 40), (0, 1), [(3, 7), (50, 33), (2, 2)]),
    "parts": (lambda x: x[:, 1:].max(1), (6, 40), (0, 1), [(3, 7), (50, 33)]),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize("force", FORCED, ids=NAMES)
@pytest.mark.parametrize("name", PLACES)
def test_places(name, force, dtype):
    """Of values that come several times, and of what is no number, the first one."""
    model, shape, varying, others = PLACES[name]
    torch.manual_seed(0)
    choose, found = chosen(force)
    make = lambda size: torch.randint(-3, 4, size).to(dtype)  # noqa: E731
    run = SimulatedModel(model, (make(shape),), ({d: Dim.AUTO for d in varying},), choose)
    assert found
    for other in (shape, *others):
        odd = [] if dtype is torch.int32 else [float("inf"), float("-inf"), float("nan")]
        for special in (None, *odd):
            x = make(other)
            if special is not None:
                x[torch.rand(other) < (1 if special == float("-inf") else 0.1)] = special
            for ours, theirs in zip(torch.utils._pytree.tree_leaves(run(x)), torch.utils._pytree.tree_leaves(model(x))):
                assert torch.equal(ours.nan_to_num(), theirs.nan_to_num()) and torch.equal(ours.isnan(), theirs.isnan())


PICKS = {  # by whole numbers
    "all": lambda x, i: x.gather(1, i).square().sum(),
    "rows": lambda x, i: x.gather(1, i).sum(1),
    "columns": lambda x, i: x.gather(1, i).amax(0),
    "of a part": lambda x, i: x.gather(1, i[:, :1]).abs().sum(),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("force", FORCED, ids=NAMES)
@pytest.mark.parametrize("name", PICKS)
def test_picks(name, force, dtype):
    """What is summed is picked out of a matrix, all of whose sizes vary."""
    model = PICKS[name]
    choose, found = chosen(force)

    def arguments(rows: int, columns: int, picks: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(rows, columns).to(dtype), torch.randint(columns, (rows, picks))

    torch.manual_seed(0)
    every = {0: Dim.AUTO, 1: Dim.AUTO}
    run = SimulatedModel(model, arguments(6, 40, 20), (every, every), choose)
    assert found
    for sizes in ((6, 40, 20), (2, 3, 7), (50, 9, 33)):
        given = arguments(*sizes)
        assert_close_to_float64(run(*given), model, given)


MEANS = {  # quotients by a number of elements, as in CASES
    "all": (lambda x: x.square().mean(), (0, 1, 2)), "rows": (lambda x: x.mean(-1), (0, 2)), "columns": (lambda x: x.mean(0), (0, 2)),
    "logarithms": (lambda x: x.exp().sum(1).log() / x.shape[0], (0, 1)),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("force", FORCED, ids=NAMES)
@pytest.mark.parametrize("name", MEANS)
def test_what_is_made_of_sums(name, force, dtype):
    """It is part of their kernel, or of the one that brings together what they are in chunks."""
    model, varying = MEANS[name]
    torch.manual_seed(0)
    choose, found = chosen(force)
    shape = (4, 6, 40)
    run = SimulatedModel(model, (torch.randn(shape).to(dtype),), ({d: Dim.AUTO for d in varying},), choose, passes="fuse-sum-maps{target=sm_90a}")
    assert len(found) == 1 and run.program.gpu.count('"inferno.launch"') == 1 + (found[0].chunks > 1)
    for other in (shape, (2, 3, 5), (9, 7, 41)):
        x = torch.randn([o if d in varying else n for d, (o, n) in enumerate(zip(other, shape))]).to(dtype)
        assert_close_to_float64(run(x), model, (x,))


WEIGHTED = {  # sums of products, of which a map is made that reads other tensors
    "means": lambda x, w, s, c: (x * w[..., None]).sum(1) / s[:, None],
    "of columns": lambda x, w, s, c: torch.relu((x * w[..., None]).sum(1) * c + s[:, None]),
}


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("varying", [(), (0,), (0, 1)], ids=["none", "batch", "batch and terms"])
@pytest.mark.parametrize("force", FORCED, ids=NAMES)
@pytest.mark.parametrize("name", WEIGHTED)
def test_other_tensors_beside_sums(name, force, varying, dtype):
    torch.manual_seed(0)
    found = []

    def choose(kernel):
        c = reductions.read_sized(kernel, TARGET) or reductions.parse_reduction(kernel)
        if c is None:
            return None
        s = force if force is not None and force.fits(c) else reductions.pick_sized(c, TARGET) if varying else reductions.pick(c, TARGET)
        found.append(c)
        return s

    def arguments(batch: int, terms: int) -> tuple[torch.Tensor, ...]:
        shapes = (batch, terms, 24), (batch, terms), (batch,), (24,)
        return tuple((torch.rand(s) + 0.5 if len(s) == 1 else torch.randn(s)).to(dtype) for s in shapes)

    shapes = tuple({d: Dim.AUTO for d in varying if d < rank} for rank in (3, 2, 1, 0))
    run = SimulatedModel(WEIGHTED[name], arguments(4, 30), shapes if varying else None, choose)
    assert len(found) == 1 and found[0].beside.count(None) == 1 < len(found[0].beside)
    for sizes in ((4, 30), (9, 30), (9, 77)) if len(varying) == 2 else ((4, 30), (9, 30))[:1 + len(varying)]:
        given = arguments(*sizes)
        assert_close_to_float64(run(*given), WEIGHTED[name], given)
