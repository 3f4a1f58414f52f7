"""The tuner on a GPU that is made up: what it keeps, what a candidate can do to it, and that it goes on where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from fake_gpu import made_up_time

import inferno
from inferno.runtime import database
from inferno.runtime.cache.versions import versions
from inferno.runtime.database import own_folder, read
from inferno.runtime.launch.executable import templates
from inferno.runtime.workers.pool import pool
from inferno.target import find_target
from inferno.tune import gpu, measurer, search, tuner

TARGET = find_target("sm_90a")
PROGRAM = """
#map = affine_map<(a, b) -> (a, b)>
func.func @main(%x: tensor<512x300xf32>) -> tensor<512x300xf32> {
  %e = tensor.empty() : tensor<512x300xf32>
  %0 = call @exp(%x, %e) : (tensor<512x300xf32>, tensor<512x300xf32>) -> tensor<512x300xf32>
  return %0 : tensor<512x300xf32>
}
func.func private @exp(%x: tensor<512x300xf32>, %o: tensor<512x300xf32>) -> tensor<512x300xf32> {
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<512x300xf32>)
      outs(%o : tensor<512x300xf32>) {
  ^bb0(%a: f32, %b: f32):
    %y = math.exp %a : f32
    linalg.yield %y : f32 } -> tensor<512x300xf32>
  return %0 : tensor<512x300xf32>
}
"""


@cache
def read_problem():
    """The kernel of the program, and its key."""
    fused = pool().run("test", "fuse", text=PROGRAM, target=TARGET.name, stage="fused")
    return fused.keys["exp"], pool().run("test", "tuning_problem", text=fused.kernels["exp"], key=fused.keys["exp"], target=TARGET.name)


@pytest.fixture
def folder(tmp_path, monkeypatch, cache_folder):
    """Where the made-up GPU reads and writes; no results come with Inferno."""
    monkeypatch.setenv("FAKE_GPU", str(tmp_path))
    monkeypatch.setattr(database, "SHIPPED", tmp_path / "none")
    return tmp_path


def measurers(count=1):
    return [measurer.Measurer(i, "fake_gpu:FakeGpu") for i in range(count)]


def tune():
    """The kernel's entry, if it has one then."""
    key, problem = read_problem()
    assert not problem.refused and len(problem.candidates) > 10
    done = tuner.tune({key: problem}, measurers(), "Fake", TARGET)
    found = read(own_folder() / "Fake.json").get(TARGET.name, {})
    assert done == len(found)
    return found.get(key)


def log(folder, kind):
    path = folder / "log"
    return [line.split()[1] for line in path.read_text().splitlines() if line.split()[0] == kind] if path.exists() else []


def time_of(schedule):
    _, problem = read_problem()
    _, plan = pool().run("test", "build_alone", text=problem.with_schedule(schedule), alone=problem.alone, target=TARGET.name)
    return made_up_time(plan)


def trouble(folder, **kinds):
    (folder / "trouble").write_text(json.dumps(kinds))


def test_the_best_is_kept(folder):
    entry = tune()
    assert entry.kernel == "exp" and entry.measured > 5
    assert entry.time == pytest.approx(time_of(entry.schedule)) and entry.model_time == pytest.approx(time_of(entry.model))
    times = [time for _, time in entry.runners_up]
    assert len(times) == 6 and times == sorted(times) and times[0] >= entry.time
    assert len(log(folder, "start")) == 1 and log(folder, "prepare") == ["exp"], "one process, which computes the reference once"
    assert len(set(log(folder, "measure"))) == len(log(folder, "measure")), "equal code is measured once"
    again = log(folder, "again")
    assert len(again) == 3 * len(set(again)) and again[: len(set(again))] == again[len(set(again)) : 2 * len(set(again))], "in turns"
    assert not list(own_folder().rglob("*.jsonl"))
    # The made-up GPU likes the model's choice best, and others as much: it stays unless another one is clearly better.
    assert "threads = 256" in entry.model and entry.schedule == entry.model and entry.time == entry.model_time


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("kind, starts", [("wrong", 1), ("die", 2), ("break", 2)])
def test_candidates_that_fail_do_not_count(folder, kind, starts, caplog):
    caplog.set_level("INFO", "inferno")
    trouble(folder, **{"256": kind})
    entry = tune()
    assert "threads = 256" in entry.model and entry.model_time is None and "threads = 256" not in entry.schedule
    assert len(log(folder, "start")) >= starts and log(folder, "prepare") == ["exp"] * len(log(folder, "start"))
    said = {"wrong": "its result is wrong", "die": "signal 11", "break": "an illegal memory access"}[kind]
    assert said in caplog.text


def test_a_candidate_that_hangs_is_ended(folder, monkeypatch, caplog):
    caplog.set_level("INFO", "inferno")
    monkeypatch.setattr(measurer, "MEASURE", 1.0)
    trouble(folder, **{"128": "hang"})
    begin = time.monotonic()
    entry = tune()
    hung = len(log(folder, "start")) - 1
    assert entry is not None and hung >= 1 and time.monotonic() - begin < 30
    assert "did not end within 1 s" in caplog.text


