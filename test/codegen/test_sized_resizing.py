"""Images of sizes that vary, made larger or smaller: each an elementwise kernel whose numbers are right on the simulator for other sizes than the example's."""

import pytest
import torch
from checks import assert_close_to_float64
from sized_models import SizedModel
from torch.export import Dim

from inferno.schedule.maps.elementwise import Elementwise

F = torch.nn.functional
CASES = {  # the model, the example's sizes, others
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (8, 64, 112, 112), [(8, 64, 2, 2), (8, 64, 5, 4)]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (2, 4, 8, 10), [(2, 4, 2, 2), (2, 4, 7, 5)]),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (2, 4, 8, 10), [(2, 4, 2, 2), (2, 4, 7, 5)]),
    "nearest, other factors": (lambda x: F.interpolate(x, scale_factor=(4.0, 1.0), mode="nearest"), (2, 4, 8, 10), [(2, 4, 2, 2), (2, 4, 7, 5)]),
    "nearest, to a size": (lambda x: F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 8)), (2, 4, 8, 10), [(2, 4, 2, 2), (2, 4, 7, 5)]),
    "bilinear, to a number": (lambda x: F.interpolate(x, size=(9, 6), mode="bilinear"), (2, 4, 8, 10), [(2, 4, 2, 2), (2, 4, 7, 31)]),
    "bilinear, by ends": (lambda x: F.interpolate(x, size=(9, 6), mode="bilinear", align_corners=True), (2, 4, 8, 10), [(2, 4, 2, 2), (2, 4, 7, 31)]),
    "bicubic, halved": (lambda x: F.interpolate(x, scale_factor=0.5, mode="bicubic"), (2, 4, 8, 10), [(2, 4, 2, 2), (2, 4, 7, 31)]),
    "bicubic, by ends": (lambda x: F.interpolate(x, size=(9, 6), mode="bicubic", align_corners=True), (2, 4, 8, 10), [(2, 4, 2, 2), (2, 4, 7, 31)]),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, dtype):
    model, shape, others = CASES[name]
    torch.manual_seed(0)
    run = SizedModel(model, (torch.randn(shape).to(dtype),), ({2: Dim.AUTO, 3: Dim.AUTO},))
    assert run.schedules and all(isinstance(s, Elementwise) for s in run.schedules)
    for other in others:
        x = torch.randn(other).to(dtype)
        assert_close_to_float64(run(x), model, (x,))
