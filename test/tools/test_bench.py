"""The benchmark suites: which cases a run times, and that it goes on where it was."""

import json
import runpy
import sys

import pytest
import torch

import inferno
from benchmarks import kernel_times, runner
from benchmarks.case import Case, select
from benchmarks.limits import count_work
from benchmarks.memory_bound import selected
from benchmarks.suites import SUITES, cases_of
from inferno.errors import OptionError
from inferno.runtime.check.comparison import compare

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


def test_equal_values_of_topk_may_be_any_of_them():
    x = torch.tensor([[3.0, 1.0, 3.0, 3.0]])
    values, first, others = torch.tensor([[3.0, 3.0]]), torch.tensor([[0, 2]]), torch.tensor([[3, 2]])
    eager = selected((x,), (values, first))
    assert compare(selected((x,), (values, others)), eager, eager).right
    for wrong in ([[0, 1]], [[2, 2]]):
        assert not compare(selected((x,), (values, torch.tensor(wrong))), eager, eager).right


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


def test_time_of_kernels_that_begin_early():
    work = [("a", 10.0, 20.0), ("b", 12.0, 25.0), ("a", 30.0, 40.0), ("c", 35.0, 38.0)]
    times, idle = kernel_times.share_out(work, 2)
    assert [(t.name, t.calls, t.time) for t in times] == [("a", 1.0, 10.0), ("b", 0.5, 2.5), ("c", 0.5, 0.0)]
    assert idle == 2.5


def test_kernels_beside_estimates(monkeypatch):
    monkeypatch.setattr(kernel_times, "matmul_rate", lambda kind: 8e8)
    monkeypatch.setattr(kernel_times, "copy_bandwidth", lambda: 4e6)
    x, w = torch.randn(256, 1024, dtype=torch.bfloat16), torch.randn(1024, 512, dtype=torch.bfloat16)
    compiled = inferno.compile(lambda x, w: torch.relu(x @ w), (x, w), target="sm_90a")
    (name,) = compiled.program.kernels
    times = [kernel_times.KernelTime(name, 1.0, 5.0), kernel_times.KernelTime("other", 2.0, 3.0)]
    first, second, third = kernel_times.table_of(compiled, times, 1.0, 2).splitlines()
    assert first == "3 launches, 8.0 us and 1.0 us idle"
    assert "5.00 us" in second and "wgmma" in second and "256x1024xbf16 1024x512xbf16" in second and "other" in third
    estimate = float(second.split("(")[1].split(" estimated")[0])
    assert 0.46 < estimate < 20 and "0.46 least" in second


def test_work_of_attention_with_shared_keys_and_of_tables():
    table, last = torch.nn.Embedding(1000, 8), torch.nn.Linear(8, 8, bias=False)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.last = table, last

        def forward(self, x):
            q = self.last(self.table(x)).view(1, 4, 16, 2)
            return torch.nn.functional.scaled_dot_product_attention(q, q[:, :2], q[:, :2], enable_gqa=True)

    bytes_, flops = count_work(Model(), (torch.arange(16),), {})
    assert flops == 2 * 16 * 8 * 8 + 2 * 2 * 4 * 16 * 16 * 2
    assert bytes_ == 4 * (8 * 8 + 16 * 8) + 8 * 16


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about a machine without a GPU")
@pytest.mark.parametrize("name", ["frozen", "training_graphs", "sanitize", "counters"])
def test_a_benchmark_of_gpus_says_that_there_is_none(monkeypatch, name):
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(SystemExit, match="needs an NVIDIA GPU"):
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
