"""Run many cases in a child process, which a case may end, and record each outcome at once: a sweep goes on where it stopped."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
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


def sweep(todo: list[Case], path: Path, count: int, device: str, through: str, progress: TextIO = sys.stderr) -> None:
    """Append a record for each sample of ``todo`` to ``path``: op, dtype, sample, verdict, ...; ``end`` closes a case."""
    done = {(r["op"], r["dtype"]) for r in read(path) if r["verdict"] == "end"}
    left = [c for c in todo if c not in done]
    with path.open("a") as out:
        while left:
            now, sample = None, 0
            for record in _child(left, count, device, through):
                if record["verdict"] == "begin":
                    now, sample = (record["op"], record["dtype"]), record["sample"]
                    continue
                out.write(json.dumps(record) + "\n")
                out.flush()
                if record["verdict"] == "end":
                    left.remove((record["op"], record["dtype"]))
                    now = None
                elif record["verdict"] in ("wrong", "crash"):
                    print(f"{record['op']} {record['dtype']} {record['sample']}: {record['verdict']}: {record['detail']}", file=progress)
            if now is None:  # done, or a worker is stuck, which a new child is without
                continue
            for verdict in ("crash", "end"):
                out.write(json.dumps({"op": now[0], "dtype": now[1], "sample": sample, "verdict": verdict, "detail": "the process died"}) + "\n")
            out.flush()
            print(f"{now[0]} {now[1]} {sample}: crash: the process died", file=progress)
            left.remove(now)


def _child(left: list[Case], count: int, device: str, through: str) -> Iterator[dict[str, Any]]:
    """The records that a child makes of ``left``, until it has done all or dies."""
    arguments = [sys.executable, "-m", "benchmarks.opinfo", "--child", "--samples", str(count), "--device", device, "--through", through]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        process.stdin.write(json.dumps(left))
        process.stdin.close()
        try:
            for line in process.stdout:
                if line.startswith('{"op"'):
                    yield json.loads(line)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its compiler processes too, one of which may be stuck


def child(count: int, device: str, through: str) -> None:
    """The cases on stdin, with records to stdout as they come."""
    known = operators()
    for name, dtype in json.loads(sys.stdin.read()):
        _record(name, dtype, 0, "begin")
        try:
            found = samples(known[name], getattr(torch, dtype), device, count)
        except Exception as error:
            _record(name, dtype, 0, "none", detail=f"its samples cannot be made: {error}"[:200])
            found = []
        for number, sample in found:
            _record(name, dtype, number, "begin")
            outcome = judge(name, sample, device, through)
            _record(name, dtype, number, **outcome.as_dict())
            if outcome.timed_out:
                _record(name, dtype, -1, "end")
                os._exit(0)  # without waiting for the compiler process that is stuck
        _record(name, dtype, -1, "end")


def _record(name: str, dtype: str, sample: int, verdict: str, **more: Any) -> None:
    print(json.dumps({"op": name, "dtype": dtype, "sample": sample, "verdict": verdict, **more}), flush=True)
