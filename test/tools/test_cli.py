"""The ``inferno`` command: what goes to stdout, exit codes, errors."""

import re

import pytest
from checks import scheduled

import inferno
from benchmarks.suites import SUITES
from inferno.tools.cli import main
from inferno.tools.expression import from_code

MATMUL = "x = torch.randn(64, 128); w = torch.randn(128, 256); torch.relu(x @ w)"


def test_compile_prints_ir_to_stdout_alone(capsys):
    assert main(["compile", "-c", MATMUL, "--ir", "fused", "--target", "cpu"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("linalg.generic") == 1 and "func.func private @" in captured.out
    assert "relu (<-c>:1)" in captured.out and "linalg" not in captured.err


def test_compile_for_a_gpu_that_is_not_here(capsys):
    assert main(["compile", "-c", MATMUL, "--ir", "ptx", "--target", "sm_90a"]) == 0
    assert ".target sm_90a" in capsys.readouterr().out


def test_verbose_prints_a_diff_for_each_pass(capsys):
    assert main(["compile", "-c", MATMUL, "--ir", "fused", "--target", "cpu", "-v"]) == 0
    err = capsys.readouterr().err
    assert "// ----- fuse-contractions" in err and "+++ fuse-contractions" in err and "no change" in err


def test_verbose_runs_the_text_once_and_shows_each_piece(capsys):
    text = "print('said'); x = torch.randn(17, 8); torch.linalg.qr(x * 2 + 1).Q.relu() * 3 - x"  # a factorisation between two programs
    assert main(["compile", "-c", text, "--ir", "fused", "--target", "cpu", "-v"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("said\n") == 1 and "said" not in captured.out
    assert captured.err.count("// ----- outline-kernels") == captured.out.count("func.func @main") == 2


def test_verbose_shows_what_passes_change_and_not_what_they_are_told(capsys):
    """docs/ir.md says which passes change this program; measured schedules and settings come to the module between two pipelines."""
    assert main(["compile", "-c", MATMUL, "--ir", "fused", "--target", "sm_90a", "-v"]) == 0
    err = capsys.readouterr().err
    changing = [name for name in re.findall(r"^\+\+\+ (\S+)$", err, re.M) if "backend-pipeline" not in name]
    assert changing == ["fold-transposes", "fuse-contractions", "outline-kernels", "assign-schedules{target=sm_90a}"]
    assert "inferno.known" not in err and "inferno.schedule = {" in err


def test_run_checks(capsys):
    assert main(["run", "-c", "F.gelu(nn.Linear(8, 4)(torch.randn(2, 8)))", "--target", "cpu"]) == 0
    assert "right; error" in capsys.readouterr().out


def test_what_the_text_prints_is_no_ir(capsys):
    assert main(["compile", "-c", "x = torch.randn(3); print('hello'); x + 1", "--target", "cpu"]) == 0
    captured = capsys.readouterr()
    assert "hello" in captured.err and "hello" not in captured.out and "func.func @main" in captured.out


@pytest.mark.parametrize("name, message", [
    ("", "it does not say which model; write"), ("None", "there is no None in it; write"),
    ("Sized", "Sized(): missing a required argument: 'size'; define get_init_inputs"), ("three", "three is int 3, which cannot be called"),
])
def test_what_is_no_model(capsys, tmp_path, name, message):
    path = tmp_path / "model.py"
    path.write_text("import torch\nthree = 3\nclass Sized(torch.nn.Module):\n    def __init__(self, size):\n        super().__init__()\n")
    assert main(["compile", f"{path}:{name}"]) == 1
    assert message in capsys.readouterr().err


def test_run_of_what_writes_to_its_input(capsys):
    """Ours, eager and float64 begin with the same; they used to run one after the other on what the one before had left."""
    assert main(["run", "-c", "x = torch.full((3,), 2.0); x.mul_(x)", "--target", "cpu"]) == 0
    assert "right; error 0.00e+00, eager's 0.00e+00" in capsys.readouterr().out


def test_explain(capsys):
    assert main(["explain", "-c", "torch.sigmoid(torch.randn(64, 64) * 2)", "--target", "sm_90a"]) == 0
    out = capsys.readouterr().out
    assert "elementwise" in out and "1 kernel, 1 launch" in out


def printed(capsys, *arguments):
    assert main(["compile", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("target, last", [("cpu", "llvm"), ("sm_90a", "ptx")])
def test_a_file_is_taken_from_the_stage_that_it_is_at(capsys, tmp_path, target, last):
    path, subject = tmp_path / "program.mlir", from_code(MATMUL)
    compiled = inferno.compile(subject.model, subject.args, target=target)
    for stage in ("torch", "linalg", "fused", "scheduled", "gpu"):
        path.write_text(compiled.ir(stage))
        assert printed(capsys, str(path), "--ir", stage, "--target", target) == path.read_text()
        assert printed(capsys, str(path), "--ir", last, "--target", target) == compiled.ir(last)


def test_a_file_is_not_taken_back(capsys, tmp_path):
    path = tmp_path / "program.mlir"
    subject = from_code(MATMUL)
    path.write_text(scheduled(subject.model, subject.args).ir("scheduled"))
    assert main(["compile", str(path), "--ir", "fused", "--target", "sm_90a"]) == 2
    assert "is at stage scheduled, behind fused; from there are scheduled, gpu, llvm, ptx, sass" in capsys.readouterr().err
    assert main(["compile", str(path), "--ir", "gpu", "--target", "cpu"]) == 1
    assert "kernel @matmul is scheduled for simt, which is not among target cpu's: library, loops" in capsys.readouterr().err
    path.write_text(printed(capsys, str(path), "--ir", "gpu", "--target", "sm_90a"))
    assert main(["compile", str(path), "--ir", "llvm", "--target", "cpu"]) == 1
    assert "its kernels are in a gpu.module, which is not of target cpu" in capsys.readouterr().err


def test_a_file_whose_sizes_vary_is_refused(capsys, tmp_path):
    path = tmp_path / "program.mlir"
    path.write_text("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}\n")
    assert main(["compile", str(path), "--target", "cpu"]) == 1
    assert "outline-kernels: a tensor's sizes are no expressions of symbols" in capsys.readouterr().err


def test_verbose_prints_the_passes_of_a_file(capsys, tmp_path):
    path = tmp_path / "program.mlir"
    path.write_text(printed(capsys, "-c", MATMUL, "--ir", "linalg", "--target", "cpu"))
    assert main(["compile", str(path), "--target", "cpu", "-v"]) == 0
    err = capsys.readouterr().err
    assert "+++ fuse-contractions" in err and "// ----- assign-schedules" not in err.partition("+++ fuse-contractions")[0]


@pytest.mark.parametrize("text, message", [
    (None, "program.mlir: No such file"),
    ("func.func @main() {\n  foo\n}\n", "program.mlir: it does not parse: line 2:3: custom op 'foo' is unknown"),
    ("func.func @other() {\n  return\n}\n", "program.mlir: it has no function @main"),
])
def test_bad_files_are_input_errors(capsys, tmp_path, text, message):
    path = tmp_path / "program.mlir"
    if text is not None:
        path.write_text(text)
    assert main(["compile", str(path)]) == 1
    captured = capsys.readouterr()
    assert message in captured.err and "InputError" in captured.err and not captured.out
    assert main(["run", str(path)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments, code, message", [
    (["compile", "-c", MATMUL, "--ir", "fuse"], 2, "unknown stage 'fuse'; did you mean fused?"),
    (["compile", "-c", MATMUL, "--target", "sm_99"], 2, "unknown target 'sm_99'"),
    (["compile", "-c", "x = ("], 1, "InputError: -c: not Python"),
    (["compile", "-c", MATMUL, "--ir", "nothing"], 2, "unknown stage 'nothing'. The stages are torch, linalg"),
    (["compile", "-c", "torch.foo(torch.randn(2))"], 1, "inferno: -c, line 1: AttributeError: module 'torch' has no attribute 'foo'"),
    (["run", "-c", "torch.randn(2, 3) @ torch.randn(2, 3)"], 1, "inferno: -c, line 1: RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
    (["compile"], 2, "inferno: nothing to compile: give -c"),
    (["compile", "none.py:Net"], 1, "InputError: none.py: no such file; expected file.py:Model"),
    (["check", "-c", MATMUL, "--target", "cpu", "--kernel", "matmul", "--out", "/proc/none"], 1, "inferno: /proc/none: No such file"),
    (["compile", "-c", MATMUL, "model.py:Net"], 2, "expected one subject, got 'model.py:Net' and the text after -c"),
    (["bench", "small", "--only", "no such case"], 2, "--only: expected a part of a case's name, got 'no such case'"),
    (["bench", "small", "--sample", "-1"], 2, "--sample: expected a number of cases, got -1"),
    (["bench", "small", "--kernels", "-3"], 2, "--kernels: expected a number of kernels, got -3"),
    (["bench", "small", "--budget", "0"], 2, "--budget: expected seconds above 0, got 0.0"),
    (["bench", "small", "--out", "/proc/none"], 1, "inferno: /proc/none: No such file"),
    (["compile", "/none/such"], 1, "InputError: /none/such: no such file or folder; expected file.py:Model"),
    (["compile", "none/such/folder"], 1, "InputError: none/such/folder: no such file or folder"),
    (["bench", "nope"], 2, "the suites are dynamic, matmul-relu"),
])
def test_errors(capsys, arguments, code, message):
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert message in captured.err and "Traceback" not in captured.err
    assert not captured.out or arguments[0] == "check"  # (which prints its tables before it writes)


@pytest.mark.parametrize("text, line", [
    ("import torch\ndef f(x:\n    return x\n", "line 2: SyntaxError: '(' was never closed"),
    ("import torch\nimport none_such\n", "line 2: ModuleNotFoundError"),
    ("import torch\nexample_inputs = torch.ones(3)\ndef f(x):\n    return x.none_such()\n", "line 4: AttributeError: 'Tensor' object has no"),
])
def test_what_a_file_does_wrong_is_told_by_its_line(capsys, tmp_path, text, line):
    path = tmp_path / "my model.py"
    path.write_text(text)
    assert main(["compile", f"{path}:f"]) == 1
    captured = capsys.readouterr()
    assert f"inferno: {path}, {line}" in captured.err and "Traceback" not in captured.err and not captured.out


@pytest.mark.parametrize("command, flag", [
    ("compile", ["--freeze"]), ("compile", ["--dtype", "bf16"]), ("run", ["--bench"]), ("run", ["--tune"]), ("run", ["--batch", "2"]),
])
def test_options_that_a_file_of_ir_does_not_have(capsys, tmp_path, command, flag):
    """They did nothing, and nobody was told."""
    path = tmp_path / "program.mlir"
    path.write_text("func.func @main() {\n  return\n}\n")
    assert main([command, str(path), *flag]) == 2
    captured = capsys.readouterr()
    assert f"{flag[0]}: {path} is IR, and the option is for a model" in captured.err and not captured.out


def test_bench_without_a_suite_lists_them(capsys):
    assert main(["bench"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(SUITES) and lines[0].startswith("dynamic ") and "linears        456 cases, " in "\n".join(lines)


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"inferno {inferno.__version__}\n"


def test_a_bad_command_line_exits_with_2():
    with pytest.raises(SystemExit) as error:
        main(["nothing"])
    assert error.value.code == 2
