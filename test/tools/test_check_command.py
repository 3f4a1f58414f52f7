"""``inferno check``: tables, exit status, and the files of a kernel, which run and compare themselves."""

import dataclasses
import runpy

import pytest
import torch

from inferno.errors import InputError
from inferno.runtime.compile import compile
from inferno.runtime.module import CompiledModule
from inferno.tools.check_command import check
from inferno.tools.cli import main
from inferno.tools.expression import from_code
from inferno.tools.ir_program import IrProgram

CODE = "torch.nn.Sequential(nn.LayerNorm(40), nn.Linear(40, 16), nn.Softmax(-1))(torch.randn(8, 40))"


@pytest.mark.thorough
def test_a_right_model_and_a_kernel_that_is_asked_for(tmp_path, capsys):
    assert main(["check", "-c", CODE, "--target", "cpu", "--kernel", "matmul_addf", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "output" in out and "matmul_addf" in out and "right" in out and "OFF" not in out and "WRONG" not in out
    text = (tmp_path / "matmul_addf.py").read_text()
    assert 'torch.einsum("ac,bc->ab", a0, a1)' in text and "def matmul_addf(a0: Tensor" in text
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tmp_path / "matmul_addf.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert not ended.value.code and out.startswith("right"), out
    ir = str(tmp_path / "matmul_addf.mlir")
    assert main(["run", ir, "--target", "cpu"]) == 0
    assert "1 kernel on cpu, gives (8, 16) float32; right" in capsys.readouterr().out
    assert main(["compile", ir, "--target", "sm_90a", "--ir", "scheduled"]) == 0
    assert "inferno.schedule" in capsys.readouterr().out
    assert main(["check", "-c", CODE, "--target", "cpu", "--kernel", "matmull"]) == 2
    assert "no kernel 'matmull'; the kernels are" in capsys.readouterr().err


def test_results_in_float8(capsys):
    """Of which torch cannot say whether they are finite."""
    assert main(["check", "-c", "(torch.randn(8, 40) * 2).to(torch.float8_e4m3fn)", "--target", "cpu"]) == 0
    assert "right" in capsys.readouterr().out


def test_a_fault_is_found_and_its_kernel_written(tmp_path, capsys):
    subject = from_code(CODE)
    compiled = compile(subject.model, subject.args, target="cpu")
    program = compiled.program
    kernel = program.kernels["reduce_addf"]
    wrong = dataclasses.replace(kernel, llvm=kernel.llvm.replace("llvm.fadd", "llvm.fsub"))
    assert wrong.llvm != kernel.llvm
    broken = CompiledModule(dataclasses.replace(program, kernels={**program.kernels, "reduce_addf": wrong}), compiled.device, 0.0)
    assert check(subject, broken, None, str(tmp_path)) == 1
    out = capsys.readouterr().out
    assert "WRONG: the first kernel that is off is @reduce_addf" in out
    assert {p.name for p in tmp_path.iterdir()} == {"reduce_addf.mlir", "reduce_addf.py"}
    rows = [line for line in out.splitlines() if "│" in line and "OFF" in line]
    assert any("reduce_addf " in row for row in rows) and not any("softmax" in row for row in rows), rows


@pytest.mark.thorough
def test_the_pytorch_program_tells_a_change_of_the_ir(tmp_path, capsys):
    assert main(["check", "-c", CODE, "--target", "cpu", "--kernel", "subf_exp", "--out", str(tmp_path)]) == 0
    ir = tmp_path / "subf_exp.mlir"
    ir.write_text(ir.read_text().replace("arith.subf", "arith.addf"))
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tmp_path / "subf_exp.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert ended.value.code is True and out.startswith("WRONG: result 0: error"), out  # True is exit status 1


def test_ir_as_something_to_call(tmp_path):
    path = tmp_path / "double.mlir"
    path.write_text("""
        func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
          %e = tensor.empty() : tensor<3x4xf32>
          %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
              iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) {
          ^bb0(%a: f32, %o: f32):
            %s = arith.addf %a, %a : f32
            linalg.yield %s : f32
          } -> tensor<3x4xf32>
          return %0 : tensor<3x4xf32>
        }""")
    program = IrProgram.read(path, "cpu")
    x = torch.randn(4, 3).t()
    torch.testing.assert_close(program(x)[0], 2 * x)
    assert program.check([x]).right
    with pytest.raises(InputError, match=r"argument 0: expected \(3, 4\) torch.float32, got \(4, 3\)"):
        program(torch.randn(4, 3))
    with pytest.raises(InputError, match="expected 1 tensors, got 0"):
        program()
    with pytest.raises(InputError, match=r"nothing\.mlir: No such file"):
        IrProgram.read(tmp_path / "nothing.mlir", "cpu")
