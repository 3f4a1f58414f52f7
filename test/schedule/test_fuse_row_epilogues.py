"""Kernels of a contraction and of operations on its rows compute what they did apart: on the CPU, where any such kernel runs."""

import pytest
import torch
from checks import assert_close_to_float64
from row_cases import CASES, fused, operands

from inferno.tools.ir_program import IrProgram


@pytest.mark.parametrize("name", ["layer_norm", "several", "turned", "triangle", "any"])
def test_the_same(tmp_path, name):
    args = operands(lambda *shape: torch.randn(shape).bfloat16(), 96, 36, 128)
    path = tmp_path / "rows.mlir"
    path.write_text(fused(CASES[name], args))
    program = IrProgram.read(path, "cpu")
    assert len(program.program.kernels) == 1
    found = program(*args)
    assert_close_to_float64(tuple(found) if len(found) > 1 else found[0], CASES[name], args)
