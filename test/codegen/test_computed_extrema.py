"""Largest elements, and their places, of what is gathered at computed places: enlarged scores of classes, stencils, shifted images."""

import pytest
import torch
import torch.nn.functional as F
from kernels import recorded
from universal_program import SimulatedModel

from inferno.schedule import assign


def laplacian(x):
    return x - F.avg_pool2d(F.pad(x, (1, 1, 1, 1), "replicate"), 3, 1)


def enlarged(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear")


# What is looked at, of which extrema along which dimension are found, and sizes.
CASES = {
    "classes of an enlarged image": (enlarged, torch.argmax, 1, (2, 5, 7, 9)),
    "of one that repeats pixels": (lambda x: F.interpolate(x, scale_factor=2), torch.max, 1, (2, 5, 7, 9)),
    "with channels last": (lambda x: enlarged(x.permute(0, 3, 1, 2)), torch.argmin, 1, (2, 7, 9, 24)),
    "of a stencil": (laplacian, torch.argmax, 1, (2, 17, 8, 12)),
    "of its rows": (laplacian, torch.min, 3, (2, 3, 8, 40)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_one_kernel_finds_them(name, dtype):
    torch.manual_seed(0)
    scores, extremum, dim, shape = CASES[name]
    x = torch.randn(shape).to(dtype)
    own, chosen = recorded(assign.choose)
    simulated = SimulatedModel(lambda x: extremum(scores(x), dim), (x,), choose=own, expand=True)
    assert [s.generator for s in chosen] == ["reductions"]
    found, exact = simulated(x), scores(x.double())
    best = exact.amin(dim) if extremum in (torch.argmin, torch.min) else exact.amax(dim)
    near = torch.finfo(dtype).eps * exact.abs().max()
    if isinstance(found, tuple):
        assert (found[0] - best).abs().max() < near
    place = found[-1] if isinstance(found, tuple) else found
    assert place.dtype == torch.int64 and (exact.gather(dim, place.unsqueeze(dim)).squeeze(dim) - best).abs().max() < near
