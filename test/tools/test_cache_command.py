"""inferno cache show, inferno cache clear."""

import os
import time

import pytest

from inferno.runtime.cache.store import Store
from inferno.tools.cli import main


@pytest.fixture
def filled(cache_folder):
    store = Store(cache_folder, 1 << 30)
    for i, (kind, header) in enumerate([
        ("kernel", {"name": "matmul_relu", "target": "sm_90a"}), ("kernel", {"name": "softmax", "target": "sm_90a"}),
        ("kernel", {"name": "softmax", "target": "cpu"}), ("program", {"name": "UnsupportedOperation", "target": "cpu", "failed": "no fft"}),
    ]):
        key = f"{i:040x}"
        store.write(kind, key, header, {"code": os.urandom(1000 * (i + 1))})
        os.utime(store.path(kind, key), (time.time() - 7200 * (4 - i) + 60,) * 2)
    return cache_folder


def test_show_has_a_row_for_each_kind_and_target(filled, capsys):
    assert main(["cache", "show"]) == 0
    out = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert [r[:3] for r in rows] == [["kernel", "cpu", "1"], ["kernel", "sm_90a", "2"], ["program", "cpu", "1"]]
    assert rows[1][4:] == ["5 hours ago", "7 hours ago"]
    assert f"{filled}: 4 entries, 10" in out and "of 4 GB" in out


def test_show_all_has_a_line_for_each_entry(filled, capsys):
    assert main(["cache", "show", "--all"]) == 0
    out = capsys.readouterr().out
    assert "does not compile: no fft" in out
    assert out.index("does not compile") < out.index("softmax") < out.index("matmul_relu"), "the last used first"


def test_clear_says_what_it_removed(filled, capsys):
    assert main(["cache", "clear"]) == 0
    assert f"{filled}: removed 3 kernels, 1 program: 10" in capsys.readouterr().err
    assert main(["cache", "clear"]) == 0
    assert "nothing to remove" in capsys.readouterr().err
    assert main(["cache", "show"]) == 0
    assert capsys.readouterr().out == f"{filled}: 0 entries, 0 B of 4 GB\n"


def test_settings_that_make_no_sense_name_the_variable(filled, capsys, monkeypatch):
    for name, value in (("INFERNO_CACHE_SIZE", "much"), ("INFERNO_CACHE", "yes"), ("INFERNO_WORKERS", "0")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert main(["cache", "show"]) == 2
            assert name in capsys.readouterr().err


def test_sizes(monkeypatch):
    from inferno.settings import settings

    for text, size in (("1000", 1000), ("2K", 2048), ("1.5M", 3 << 19), ("3GB", 3 << 30), ("1GiB", 1 << 30), ("0", 0)):
        monkeypatch.setenv("INFERNO_CACHE_SIZE", text)
        assert settings().cache_bytes == size
