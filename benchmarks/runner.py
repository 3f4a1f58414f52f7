"""Run a suite: compile, check against float64, time against eager and torch.compile; print a table and write JSON.

Results go to ``results/<gpu>/<suite>.json`` with the versions, the machine and the distribution of the data; what is there of a run
with the same versions stays.  The cases of a run are compiled by processes of their own first, all cores at once, to the cache on disk.

    inferno bench matmul --fast --seconds 200            # the core, and a few others, without torch.compile
    inferno bench linears --shard 3/8 --resume           # every 8th case, but for those that have a result
    inferno bench linears --shard 3/8 --tune --fast      # the same after their kernels were tuned
"""

import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import inferno
from benchmarks import kernel_times
from benchmarks.case import Case, select
from benchmarks.limits import count_work, least_time
from benchmarks.suites import SUITES, cases_of
from inferno.errors import OptionError
from inferno.runtime.files import write_whole
from inferno.runtime.report import counted
from inferno.targets.toolkit import find_tool
from inferno.tools.versus import Times, render, torch_compiled, versus

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Run:
    """Which cases of a suite are timed (see ``benchmarks.case.select``), and how: ``fast`` leaves torch.compile out; no case begins
    after ``seconds``; ``resume`` leaves out those that have a result of the same versions.  ``autotune``: torch.compile's slow search too;
    ``kernels``: so many kernels of each case that take longest are listed, ours and torch.compile's; ``tune``: kernels of which no measured
    schedule is known are tuned before they are timed.  ``budget``: seconds for which the calls of each version are timed."""

    suite: str
    out: str | None = None
    only: str | None = None
    shard: str | None = None
    sample: int = 10
    seed: int | None = None
    fast: bool = False
    seconds: float = math.inf
    resume: bool = False
    autotune: bool = False
    kernels: int = 0
    tune: bool = False
    budget: float = 0.4


def list_suites() -> None:
    """Print each suite's name, how many cases it has, and how many of these every run times."""
    for name in SUITES:
        cases = cases_of(name, 0)
        core = sum(c.core for c in cases)
        print(f"{name:14} {counted(len(cases), 'case')}{f', {core} of them always' if core < len(cases) else ''}")


def run(options: Run) -> int:
    """Run a suite and write its results; returns 1 if a case was wrong or failed."""
    begin = time.perf_counter()
    if options.suite not in SUITES:
        raise OptionError(f"unknown suite {options.suite!r}; the suites are {', '.join(SUITES)}")
    if options.kernels < 0 or not options.budget > 0:
        name, expected = ("budget", "seconds above 0") if options.kernels >= 0 else ("kernels", "a number of kernels")
        raise OptionError(f"--{name}: expected {expected}, got {getattr(options, name)}")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    seed = int(time.time()) // 3600 if options.seed is None else options.seed
    cases = select(cases_of(options.suite, seed), options.only, options.shard, options.sample, seed)
    path = (Path(options.out) if options.out else RESULTS) / machine() / f"{options.suite}.json"
    path.parent.mkdir(parents=True, exist_ok=True)  # a folder that cannot be is known before anything is timed
    kept = _kept(path)
    if options.resume:
        cases = [c for c in cases if "times" not in kept.get(c.name, {})]
    if device.type == "cuda":
        _compile_all(options, cases, seed)
    made: dict[str, dict] = {}
    print(f"{options.suite}: {len(cases)} cases, seed {seed}", file=sys.stderr)
    for case in cases:
        if time.perf_counter() - begin > options.seconds:
            print(f"{len(cases) - len(made)} cases are left after {options.seconds:.0f} s", file=sys.stderr)
            break
        torch.manual_seed(0)
        made[case.name] = result = _run(case, device, options)
        print(f"{case.name}: {result.get('error') or result['times']['check']}{_summary(result)}", file=sys.stderr, flush=True)
        write(path, {"environment": environment(), "data": "random normal, seed 0", "seed": seed, "cases": {**kept, **made}})
    print(f"wrote {path}", file=sys.stderr)
    print(render({name: Times(**r["times"]) for name, r in made.items() if "times" in r}))
    print(summarise(made))
    return int(any("error" in r or not r["times"]["right"] for r in made.values()))