def test_nothing_is_kept_where_nothing_works(folder, caplog):
    trouble(folder, **{str(n): "wrong" for n in (64, 128, 256, 512)})
    assert tune() is None
    assert "none of" in caplog.text and "is kept" in caplog.text


def test_a_kernel_that_cannot_be_prepared_is_left(folder, caplog, monkeypatch):
    monkeypatch.setenv("FAKE_GPU", str(folder / "nowhere"))
    assert tune() is None
    assert "kernel @exp cannot be measured" in caplog.text


RESUMED = """
import sys
sys.path[:0] = [{test!r}, {test!r} + "/tune"]
import test_tuner
from inferno.tune import records
records.versions = lambda: {versions!r}
key, problem = test_tuner.read_problem()
test_tuner.tuner.tune({{key: problem}}, test_tuner.measurers(), "Fake", test_tuner.TARGET)
"""


@pytest.mark.thorough
def test_it_goes_on_where_it_was_killed(folder):
    trouble(folder, seconds=0.1)
    test = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = RESUMED.format(test=test, versions=versions())  # even while somebody changes Inferno's files
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while not any(len(p.read_text().splitlines()) >= 4 for p in own_folder().rglob("*.jsonl")):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    path, = own_folder().rglob("*.jsonl")
    with open(path, "a") as file:
        file.write('{"schedule": "cut o')  # as if it had been killed while writing
    kept, before = [json.loads(line) for line in path.read_text().splitlines()[1:-1]], log(folder, "measure")
    (folder / "log").unlink()
    trouble(folder)
    entry = tune()
    assert entry.measured >= len(kept) >= 3
    assert len(set(before) & set(log(folder, "measure"))) <= len(before) - len(kept), "only what was under way is measured again"


def test_results_of_other_versions_are_not_resumed(folder):
    key, problem = read_problem()
    (own_folder() / "Fake").mkdir(parents=True)
    line = {"schedule": problem.candidates[3].schedule, "time": 0.001, "failure": ""}
    (own_folder() / "Fake" / f"sm_90a-{key}.jsonl").write_text(json.dumps({"versions": "others"}) + "\n" + json.dumps(line) + "\n")
    assert tune().time > 1


@pytest.mark.thorough
def test_several_gpus_share_the_kernels(folder):
    _, problem = read_problem()
    trouble(folder, seconds=0.02)
    assert tuner.tune({f"{i:040x}": problem for i in range(3)}, measurers(2), "Fake", TARGET) == 3
    assert sorted(log(folder, "start")) == ["0", "1"] and len(log(folder, "prepare")) == 3
    assert len(read(own_folder() / "Fake.json")["sm_90a"]) == 3


@pytest.fixture
def fake(folder, monkeypatch):
    """As if the made-up GPU were here."""
    monkeypatch.setattr(database, "gpus_of", lambda target: [torch.device("cuda", 0)] if target == TARGET else [])
    monkeypatch.setattr(database, "multiprocessors", lambda device: TARGET.multiprocessors)
    for module in (database, tuner):
        monkeypatch.setattr(module, "gpu_name", lambda device: "Fake")
    monkeypatch.setattr(tuner, "Measurer", lambda index: measurer.Measurer(index, "fake_gpu:FakeGpu"))


def test_compiling_tunes_what_is_not_known(folder, fake, monkeypatch):
    monkeypatch.setattr(search, "MOST", 4)
    trouble(folder, **{"256": "wrong"})
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU()).eval()
    x = torch.randn(32, 64)
    plain = inferno.compile(model, x, target="sm_90a").ir("scheduled")
    tuned = inferno.compile(model, x, target="sm_90a", tune=True)
    entries = read(own_folder() / "Fake.json")["sm_90a"]
    assert len(entries) == len(tuned.program.kernels) == 1
    entry, = entries.values()
    assert entry.schedule in tuned.ir("scheduled") and tuned.ir("scheduled") != plain
    assert inferno.compile(model, x, target="sm_90a").ir("scheduled") == tuned.ir("scheduled"), "known to every later compile"
    count = len(log(folder, "measure"))
    assert inferno.compile(model, x, target="sm_90a", tune=True).ir("scheduled") == tuned.ir("scheduled")
    assert len(log(folder, "measure")) == count, "and not measured again"


def test_what_cannot_be_tuned_is_compiled(folder, fake, caplog):
    caplog.set_level("INFO", "inferno")
    table, index = torch.randn(100, 16), torch.randint(0, 100, (8,))
    compiled = inferno.compile(lambda t, i: t[i] * 2, (table, index), target="sm_90a", tune=True)
    assert compiled.program.kernels and "is not tuned: what it reads or writes depends on data" in caplog.text
    assert not log(folder, "measure")


def test_all_that_a_call_gets_is_poisoned(monkeypatch):
    made = []
    monkeypatch.setattr(torch, "empty_like", lambda t: made.append(torch.zeros(t.shape, dtype=t.dtype)) or made[-1])
    gpu._poison(SimpleNamespace(templates=templates(64, [(3, 2)], [torch.float32], torch.device("cpu"))))
    assert (made[0] == 0xFF).all() and made[1].isnan().all() and len(made) == 2
