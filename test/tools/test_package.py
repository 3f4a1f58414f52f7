"""The shell commands on packages."""

import pytest
import torch

import inferno
from inferno.tools.cli import main
from inferno.tools.package import example_call


@pytest.fixture(scope="module")
def compiled():
    def function(x, pair, *, ids, keep, flag=3):
        return torch.where(keep, x * pair[0], pair[1]) + ids * flag

    args = torch.randn(4, 4), (torch.randn(4), torch.randn(4, 4).bfloat16())
    return inferno.compile(function, args, kwargs={"ids": torch.arange(4), "keep": torch.ones(4, dtype=torch.bool), "flag": 3}, target="sm_90a")


@pytest.fixture(scope="module")
def path(compiled, tmp_path_factory):
    path = tmp_path_factory.mktemp("packages") / "net.inferno"
    compiled.save(path)
    return str(path)


def test_explain_and_stages(compiled, path, capsys):
    assert main(["explain", path]) == 0
    assert "1 kernel, 1 launch" in capsys.readouterr().out
    for stage in ("fused", "ptx"):
        assert main(["compile", path, "--ir", stage]) == 0
        assert capsys.readouterr().out == compiled.ir(stage)


def test_what_cannot_be(path, capsys, tmp_path):
    for command, *flag in (("explain", "--target", "sm_80"), ("run", "--freeze"), ("compile", "--dtype", "bf16"), ("explain", "--batch", "2")):
        assert main([command, path, *flag]) == 2
        assert f"{flag[0]}: {path} is compiled already" in capsys.readouterr().err
    for command in ("check", "tune"):
        assert main([command, path]) == 1
        assert f"{path} is compiled already" in capsys.readouterr().err
    assert main(["explain", str(tmp_path / "missing.inferno")]) == 1
    assert "missing.inferno: No such file" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert main(["run", path]) == 1
        assert "there is no GPU here" in capsys.readouterr().err


def test_an_example_call_fits(compiled):
    args, kwargs = example_call(compiled.program.signature, torch.device("cpu"))
    tensors = compiled.program.signature.arguments_of(args, kwargs)
    for argument, tensor in zip(compiled.program.signature.arguments, tensors):
        assert tuple(tensor.shape) == argument.shape and tensor.dtype is argument.dtype
