"""Paddings, parts and writes whose sizes vary are elementwise kernels: on the simulator, of other sizes than the example's, none of a part among them."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_close_to_float64
from choices import generators
from sized_models import SizedModel
from torch.export import Dim


def windows(x):
    """Of a picture that is padded to whole ones."""
    x = F.pad(x, (0, -x.shape[3] % 4, 0, -x.shape[2] % 4))
    return x.unflatten(2, (-1, 4)).unflatten(4, (-1, 4)).permute(0, 2, 4, 3, 5, 1).flatten(0, 2).flatten(1, 2) * 2


def quarter(x):
    return x[:, x.shape[1] // 4:x.shape[1] // 2].exp() * 2


def apart(x):
    """Between zeros, as a transposed convolution has them."""
    out = x.new_zeros(x.shape[0], 2 * x.shape[1] + 1, x.shape[2])
    out[:, 1::2] = x
    return out * 3


def framed(x):
    out = x.new_full((x.shape[0] + 2, x.shape[1] + 3, x.shape[2]), -1.0)
    out[1:-1, 2:-1] = x
    return out.abs()


def two_writes(x):
    out = x.new_zeros(x.shape[0], x.shape[1] + 4, x.shape[2])
    out[:, :x.shape[1]] = x
    out[:, x.shape[1] // 2:x.shape[1] // 2 + 4] = 7
    return out + 1


CASES = {  # the model, the example's sizes, the dimensions that vary, others
    "windows": (windows, (2, 3, 6, 9), (2, 3), [(2, 3, 4, 8), (2, 3, 11, 5)]),
    "in front": (lambda x: F.pad(x, (0, 0, -x.shape[1] % 8, 0), value=2.0) * 2, (2, 5, 4), (0, 1), [(3, 8, 4), (2, 19, 4)]),
    "in front and behind": (lambda x: F.pad(x, (x.shape[1] // 2, x.shape[1] // 3)) - 1, (3, 9), (0, 1), [(5, 2), (2, 40)]),
    "a quarter": (quarter, (2, 9, 8), (0, 1), [(3, 3, 8), (2, 2, 8), (2, 40, 8)]),
    "apart": (apart, (2, 5, 4), (0, 1), [(3, 2, 4), (2, 30, 4)]),
    "framed": (framed, (2, 5, 4), (0, 1), [(3, 2, 4), (9, 30, 4)]),
    "two writes": (two_writes, (2, 5, 4), (0, 1), [(3, 2, 4), (2, 30, 4)]),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, dtype):
    model, shape, varying, others = CASES[name]
    torch.manual_seed(0)
    run = SizedModel(model, (torch.randn(shape).to(dtype),), ({d: Dim.AUTO for d in varying},))
    assert {s.generator for s in run.schedules} == {"elementwise"}
    for other in (shape, *others):
        x = torch.randn(other).to(dtype)
        assert_close_to_float64(run(x), model, (x,))


@pytest.mark.covering
@pytest.mark.parametrize("model", [
    lambda x: F.softmax(x[:, x.shape[1] // 4:x.shape[1] // 2], -1), lambda x: x[:, x.shape[1] // 3:x.shape[1] // 2].sum(1),
    lambda x: F.conv_transpose1d(x.transpose(1, 2), torch.ones(8, 3, 4), stride=2), lambda x: F.pad(x, (0, 0, 0, -x.shape[1] % 4)).amax(0),
    lambda x: torch.cat([x, x[:, :2].exp()], 1).sum(0),
], ids=["softmax of a quarter", "sums of a part", "a transposed convolution", "padded", "side by side"])
def test_no_kernel_is_left_to_the_general_generator(model):
    found = generators(model, (torch.randn(2, 9, 8),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert found and "universal" not in found
