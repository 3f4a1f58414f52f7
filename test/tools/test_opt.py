"""inferno-opt's comparison of diagnostics, and what it does when MLIR ends the process."""

import os
import signal
import subprocess
import sys
import types

import pytest

import inferno.passes
from inferno.tools import opt
from inferno.tools.diagnostics import Diagnostic, mismatches

ERROR = Diagnostic("error", (2, 5), "the size 4 does not fit")


@pytest.mark.parametrize("text,found", [
    ("// expected-error@+1 {{does not fit}}\nop", [ERROR]),
    ("first\nop // expected-error {{size 4}}", [ERROR]),
    ("first\nop\n// expected-error@-1 {{size}}", [ERROR]),
    ("first\nop\n// expected-error@above {{size}}\n// expected-note@above {{see}}", [ERROR, Diagnostic("note", (2, 5), "see this")]),
    ("// expected-error@below {{size}}\nop", [ERROR]),
    ("first\nop // expected-error-re {{the size {{[0-9]+}} does}}", [ERROR]),
    ("// expected-warning@unknown {{slow}}\n// expected-remark@+1 {{good}}\nop", [Diagnostic("warning", None, "slow"), Diagnostic("remark", (3, 1), "good")]),
    ("nothing\nto say", []),
])
def test_expected(text, found):
    assert mismatches(text, found) == []


@pytest.mark.parametrize("text,found,wrong", [
    ("first\nop", [ERROR], ["unexpected error: the size 4 does not fit"]),
    ("// expected-error@+1 {{does not fit}}\nop", [], ["expected error was not produced"]),
    ("// expected-error {{does not fit}}\nop", [ERROR], ["unexpected error: the size 4 does not fit", "expected error was not produced"]),
    ("// expected-warning@+1 {{does not fit}}\nop", [ERROR], ["unexpected error: the size 4 does not fit", "expected warning was not produced"]),
    ("first\nop // expected-error {{size [0-9]}}", [ERROR], ["unexpected error: the size 4 does not fit", "expected error was not produced"]),
    ("// expected-error@+1 {{does not fit}}\nop", [ERROR, ERROR], ["unexpected error: the size 4 does not fit"]),
])
def test_not_expected(text, found, wrong):
    assert [d.message for d in mismatches(text, found)] == wrong


@pytest.fixture
def abort(monkeypatch):
    """A pass that ends the process, as MLIR does."""
    module = types.ModuleType("test_abort")
    module.abort = lambda module: os.kill(os.getpid(), signal.SIGKILL) if "@bad" in str(module) else None
    monkeypatch.setitem(sys.modules, "test_abort", module)
    monkeypatch.setitem(inferno.passes._PASSES, "abort", "test_abort:abort")


def test_a_process_that_ends_is_one_pieces_failure(abort, tmp_path, capfd):
    file = tmp_path / "in.mlir"
    file.write_text("func.func @a() { return }\n// -----\nfunc.func @bad() { return }\n// -----\nfunc.func @c() { return }\n")
    assert opt.run([str(file), "--split-input-file", "-p", "abort"]) == 1
    out, err = capfd.readouterr()
    assert "@a" in out and "@c" in out and "@bad" not in out
    assert "in.mlir:2: error: MLIR ended the process (SIGKILL) on the piece at line 2" in err


def test_torch_is_not_imported():
    code = "import sys, inferno.tools.opt, inferno.passes.manager, inferno.tools.diagnostics; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
