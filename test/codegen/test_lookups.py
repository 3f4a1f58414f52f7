"""Elementwise kernels that read tables: by which schedules, and how often the same part."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

from inferno.schedule.maps import elementwise
from inferno.schedule.maps.elementwise import Elementwise
from inferno.target import find_target

TARGET, F, bf16 = find_target("sm_90a"), torch.nn.functional, torch.bfloat16


def model_of(model, args, schedule=None):
    used = []

    def choose(kernel):
        used.append(elementwise.choose(kernel, TARGET))
        return schedule or used[-1]

    return SimulatedModel(model, args, choose=choose, expand=True), used[-1]


def gather(x, i):
    return x.gather(1, i)


def columns(x, i):
    """Of an odd number of rows."""
    return x.t()[i[:, 0]] * x.t()[i[:, 1]]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("model, shapes, type_, schedule", [
    (gather, [(4096, 2048)] * 2, bf16, Elementwise(512, 2, 8)), (gather, [(4096, 2048)] * 2, torch.float32, Elementwise(512, 2, 8)),
    (lambda x: F.max_pool2d(x, 3, 2, 1), [(16, 64, 112, 112)], torch.float32, Elementwise(256, 2, 2)),
    (lambda x: F.max_pool2d(x, 3, 2, 1), [(16, 64, 112, 112)], bf16, Elementwise(256, 4, 2)),
    (lambda x: F.max_pool2d(x, 3, 1, 1), [(16, 64, 112, 112)], bf16, Elementwise(256, 8)),
    (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), [(16, 64, 112, 112)], torch.float32, Elementwise(256, 4, across=4, windows=True)),
    (lambda x: F.interpolate(x, size=150, mode="bilinear"), [(16, 64, 112, 112)], bf16, Elementwise(256, 2, across=4, windows=True)),
    (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), [(16, 64, 112, 112)], torch.float32, Elementwise(256, 8, across=1, windows=True)),
])
def test_schedules(model, shapes, type_, schedule):
    x, *others = (torch.empty(s) for s in shapes)
    _, chosen = model_of(model, (x.to(type_), *(o.long() for o in others)))
    assert chosen == schedule


def test_windows_read_an_element_once():
    """Of a row two vectors have all of 4 windows but for one element."""
    model = lambda x: F.max_pool2d(x, 3, 2, 1)  # noqa: E731
    x = torch.randn(2, 3, 12, 16)
    made, _ = model_of(model, (x,), Elementwise(64, 4))
    assert made.program.gpu.count("vector.load") == 9
    assert torch.equal(made(x)[0] if isinstance(made(x), tuple) else made(x), model(x))


@pytest.mark.parametrize("schedule", [Elementwise(128, 2, 4), Elementwise(64, 4, 2), Elementwise(64, 1, 8)], ids=str)
def test_gathers(schedule):
    x, i = torch.randn(9, 70), torch.randint(0, 70, (9, 50))
    made, _ = model_of(gather, (x, i), schedule)
    assert torch.equal(made(x, i), gather(x, i))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("mode, kept", [
    ("bilinear", {"scale_factor": 2}), ("bilinear", {"size": 13, "align_corners": True}), ("bilinear", {"size": 3}), ("bicubic", {"scale_factor": 1.7}),
    ("bicubic", {"size": 13}), ("bilinear", {"scale_factor": 0.3}),
])
def test_resizing(mode, kept):
    model = lambda x: F.interpolate(x, mode=mode, **kept)  # noqa: E731
    x = torch.randn(2, 4, 7, 8)
    found = check(model_of(model, (x,))[0], model, (x,))
    assert found.right, str(found)


def test_several_points_of_odd_rows_look_up_their_own():
    args = torch.randn(7, 60), torch.randint(0, 60, (50, 2))
    made, _ = model_of(columns, args, Elementwise(64, 1, unroll=4, windows=True))
    assert torch.equal(made(*args), columns(*args))
