"""Run a suite: compile, check against float64, time against eager and torch.compile; print a table and write JSON.

Results go to ``results/<gpu>/<suite>.json`` with the versions, the machine and the distribution of the data.
"""

import importlib.metadata
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import torch

import inferno
from benchmarks.suites import SUITES, Case
from inferno.errors import OptionError
from inferno.targets.toolkit import find_tool
from inferno.tools.versus import Times, render, versus

RESULTS = Path(__file__).parent / "results"


def run(suite: str | None, out: str | None = None, only: str | None = None) -> int:
    """Run ``suite`` and write its results; returns 1 if a case was wrong or failed."""
    if suite not in SUITES:
        raise OptionError(f"{'no suite given' if suite is None else f'unknown suite {suite!r}'}; the suites are {', '.join(SUITES)}")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cases = [c for c in SUITES[suite] if only is None or only in c.name]
    results, times = {}, {}
    path = (Path(out) if out else RESULTS) / machine() / f"{suite}.json"
    for case in cases:
        torch.manual_seed(0)
        results[case.name] = result = _run(case, device)
        print(f"{case.name}: {result.get('error') or result['times']['check']}", file=sys.stderr, flush=True)
        if "times" in result:
            times[case.name] = Times(**result["times"])
        write(path, {"environment": environment(), "data": "random normal, seed 0", "cases": results})
    print(f"wrote {path}", file=sys.stderr)
    print(render(times))
    return int(any("error" in r or not r["times"]["right"] for r in results.values()))


def _run(case: Case, device: torch.device) -> dict:
    model, args, kwargs = case.make(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    try:
        begin = time.perf_counter()
        others = {}
        if case.dynamic_shapes is None:
            compiled = inferno.compile(model, args, kwargs=kwargs)
        else:
            _, example, keywords = case.example(device)
            compiled = inferno.compile(model, example, kwargs=keywords, dynamic_shapes=case.dynamic_shapes)
            others["static"] = inferno.compile(model, args, kwargs=kwargs)
        seconds = time.perf_counter() - begin
        with torch.no_grad():
            compiled(*args, **kwargs)
        peak = torch.cuda.max_memory_allocated() - before if device.type == "cuda" else 0
        times = versus(model, compiled, args, kwargs, case.modes, others=others)
    except Exception as error:  # one case that fails must not lose the others' numbers
        return {"error": f"{type(error).__name__}: {error}"[:2000]}
    report = compiled.explain()
    return {
        "times": times.as_dict(), "kernels": len(report.rows), "launches": report.launches, "compile_seconds": seconds,
        "workspace_bytes": report.workspace, "peak_bytes": peak, "generators": sorted({r.generator for r in report.rows}),
    }


def machine() -> str:
    """A folder's name for this machine: the GPU's, or the CPU's architecture."""
    return torch.cuda.get_device_name().replace(" ", "-") if torch.cuda.is_available() else f"cpu-{platform.machine()}"


def environment() -> dict:
    """What the numbers depend on."""
    versions = {}
    for package in ("torch", "torch-mlir", "llvmlite", "transformers", "triton"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    gpu = {}
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        gpu = {"name": properties.name, "multiprocessors": properties.multi_processor_count, "cuda": torch.version.cuda}
    return {
        "versions": versions, "python": platform.python_version(), "gpu": gpu, "cpu_cores": os.cpu_count(),
        "ptxas": find_tool("ptxas") is not None, "date": time.strftime("%Y-%m-%d"),
    }


def write(path: Path, value: dict) -> None:
    """Write JSON so that a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
        json.dump(value, file, indent=1, sort_keys=True)
    os.replace(file.name, path)