def _kept(path: Path) -> dict[str, dict]:
    """The results that are there already, if they are of the same versions."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text())
    same = {k: v for k, v in found["environment"].items() if k != "date"} == {k: v for k, v in environment().items() if k != "date"}
    return found["cases"] if same else {}


# Beforehand: the way to a program is by one core, and a suite's programs are many.


def _compile_all(options: Run, cases: Sequence[Case], seed: int) -> None:
    """Fill the caches, ours and Inductor's, with the cases' programs; what fails will fail again, and say so, where it is timed.

    The configurations that Inductor chose by timing its kernels here, beside other work on the GPU, are forgotten: it times them again."""
    count = min(len(cases), max(1, (os.cpu_count() or 1) - 1), 12)
    if count < 2:
        return
    code = "import sys; from benchmarks.runner import compile_cases; compile_cases(sys.argv[1], int(sys.argv[2]), sys.argv[3] == '1', sys.argv[4:])"
    first = [sys.executable, "-c", code, options.suite, str(seed), str(int(options.fast))]
    share = str(1 + (os.cpu_count() or 1) // count)
    environment = {**os.environ, "INFERNO_WORKERS": share, "TORCHINDUCTOR_COMPILE_THREADS": share}
    processes = [
        subprocess.Popen([*first, *(c.name for c in cases[i::count])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        for i in range(count)
    ]
    for process in processes:
        process.wait()
    if not options.fast:
        from torch._inductor.runtime.cache_dir_utils import cache_dir

        for choice in Path(cache_dir()).rglob("*.best_config"):
            choice.unlink(missing_ok=True)


def compile_cases(suite: str, seed: int, fast: bool, names: Sequence[str]) -> None:
    """Compile these cases of a suite, for what that leaves in the caches; by torch.compile in the modes that do not time matmuls."""
    cases = {c.name: c for c in cases_of(suite, seed)}
    for name in names:
        try:
            with _precision(cases[name]), torch.no_grad():
                made = cases[name].make(torch.device("cuda"))
                _compile(cases[name], *made)
                torch._dynamo.reset()
                for mode in () if fast else cases[name].modes:
                    if not mode.startswith("max-autotune") or cases[name].rate in ("copy", "read"):
                        torch_compiled(made[0], mode, *made[1:])
        except Exception as error:  # it is told where the case is timed
            print(f"{name}: {error}", file=sys.stderr)


@contextmanager
def _precision(case: Case) -> Iterator[None]:
    """torch's precision of float32 matmuls as the case has it."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(case.precision or before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _compile(case: Case, model: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The compiled model, and others to time: its variants, or what it is without measured schedules, or with its sizes known."""
    if case.dynamic_shapes is None:
        compiled = inferno.compile(model, args, kwargs=kwargs, **case.options)
        if case.variants:
            return compiled, {name: inferno.compile(model, args, kwargs=kwargs, **options) for name, options in case.variants.items()}
        if not any(text for program in compiled.programs for text in program.known.values()):
            return compiled, {}
        with patch.dict(os.environ, INFERNO_TUNED="0"):
            return compiled, {"untuned": inferno.compile(model, args, kwargs=kwargs, **case.options)}
    _, example, keywords = case.example(args[0].device if args else torch.device("cuda"))
    compiled = inferno.compile(model, example, kwargs=keywords, dynamic_shapes=case.dynamic_shapes, **case.options)
    return compiled, {"static": inferno.compile(model, args, kwargs=kwargs, **case.options)}


