"""The progress bar: there after a second where it is wanted, gone afterwards, and nothing otherwise."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from inferno.runtime.workers import progress
from inferno.runtime.workers.progress import Bar


@pytest.fixture
def wanted(monkeypatch):
    monkeypatch.setenv("INFERNO_PROGRESS", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    monkeypatch.setattr(progress, "_DELAY", 0.05)


def work(bar, seconds):
    with bar.shown():
        for _ in range(4):
            bar.add("kernel @sum for cpu")
        bar.finish()
        time.sleep(seconds)
        bar.finish()
        time.sleep(seconds)


def test_long_work_has_a_bar(wanted, capsys):
    work(Bar(), 0.3)
    out, err = capsys.readouterr()
    assert "2/4" in err and "kernel @sum for cpu" in err and not out
    assert err.rstrip("\r\n").endswith("\x1b[2K"), "the bar's line is erased"


def test_short_work_has_none(wanted, capsys):
    work(Bar(), 0)
    time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


def test_no_terminal_no_bar(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_DELAY", 0.01)
    work(Bar(), 0.05)
    monkeypatch.setenv("INFERNO_PROGRESS", "0")
    work(Bar(), 0.05)
    assert capsys.readouterr() == ("", "")


def test_threads_share_a_bar(wanted, capsys):
    bar = Bar()
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: work(bar, 0.2), range(3)))
    assert "6/12" in capsys.readouterr().err
    work(bar, 0.2)
    assert "2/4" in capsys.readouterr().err
