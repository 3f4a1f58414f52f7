"""The benchmark suites: which cases a run times, and that it goes on where it was."""

import json

import pytest
import torch

from benchmarks import runner
from benchmarks.case import Case, select
from benchmarks.suites import SUITES, cases_of
from inferno.errors import OptionError

CASES = [Case(f"case {i}", lambda device: (torch.relu, (torch.ones(2, device=device),), {}), core=i % 5 == 0) for i in range(20)]


def names(*arguments):
    return [c.name for c in select(CASES, *arguments)]


def test_core_and_sample():
    core = [c.name for c in CASES if c.core]
    assert names(None, None, 0, 1) == core
    sampled = names(None, None, 3, 1)
    assert set(core) < set(sampled) and len(sampled) == len(core) + 3 and sampled == names(None, None, 3, 1)
    assert any(names(None, None, 3, seed) != sampled for seed in range(2, 10))
    assert names(None, None, 100, 1) == [c.name for c in CASES]


def test_shards_are_all_cases():
    shards = [names(None, f"{i}/3", 0, 1) for i in range(3)]
    assert sorted(name for shard in shards for name in shard) == sorted(c.name for c in CASES)


@pytest.mark.parametrize("shard", ["3/3", "1", "a/2", "-1/2"])
def test_shard_errors(shard):
    with pytest.raises(OptionError, match="--shard"):
        names(None, shard, 0, 1)


@pytest.mark.parametrize("suite", SUITES)
def test_names_are_unique(suite):
    cases = cases_of(suite, 1)
    assert len({c.name for c in cases}) == len(cases)


def test_linears_core_has_all_rows_and_forms():
    core = [c.name for c in SUITES["linears"] if c.core]
    for part in ("gelu(linear)", "silu(linear) * linear", "linear + residual", " 1x", " 4x", " 16x", " 64x", " 256x", " 1024x", " 2048x", " 8192x"):
        assert any(part in name for name in core), part


def test_resume(tmp_path, monkeypatch):
    monkeypatch.setitem(runner.SUITES, "few", CASES[:2])
    path = tmp_path / runner.machine() / "few.json"
    timed = []
    original = runner._run
    monkeypatch.setattr(runner, "_run", lambda case, *a: timed.append(case.name) or original(case, *a))
    assert runner.run(runner.Run("few", str(tmp_path), only="case 0", fast=True)) == 0
    assert list(json.loads(path.read_text())["cases"]) == ["case 0"]
    assert runner.run(runner.Run("few", str(tmp_path), fast=True, resume=True)) == 0
    assert timed == ["case 0", "case 1"]
    assert sorted(json.loads(path.read_text())["cases"]) == ["case 0", "case 1"]


def test_summary_of_groups():
    times = {"device": {"eager": 4.0, "torch.compile": 3.0, "inferno": 2.0}, "cold": {"eager": 8.0, "inferno": 4.0}}
    text = runner.summarise({"a": {"times": times, "group": "g", "least": 1.0}, "b": {"times": times, "group": "g", "least": 1.0}, "c": {"error": "x"}})
    assert "g " in text and "1.50,   1.50" in text and "2.00,   2.00" in text and "0.25,   0.25" in text
