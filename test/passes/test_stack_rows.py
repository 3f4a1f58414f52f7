"""Rows that windows span, stacked as channels: all forms in one program, right against float64; which ones an estimate takes; the kernels on the simulator."""

import pytest
import torch
from checks import assert_close_to_float64
from oracle import run_module
from universal_program import Simulated

from inferno.capture import capture
from inferno.passes import stack_rows
from inferno.runtime.workers import jobs
from inferno.schedule.attributes import ATTRIBUTE, from_attribute

F = torch.nn.functional
CONVOLVE = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
# image, window, stride, padding, dilation
FORMS = [
    ((2, 3, 13, 12), (8, 3, 3, 3), 2, 1, 1),
    ((1, 3, 15, 17), (8, 3, 7, 7), 2, 3, 1),
    ((2, 1, 14, 13), (8, 1, 5, 5), 3, 2, 1),
    ((1, 3, 9, 6), (8, 3, 3, 2), (1, 3), (2, 0), 1),
    ((1, 4, 12, 9), (8, 4, 3, 3), 1, (2, 1), (2, 1)),
    ((1, 6, 8, 9), (16, 6, 3, 3), 2, 0, 1),
    ((2, 3, 9, 9), (8, 3, 5, 5), 1, 2, 1),
    ((1, 2, 5, 8, 7), (8, 2, 3, 4, 3), (1, 2, 2), (1, 2, 1), 1),
]
# The same, which stay: columns dilated, a dimension, whole channels, groups, one row.
OTHERS = [
    ((1, 3, 9, 9), (8, 3, 3, 3), 1, 1, 2),
    ((1, 3, 12), (8, 3, 3), 2, 1, 1),
    ((1, 8, 9, 9), (8, 8, 3, 3), 2, 1, 1),
    ((1, 6, 9, 9), (8, 3, 3, 3), 2, 1, 1),
    ((1, 3, 9, 9), (8, 3, 1, 3), 2, 1, 1),
]


def model(forms):
    def convolutions(*tensors):
        made = zip(forms, tensors[::2], tensors[1::2])
        return tuple(torch.relu(CONVOLVE[x.dim()](x, w, None, *form[2:], x.shape[1] // w.shape[1])) for form, x, w in made)

    return convolutions


def inputs(forms):
    return tuple(torch.randn(s).bfloat16() for form in forms for s in form[:2])


def stages(forms, args, monkeypatch, always=True):
    if always:
        monkeypatch.setattr(stack_rows, "_is_faster", lambda op, form: True)
    found = capture(model(forms), args)
    return found, jobs.fuse(jobs.lower_to_linalg(found.text)[0], "sm_90a").stages


def as_eager(found, results):
    return tuple(s.as_eager(r) for s, r in zip(found.signature.results, results))


@pytest.mark.thorough
def test_all_forms(monkeypatch):
    args = inputs(FORMS)
    found, made = stages(FORMS, args, monkeypatch)
    assert "tensor.pad %arg" not in made["fused"].split("func.func private")[0]
    assert_close_to_float64(as_eager(found, run_module(made["scheduled"], args)), model(FORMS), args)


def test_what_stays(monkeypatch):
    args = inputs(OTHERS)
    assert "arith.remui" not in stages(OTHERS, args, monkeypatch)[1]["fused"]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("image, window, stride, taken", [
    ((32, 3, 224, 224), (64, 3, 7, 7), 2, True), ((1, 3, 224, 224), (64, 3, 7, 7), 2, True), ((32, 3, 224, 224), (32, 3, 3, 3), 2, True),
    ((1, 3, 224, 224), (32, 3, 3, 3), 2, False), ((32, 3, 224, 224), (1, 3, 3, 3), 1, False),
], ids=str)
def test_the_estimate(image, window, stride, taken, monkeypatch):
    form = image, window, stride, window[2] // 2, 1
    fused = stages([form], inputs([form]), monkeypatch, always=False)[1]["fused"]
    assert ("arith.remui" in fused) == taken


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_what_is_not_finite_stays_in_its_windows(number, monkeypatch):
    x, w = inputs(FORMS[1:2])
    x[0, 1, 7, 8] = number
    found, made = stages(FORMS[1:2], (x, w), monkeypatch)
    (result,) = as_eager(found, run_module(made["scheduled"], (x, w)))
    (exact,) = model(FORMS[1:2])(x.double(), w.double())
    assert torch.equal(result.isfinite(), exact.isfinite())


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("form", [((2, 3, 20, 18), (16, 3, 7, 7), 2, 3, 1), ((2, 3, 18, 20), (16, 3, 3, 3), 2, 1, 1)], ids=["7x7", "3x3"])
def test_kernels(form, monkeypatch):
    args = inputs([form])
    found, made = stages([form], args, monkeypatch)
    assert '"wgmma"' in made["scheduled"]
    run = Simulated(made["scheduled"], lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))
    assert_close_to_float64(as_eager(found, run(*args)), model([form]), args)
