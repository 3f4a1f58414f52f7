"""EXPR: what becomes an input, what a parameter, and what is wrong with a bad one."""

import sys

import pytest
import torch

from inferno.errors import InputError, OptionError
from inferno.tools.expression import from_code, read_subject


def shapes(subject):
    return [tuple(a.shape) for a in subject.args]


def test_bound_tensors_are_inputs():
    subject = from_code("x = torch.randn(64, 128); w = torch.randn(128, 256); torch.relu(x @ w)")
    assert shapes(subject) == [(64, 128), (128, 256)]
    torch.testing.assert_close(subject.model(*subject.args), torch.relu(subject.args[0] @ subject.args[1]))


def test_a_bound_tensor_that_is_not_used_is_no_input():
    assert shapes(from_code("x = torch.randn(4); y = torch.randn(5); x * 2")) == [(4,)]


def test_calls_that_make_tensors_are_inputs_and_modules_keep_parameters():
    subject = from_code("torch.nn.RMSNorm(2048)(torch.randn(1, 32, 2048))")
    assert shapes(subject) == [(1, 32, 2048)]
    assert [tuple(p.shape) for p in subject.model.parameters()] == [(2048,)]


def test_operations_between_factories_stay_in_the_graph():
    subject = from_code("torch.relu(torch.randn(4, 8) @ torch.randn(8, 2))")
    assert shapes(subject) == [(4, 8), (8, 2)]


def test_conversions_of_fresh_tensors_happen_before():
    subject = from_code("F.gelu(torch.randn(4, 8).to(torch.bfloat16))")
    assert subject.args[0].dtype is torch.bfloat16 and len(subject.args) == 1
    assert next(from_code("nn.Linear(4, 4).double()(torch.randn(2, 4).double())").model.parameters()).dtype is torch.float64


@pytest.mark.parametrize("code, message", [
    ("x = (", "not Python"), ("x = 1", "must end in an expression"), ("x = torch.nothing(3); x + 1", "AttributeError"),
    ("torch.randn(3)", "computes nothing"), ("1 + 1", "1 \\+ 1, computes nothing"), ("nn.Linear", "computes nothing"),
    ("torch.relu(torch.randn(2, -3))", "torch.randn"),
])
def test_bad_text_is_an_input_error(code, message):
    with pytest.raises(InputError, match=message):
        from_code(code)


def test_files_say_what_they_lack(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("import torch\nclass Net(torch.nn.Linear):\n  def __init__(s): super().__init__(4, 2)\n")
    with pytest.raises(InputError, match="define example_inputs"):
        read_subject(f"{path}:Net")
    with pytest.raises(InputError, match="there is no Nat in it; write .*:NAME with one of Net"):
        read_subject(f"{path}:Nat")
    without = path.read_text()
    for inputs in ("torch.randn(3, 4)", "(torch.randn(3, 4),)", "lambda: torch.randn(3, 4)"):
        path.write_text(f"{without}example_inputs = {inputs}\n")
        assert shapes(read_subject(f"{path}:Net")) == [(3, 4)]


def test_nothing_is_an_error():
    with pytest.raises(OptionError, match="nothing to compile"):
        read_subject(None)


def test_a_file_imports_what_lies_beside_it(tmp_path, monkeypatch):
    """As ``python model.py`` does; and dataclasses find the module that they are in."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_model.py").write_text("factor = 3\n")
    path = tmp_path / "a model of mine.py"
    path.write_text(
        "from __future__ import annotations\nimport dataclasses\nimport torch\nfrom beside_the_model import factor\n"
        "@dataclasses.dataclass\nclass Sizes:\n    one: int = 1\n"
        "def scale(x): return x * factor * Sizes().one\nexample_inputs = torch.ones(2)\n"
    )
    subject = read_subject(f"{path}:scale")
    assert subject.model(*subject.args).tolist() == [3, 3]
