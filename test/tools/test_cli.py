"""The ``inferno`` command: what goes to stdout, exit codes, errors."""

import pytest

from inferno.tools.cli import main

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


def test_run_checks(capsys):
    assert main(["run", "-c", "F.gelu(nn.Linear(8, 4)(torch.randn(2, 8)))", "--target", "cpu"]) == 0
    assert "right; error" in capsys.readouterr().out


def test_explain(capsys):
    assert main(["explain", "-c", "torch.sigmoid(torch.randn(64, 64) * 2)", "--target", "sm_90a"]) == 0
    out = capsys.readouterr().out
    assert "elementwise" in out and "1 kernels, 1 launches" in out


@pytest.mark.parametrize("arguments, code, message", [
    (["compile", "-c", MATMUL, "--ir", "fuse"], 2, "unknown stage 'fuse'; did you mean fused?"),
    (["compile", "-c", MATMUL, "--target", "sm_99"], 2, "unknown target 'sm_99'"),
    (["compile", "-c", "x = ("], 1, "InputError: -c: not Python"),
    (["compile"], 1, "InputError: nothing to compile"),
    (["run", "-c", "torch.lgamma(torch.randn(3))", "--target", "cpu"], 1, "UnsupportedOperation: aten.lgamma at <-c>:1"),
    (["bench", "nope"], 2, "the suites are matmul-relu"),
])
def test_errors(capsys, arguments, code, message):
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert message in captured.err and not captured.out


def test_a_bad_command_line_exits_with_2():
    with pytest.raises(SystemExit) as error:
        main(["nothing"])
    assert error.value.code == 2