def _run(case: Case, device: torch.device, options: Run) -> dict:
    model, args, kwargs = case.make(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    try:
        with _precision(case):
            if options.tune and case.dynamic_shapes is None:
                inferno.compile(model, args, kwargs=kwargs, tune=True, **case.options)
            begin = time.perf_counter()
            compiled, others = _compile(case, model, args, kwargs)
            seconds = time.perf_counter() - begin
            with torch.no_grad():
                compiled(*args, **kwargs)
            peak = torch.cuda.max_memory_allocated() - before if device.type == "cuda" else 0
            modes = () if options.fast else (*case.modes, "max-autotune, graphs") if options.autotune else case.modes
            times = versus(model, compiled, args, kwargs, modes, case.check, options.budget, others=others, seen=case.seen, unit=case.unit)
            limit = _limit(case, model, args, kwargs, device)
            if options.kernels and device.type == "cuda":
                _print_kernels(compiled, model, args, kwargs, options)
    except Exception as error:  # one case that fails must not lose the others' numbers
        return {"error": f"{type(error).__name__}: {error}"[:2000]}
    report = compiled.explain()
    return {
        "times": times.as_dict(), "kernels": len(report.rows), "launches": report.launches, "compile_seconds": seconds,
        "workspace_bytes": report.workspace, "peak_bytes": peak, "generators": sorted({r.generator for r in report.rows}),
        "group": case.group, "core": case.core, **limit,
    }


def _print_kernels(compiled: Any, model: Any, args: tuple, kwargs: dict[str, Any], options: Run) -> None:
    """The kernels that take longest, of ours and of torch.compile's."""
    with torch.no_grad():
        times, idle = kernel_times.kernel_times(lambda: compiled(*args, **kwargs))
        print(kernel_times.table_of(compiled, times, idle, options.kernels), flush=True)
        other = None if options.fast else torch_compiled(model, "torch.compile", args, kwargs)
        if other is not None:
            times, idle = kernel_times.kernel_times(other)
            print(f"torch.compile: {sum(t.calls for t in times):.0f} launches, {sum(t.time for t in times):.1f} us and {idle:.1f} us idle")
            for t in times[: options.kernels]:
                print(f"{t.time:9.1f} = {t.calls:4.0f} x {t.time / t.calls:7.2f} us  {t.name[:110]}", flush=True)


def _limit(case: Case, model: Any, args: tuple, kwargs: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """What the case costs at least, for those that are held against it."""
    if case.rate is None or device.type != "cuda":
        return {}
    bytes_, flops = count_work(model, args, kwargs)
    bytes_ = bytes_ if case.moved is None else case.moved
    least, limit = least_time(case.rate, bytes_, flops)
    return {"bytes": bytes_, "flops": flops, "least": least, "limit": limit}


# What comes of it.


_OURS = ("inferno", "untuned", "static", "defaults")


def _ratios(result: dict) -> dict[str, float]:
    """The fastest of the others by ours, and the share of the limit; of a call, of the device's time, and with the L2 flushed.  ``untuned``: the
    second of them by ours without measured schedules."""
    found = {}
    for kind in ("call", "device", "cold"):
        times = result.get("times", {}).get(kind, {})
        ours, others = times.get("inferno"), [t for name, t in times.items() if name not in _OURS]
        if ours and others:
            found[kind] = min(others) / ours
            if kind == "device":
                found["untuned"] = min(others) / times.get("untuned", ours)
            if "least" in result:
                found[f"{kind} share"] = result["least"] / ours
    return found


def _summary(result: dict) -> str:
    ratios = _ratios(result)
    times = result.get("times", {})
    parts = [f"{times[k]['inferno']:.1f} us {k}, {ratios[k]:.2f} x" for k in ("call", "device", "cold") if k in ratios]
    if "cold share" in ratios:
        parts.append(f"{ratios['cold share']:.0%} of {result['limit']}")
    return "".join(f"; {p}" for p in parts)


def summarise(results: dict[str, dict]) -> str:
    """A line for each group of cases: how many, and the geometric mean and the least of each ratio (see ``_ratios``)."""
    groups: dict[str, list[dict[str, float]]] = {}
    for result in results.values():
        if result.get("group") and _ratios(result):
            groups.setdefault(result["group"], []).append(_ratios(result))
    if not groups:
        return ""
    kinds = ("call", "untuned", "device", "cold", "call share", "device share", "cold share")
    lines = [f"{'fastest other / ours: mean, least':34}{'cases':>6}" + "".join(f"{k:>20}" for k in kinds)]
    for group, ratios in groups.items():
        cells = []
        for kind in kinds:
            values = [r[kind] for r in ratios if kind in r]
            mean = math.exp(sum(map(math.log, values)) / len(values)) if values else 0.0
            cells.append(f"{mean:12.2f}, {min(values):6.2f}" if values else "")
        lines.append(f"{group:34}{len(ratios):6}" + "".join(f"{c:>20}" for c in cells))
    return "\n".join(lines)


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
    write_whole(path, json.dumps(value, indent=1, sort_keys=True).encode())
