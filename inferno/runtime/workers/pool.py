"""Worker processes that compile: MLIR can end the process that it runs in, and its bindings hold the interpreter's lock.

A worker that dies is a CompileError that names its job, and is replaced; one that cannot start is a WorkerError.  Workers
import neither torch nor the user's program, start in 0.3 s, and end with the process that started them (their input closes).
"""

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import inferno
from inferno.fork_lock import ForkLock
from inferno.errors import CompileError, WorkerError
from inferno.runtime.workers.progress import Bar
from inferno.runtime.workers.worker import read_frame, write_frame
from inferno.settings import settings

IDLE = 60.0  # seconds after which a worker without work ends: it holds 40 to 300 MB
TIMEOUT = 600.0  # seconds for one job; the longest seen is a model's fusion, under 20 s

_KILLED = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # by somebody, and not by what it compiled


class Worker:
    """One process.  Not thread-safe: the pool hands it to one job at a time."""

    def __init__(self, kind: str = "") -> None:
        self.idle_since = 0.0
        self._ready = False
        self._log = tempfile.TemporaryFile()
        self._process = start_python("inferno.runtime.workers.worker", [kind] if kind else [], self._log)

    def run(self, label: str, name: str, arguments: dict[str, Any]) -> Any:
        """The result of ``jobs.<name>(**arguments)``; ``label`` is what the job is called in an error."""
        timer = threading.Timer(TIMEOUT, self._process.kill)
        timer.start()
        try:
            write_frame(self._process.stdin, (name, arguments))
            self._ready = self._ready or bool(read_frame(self._process.stdout))
            status, value = read_frame(self._process.stdout)
        except (EOFError, BrokenPipeError) as error:
            code = self._process.wait()
            if code > 0 and not self._ready:
                raise WorkerError(f"a process that compiles cannot start (exit code {code}): {self._last_words()}") from error
            reason = f"signal {-code}" if code < 0 else f"exit code {code}"
            died = WorkerDied(f"{label}: the compiler process died ({reason}). Its last words: {self._last_words()}")
            died.lasting = -code not in _KILLED
            raise died from error
        finally:
            timer.cancel()
        if status == "failed":
            raise value
        if status in ("raised", "hindered"):
            failed = CompileError(f"{label}: {value}")
            failed.lasting = status == "raised"
            raise failed
        return value

    def close(self) -> None:
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()

    def _last_words(self) -> str:
        return last_words(self._log)


def start_python(module: str, arguments: Sequence[str], log: BinaryIO) -> subprocess.Popen:
    """A process that runs a module with the sources that this one has, its input and output pipes, what it says going to ``log``."""
    # "-P", and without the folder of the script: a file there may have the name of a module of Python's own, which would come second.
    script = {"", os.getcwd(), os.path.dirname(os.path.abspath(sys.argv[0]))} if sys.argv and not sys.flags.safe_path else set()
    given = sys.path[1:] if sys.path[:1] and sys.path[0] in script else sys.path
    folders = dict.fromkeys([*(p or os.getcwd() for p in given), str(Path(inferno.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, "-P", "-m", module, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment)


def last_words(log: BinaryIO) -> str:
    """The end of what a process said."""
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - 2000))
    return log.read().decode(errors="replace").strip() or "none"


class WorkerDied(CompileError):
    """The process that compiled ended before it answered."""


class Pool:
    """As many workers as the settings say, started when they are first needed; ``bar`` counts their jobs."""

    def __init__(self, size: int | None = None) -> None:
        self._size = size or settings().workers
        self._threads = ThreadPoolExecutor(self._size, thread_name_prefix="inferno-worker")
        self._idle: list[Worker] = []
        self._shared: dict[tuple, Future] = {}
        self._started = 0
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self.bar = Bar()

    def submit(self, label: str, name: str, **arguments: Any) -> Future:
        self.bar.add(label)
        future = self._threads.submit(self._run, label, name, arguments)
        future.add_done_callback(lambda _: self.bar.finish())
        return future

    def share(self, label: str, name: str, **arguments: Any) -> Future:
        """The same, where a job that is under way already serves for all who ask for it."""
        key = (name, tuple(sorted(arguments.items())))
        with self._lock:
            found = self._shared.get(key)
        if found is not None:
            return found
        future = self.submit(label, name, **arguments)
        with self._lock:
            self._shared[key] = future
        future.add_done_callback(lambda _: self._shared.pop(key, None))
        return future

    def warm(self, count: int, kind: str = "") -> None:
        """Start workers until there are ``count``, so that they are ready when the first job comes; a start takes 0.3 s.

        ``kind``: that of the target which they will compile for.
        """
        with self._lock:
            missing = min(count, self._size) - self._started
            self._started += max(0, missing)
        for worker in reversed([Worker(kind) for _ in range(missing)]):  # the first that was started gets the first job
            self._put_back(worker)

    def run(self, label: str, name: str, **arguments: Any) -> Any:
        return self.submit(label, name, **arguments).result()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            for worker in self._idle:
                worker.close()
            self._idle.clear()

    def _run(self, label: str, name: str, arguments: dict[str, Any]) -> Any:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
            self._started += worker is None
        worker = worker or Worker()
        try:
            result = worker.run(label, name, arguments)
        except (WorkerDied, WorkerError):
            with self._lock:
                self._started -= 1
            raise
        except BaseException:
            self._put_back(worker)
            raise
        self._put_back(worker)
        return result

    def _put_back(self, worker: Worker) -> None:
        with self._lock:
            worker.idle_since = time.monotonic()
            self._idle.append(worker)
            if self._timer is None:
                self._watch()

    def _watch(self) -> None:
        self._timer = threading.Timer(IDLE, self._retire)
        self._timer.daemon = True
        self._timer.start()

    def _retire(self) -> None:
        """End the workers that have had nothing to do for a while."""
        with self._lock:
            last = time.monotonic() - IDLE
            old = [w for w in self._idle if w.idle_since <= last]
            self._idle = [w for w in self._idle if w.idle_since > last]
            self._started -= len(old)
            self._timer = None
            if self._idle:
                self._watch()
        for worker in old:
            worker.close()


_pool: Pool | None = None
_pool_lock = ForkLock()


def pool() -> Pool:
    """The process's pool; a forked child starts its own."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = Pool()
            atexit.register(_pool.close)
        return _pool


def _forget() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget)
