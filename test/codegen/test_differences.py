"""Gradients of differences of neighbours, which are made again by what picks two of each: their numbers on a simulated GPU, and one kernel."""

import pytest
import torch
from scheduled_program import assert_right, launches
from torch.nn.functional import pad


def gradient(x, of):
    """Of a function of differences along both dimensions, ``of`` each."""
    down, across = of(x[..., 1:, :] - x[..., :-1, :]), of(x[..., 1:] - x[..., :-1])
    return pad(down, (0, 0, 1, 0)) - pad(down, (0, 0, 0, 1)) + pad(across, (1, 0)) - pad(across, (0, 1))


def variation(g, x):
    return gradient(x, lambda d: torch.sign(d) * (g / 1000))


def far(g, x):
    """Differences of what lies two apart, along a row."""
    d = (x[..., 2:] - x[..., :-2]) * 0.5 + g
    return pad(d, (2, 0)) - pad(d, (0, 2))


def rolled(g, x):
    y = x * 3 + g
    return y.roll(1, -1) - y.roll(-1, -1)


def quotients(g, x):
    d = (x[..., 1:, :] - x[..., :-1, :]) / 3
    return pad(d, (0, 0, 1, 0)) - g * pad(d, (0, 0, 0, 1))


PROGRAMS = {f.__name__: f for f in (variation, far, rolled, quotients)}


@pytest.mark.covering
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(2, 9, 32), (3, 8, 13), (1, 2, 5, 70)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_right(name, shape, dtype):
    torch.manual_seed(0)
    text = assert_right(PROGRAMS[name], (torch.randn((), dtype=dtype), torch.randn(shape).to(dtype)))
    assert launches(text) == 1, text[:3000]


def test_what_others_read_stays():
    def model(g, x):
        d = torch.sign(x[..., 1:] - x[..., :-1]) * g
        return pad(d, (1, 0)) - pad(d, (0, 1)), d

    text = assert_right(model, (torch.randn(()), torch.randn(40, 64)))
    assert launches(text) == 2


def test_what_is_costly_is_made_once():
    def model(g, x):
        return gradient(x, lambda d: torch.tanh(d) * torch.exp(d * g))

    text = assert_right(model, (torch.randn(()), torch.randn(128, 512)))
    assert launches(text) > 1
