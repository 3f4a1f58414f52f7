"""Large windows that overlap, one side after the other: their numbers, and that each kernel reads few elements a point."""

import pytest
import torch
from checks import check
from choices import generators
from universal_program import SimulatedModel

from inferno.capture.devices import capturing_for

F = torch.nn.functional


def moments(x):
    mean = F.avg_pool2d(x, 7, 1)
    return F.avg_pool2d(x * x, 7, 1) - mean * mean


MODELS = {
    "means": (lambda x: F.avg_pool2d(x, 7, 1), (2, 3, 20, 19)),
    "with a padding": (lambda x: F.avg_pool2d(x, 9, 1, 4), (1, 2, 16, 18)),
    "of what is inside": (lambda x: F.avg_pool2d(x, 7, 2, 3, count_include_pad=False), (1, 2, 17, 18)),
    "of another shape": (lambda x: F.avg_pool2d(x, (9, 5), (1, 2)), (1, 2, 16, 18)),
    "with a rest": (lambda x: F.avg_pool2d(x, 8, 3, ceil_mode=True), (1, 2, 19, 22)),
    "maxima": (lambda x: torch.cat([x] + [F.max_pool2d(x, k, 1, k // 2) for k in (5, 9, 13)], 1), (1, 2, 16, 17)),
    "dilated maxima": (lambda x: F.max_pool2d(x, 6, 1, dilation=2), (1, 2, 17, 18)),
    "volumes": (lambda x: F.avg_pool3d(x, 5, 1), (1, 2, 9, 8, 10)),
    "moments": (moments, (1, 3, 16, 20)),
    "channels last": (lambda x: F.avg_pool2d(x.permute(0, 3, 1, 2), 7, 1).permute(0, 2, 3, 1), (1, 14, 15, 8)),
}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name, dtype", [(n, d) for n in MODELS for d in (torch.float32, torch.bfloat16) if n != "volumes" or d == torch.float32])
def test_right(name, dtype):
    model, shape = MODELS[name]
    x = torch.randn(shape).to(dtype)
    if "maxima" in name:
        x.view(-1)[::97] = float("nan")
    with capturing_for(True):
        made = SimulatedModel(model, (x,))
    found = check(made, model, (x,))
    assert found.right, str(found)


def test_kernels():
    """One for each side, and what is made of several windows in each."""
    x = torch.empty(8, 3, 256, 256)
    assert generators(MODELS["means"][0], (x,)) == ["elementwise", "elementwise"]
    assert generators(moments, (x,)) == ["elementwise", "elementwise"]
