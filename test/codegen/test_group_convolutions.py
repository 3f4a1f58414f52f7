"""Convolutions in groups by the generator of implicit GEMM: numbers on the simulator, and that no step reads what is another group's."""

import pytest
import torch
from checks import assert_close_to_float64
from kernels import TARGET, build
from universal_program import Simulated
from window_cases import Case

from inferno.errors import CompileError
from inferno.mlir import idle_context, ir
from inferno.schedule.assign import kernels
from inferno.schedule.convolution.im2col import Im2col, at_size, parse_unfolded

CASES = {
    "64 of 64": (Case((2, 128, 9, 10), (64, 64, 3, 3), padding=1, inner=True), Im2col(64, 64, 3, 1)),
    "40 of 32, every second": (Case((2, 96, 9, 10), (40, 32, 3, 3), 2, 1, inner=True), Im2col(128, 32, 5, 2, row=64)),
    "24 of 80, dilated": (Case((1, 160, 7, 7), (24, 80, 3, 3), 1, 2, 2, element="f16", inner=True), Im2col(64, 24, 3, 1, row=32)),
    "one dimension": (Case((2, 96, 40), (32, 48, 4), 1, 3, inner=True), Im2col(64, 32, 3, 1, row=32)),
    "terms in parts": (Case((1, 256, 9, 9), (64, 128, 3, 3), padding=1, inner=True), Im2col(64, 64, 4, 1, split=2, persistent=False)),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    case, schedule = CASES[name]
    torch.manual_seed(0)
    inputs = case.inputs()
    found = case.result(Simulated(case.text(), lambda kernel: schedule, len(name) % 2 == 0)(*case.arguments(*inputs))[0])
    assert_close_to_float64(found, case.eager, tuple(inputs))


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_what_is_not_finite_stays_in_its_group(number):
    case = Case((2, 96, 9, 10), (40, 48, 3, 3), padding=1, epilogue=False, inner=True)
    inputs = case.inputs()
    inputs[0][1, 50, 5, 4] = number
    found = case.result(Simulated(case.text(), lambda kernel: Im2col(64, 40, 3, 1, row=32))(*case.arguments(*inputs))[0])
    wanted = case.eager(*inputs)
    assert torch.equal(found.isfinite(), wanted.isfinite()) and not wanted.isfinite().all()


@pytest.mark.parametrize("channels, rows", [(64, {128, 64, 32}), (48, {32}), (32, {64, 32}), (40, set())])
def test_steps_are_of_one_group(monkeypatch, channels, rows):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    case = Case((32, 2 * channels, 28, 28), (64, channels, 3, 3), padding=1, inner=True)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(case.text(main=False))
        kernel = kernels(module)[0]
        found = {s.row for _, s in at_size(kernel, parse_unfolded(kernel, TARGET), TARGET)}
    assert found <= rows and bool(found) == bool(rows)
    with pytest.raises(CompileError, match="is not a convolution for tensor cores"):
        build(Case((2, 2 * channels + 16, 9, 9), (64, channels + 8, 3, 3), padding=1, inner=True).text(main=False), "im2col", Im2col(64, 64, 3, 1))
