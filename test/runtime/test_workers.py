"""Worker processes: results, errors by class, death, and no torch."""

import importlib
import sys
import time

import pytest

from inferno.errors import CompileError, PassError, WorkerError
from inferno.runtime.workers import jobs
from inferno.runtime.workers import pool as workers
from inferno.runtime.workers.pool import Pool, WorkerDied

MODULE = "func.func @main(%a: i32) -> i32 { %c = arith.constant 0 : i32 %r = arith.addi %a, %c : i32 return %r : i32 }"


@pytest.fixture
def pool():
    pool = Pool(1)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def shared():
    """For what leaves it as it was."""
    pool = Pool(1)
    yield pool
    pool.close()


def test_a_job_runs_a_pipeline(shared):
    assert "addi" not in shared.run("test", "run", text=MODULE, pipeline="func.func(canonicalize)")


def test_our_errors_keep_their_class(shared):
    with pytest.raises(PassError, match="no-such-pass"):
        shared.run("test", "run", text=MODULE, pipeline="no-such-pass")
    assert shared.run("test", "run", text=MODULE, pipeline="cse")


def test_other_errors_name_the_job(shared):
    with pytest.raises(CompileError, match=r"the label.*Unable to parse"):
        shared.run("the label", "run", text="func.func @", pipeline="cse")


def test_a_crash_is_an_error_and_the_pool_goes_on(shared):
    shared.run("test", "run", text=MODULE, pipeline="cse")
    shared._idle[0]._process.kill()
    with pytest.raises(WorkerDied, match=r"the doomed one.*signal 9"):
        shared.run("the doomed one", "run", text=MODULE, pipeline="cse")
    assert shared.run("test", "run", text=MODULE, pipeline="cse")


def test_workers_have_the_sources_of_their_parent(tmp_path, monkeypatch, pool):
    """Not those of a folder of that name where the process happens to run."""
    (tmp_path / "inferno").mkdir()
    (tmp_path / "inferno" / "__init__.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    assert pool.run("test", "run", text=MODULE, pipeline="cse")


def test_a_script_beside_files_named_as_modules_of_python(tmp_path, monkeypatch, pool):
    """What lies beside the user's script does not come before Python's own in the processes that compile."""
    (tmp_path / "pathlib.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "script.py")])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert pool.run("test", "run", text=MODULE, pipeline="cse")


def test_processes_that_cannot_start(tmp_path, monkeypatch, pool):
    """It is said as it is, and not taken for a fault of what was to be compiled."""
    (tmp_path / "pathlib.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.setattr(sys, "path", [*sys.path[:1], str(tmp_path), *sys.path[1:]])
    with pytest.raises(WorkerError, match=r"(?s)cannot start \(exit code 1\): .*the wrong one"):
        pool.run("test", "run", text=MODULE, pipeline="cse")
    monkeypatch.undo()
    assert pool.run("test", "run", text=MODULE, pipeline="cse")


@pytest.mark.thorough
def test_workers_can_be_started_before_their_work():
    pool = Pool(2)
    try:
        pool.warm(5)
        assert len(pool._idle) == 2
        pool.run("test", "run", text=MODULE, pipeline="cse")
        pool.warm(2)
        assert len(pool._idle) == 2
        pool._idle[-1]._process.kill()
        with pytest.raises(WorkerDied):
            pool.run("test", "run", text=MODULE, pipeline="cse")
        pool.warm(2)
        assert len(pool._idle) == 2
    finally:
        pool.close()


@pytest.mark.parametrize("kind", ["nvptx", "cpu"])
def test_what_workers_load_while_they_wait_is_there(kind):
    assert len(jobs.needed(kind)) > 20
    for module in jobs.needed(kind):
        importlib.import_module(module)


@pytest.mark.thorough
def test_workers_without_work_end(monkeypatch):
    monkeypatch.setattr(workers, "IDLE", 0.3)
    pool = Pool(2)
    try:
        pool.warm(2)
        processes = [w._process for w in pool._idle]
        pool.run("test", "run", text=MODULE, pipeline="cse")
        for process in processes:
            process.wait(timeout=30)
        deadline = time.monotonic() + 30
        while pool._idle and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not pool._idle and pool._started == 0
        assert pool.run("test", "run", text=MODULE, pipeline="cse")
    finally:
        pool.close()
