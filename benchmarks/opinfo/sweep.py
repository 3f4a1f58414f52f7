"""Run many cases in a child process, which a case may end, and record each outcome at once: a sweep goes on where it stopped."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

import torch

from benchmarks.opinfo.judge import judge
from benchmarks.opinfo.samples import operators, samples

Case = tuple[str, str]


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a file; a last line that was cut off is left out."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def sweep(
    todo: list[Case], path: Path, count: int, device: str, through: str, progress: TextIO = sys.stderr, jobs: int = 1, gradients: bool = False,
    strided: bool = False,
) -> None:
    """Append a record for each sample of ``todo`` to ``path``: op, dtype, sample, verdict, ...; ``end`` closes a case.

    ``jobs`` children work side by side, each on the next case that none has begun.
    """
    done = {(r["op"], r["dtype"]) for r in read(path) if r["verdict"] == "end"}
    left = iter([c for c in todo if c not in done])
    lock = threading.Lock()

    def take() -> Case | None:
        with lock:
            return next(left, None)

    flags = [name for name, given in (("--gradients", gradients), ("--strided", strided)) if given]
    arguments = ["--samples", str(count), "--device", device, "--through", through, *flags]
    with path.open("a") as out, ThreadPoolExecutor(jobs) as pool:

        def note(record: dict[str, Any]) -> None:
            with lock:
                out.write(json.dumps(record) + "\n")
                out.flush()
                if record["verdict"] in ("wrong", "crash"):
                    print(f"{record['op']} {record['dtype']} {record['sample']}: {record['verdict']}: {record['detail']}", file=progress)

        for worker in [pool.submit(_work, take, note, arguments) for _ in range(jobs)]:
            worker.result()


def _work(take: Callable[[], Case | None], note: Callable[[dict[str, Any]], None], arguments: list[str]) -> None:
    """Cases as ``take`` gives them, by a child, and by another one where a case ends it."""
    case = take()
    while case is not None:
        with _child(arguments) as process:
            usable = True
            while case is not None and usable:
                usable = _run(process, case, note)
                case = take()


@contextlib.contextmanager
def _child(arguments: list[str]) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "benchmarks.opinfo", "--child", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its compiler processes too, one of which may be stuck


def _run(process: subprocess.Popen, case: Case, note: Callable[[dict[str, Any]], None]) -> bool:
    """Let the child run ``case`` and note its records; False if the child is of no use any more."""
    sample = 0
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(case) + "\n")
        process.stdin.flush()
    for line in process.stdout:
        if not line.startswith('{"op"'):
            continue
        record = json.loads(line)
        if record["verdict"] == "begin":
            sample = record["sample"]
            continue
        note(record)
        if record["verdict"] == "end":
            return not record.get("last", False)
    for verdict in ("crash", "end"):
        note({"op": case[0], "dtype": case[1], "sample": sample, "verdict": verdict, "detail": "the process died"})
    return False


def child(count: int, device: str, through: str, gradients: bool = False, strided: bool = False) -> None:
    """The cases on stdin, one a line, with records to stdout as they come."""
    known = operators()
    for line in sys.stdin:
        name, dtype = json.loads(line)
        _record(name, dtype, 0, "begin")
        try:
            found = samples(known[name], getattr(torch, dtype), device, count, gradients, strided)
        except Exception as error:
            _record(name, dtype, 0, "none", detail=f"its samples cannot be made: {error}"[:200])
            found = []
        for number, sample in found:
            _record(name, dtype, number, "begin")
            outcome = judge(name, sample, device, through)
            _record(name, dtype, number, **outcome.as_dict())
            if outcome.timed_out:
                _record(name, dtype, -1, "end", last=True)
                os._exit(0)  # without waiting for the compiler process that is stuck
        _record(name, dtype, -1, "end")


def _record(name: str, dtype: str, sample: int, verdict: str, **more: Any) -> None:
    print(json.dumps({"op": name, "dtype": dtype, "sample": sample, "verdict": verdict, **more}), flush=True)
