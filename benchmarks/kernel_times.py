"""Where the time of a model's call goes: its kernels as the GPU ran them in the call, beside what the cost model says and the limit.

A kernel that is launched early begins while the one in front of it runs, and then waits for it: what counts as its time is from when that one
ended.  What a launch leaves idle in front of it is ``idle``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.limits import copy_bandwidth, matmul_rate
from inferno.mlir import func, ir, new_context
from inferno.runtime.plan.plan import Launch
from inferno.runtime.program import Program
from inferno.runtime.report import read_schedule
from inferno.schedule import spaces
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.target import Target

_CALLS = 10


@dataclass(frozen=True)
class KernelTime:
    """Microseconds of all ``calls`` of a kernel in one call of the model, by its name."""

    name: str
    calls: float
    time: float


def kernel_times(call: Callable[[], object]) -> tuple[list[KernelTime], float]:
    """What ``call`` runs on the GPU, by name, what takes longest first, and microseconds in which nothing ran."""
    call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(_CALLS):
            call()
        torch.cuda.synchronize()
    events = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return share_out([(e.name, e.time_range.start, e.time_range.end) for e in events], _CALLS)


def share_out(work: list[tuple[str, float, float]], calls: int) -> tuple[list[KernelTime], float]:
    """The same of (name, begin, end) of what ran on one stream in so many calls."""
    found: dict[str, list[float]] = {}
    done, idle = min((begin for _, begin, _ in work), default=0.0), 0.0
    for name, begin, end in sorted(work, key=lambda w: w[1]):
        idle += max(0.0, begin - done)
        found.setdefault(name, []).append(max(0.0, end - max(begin, done)))
        done = max(done, end)
    times = [KernelTime(name, len(t) / calls, sum(t) / calls) for name, t in found.items()]
    return sorted(times, key=lambda k: -k.time), idle / calls


def table_of(compiled: Any, times: list[KernelTime], idle: float, most: int) -> str:
    """A line for each of the ``most`` kernels of a compiled module that take longest: its microseconds in one call of the model and in a launch,
    by the cost model, and at least, by the bytes that it must move and its operations; its schedule and its tensors."""
    named = {entry: found for program in compiled.programs for entry, found in _entries(program)}
    lines = [f"{sum(t.calls for t in times):.0f} launches, {sum(t.time for t in times):.1f} us and {idle:.1f} us idle"]
    for t in times[:most]:
        told = _told(*named[t.name]) if t.name in named else ""
        lines.append(f"{t.time:9.1f} = {t.calls:4.0f} x {t.time / t.calls:7.2f} us {told} {t.name[:80]}")
    return "\n".join(lines)


def _entries(program: Program) -> Iterator[tuple[str, tuple[Program, str]]]:
    """What its launches are called on the GPU, and of which kernel they are."""
    by_code = {k.code or name: name for name, k in program.kernels.items()}
    for step in program.launch_plan().steps:
        code, _, entry = step.kernel.partition("::")
        if isinstance(step, Launch) and code in by_code:
            yield entry, (program, by_code[code])


def _told(program: Program, name: str) -> str:
    """What is known of a program's kernel before it runs."""
    known = program.kernels[name]
    module = ir.Module.parse(program.stages["scheduled"], new_context())
    kernel = next(k for k in kernels(module) if k.name.value == name)
    estimate = estimate_of(kernel, program.target)
    least = max(known.flops / matmul_rate("bf16"), known.bytes / copy_bandwidth())
    generator, knobs = read_schedule(known.schedule)
    plain = [k for k in knobs.split(", ") if not k.endswith(("=false", "=0", "=1"))]
    tensors = " ".join("x".join(map(str, [*t.shape, t.element_type])) for t in kernel.type.inputs if isinstance(t, ir.RankedTensorType))
    said = "" if estimate is None else f"{estimate:.2f} estimated, "
    return f"({said}{least:.2f} least): {generator} {' '.join(plain)}; {tensors};"


def estimate_of(kernel: func.FuncOp, target: Target) -> float | None:
    """The cost model's microseconds for a kernel's schedule."""
    text = str(kernel.attributes[ATTRIBUTE])
    if 'generator = "siblings"' in text:
        return int(text.split("together = ")[1].split()[0].rstrip(",}")) / 1000
    with kernel.context, ir.Location.unknown():
        return spaces.estimate_of(kernel, from_attribute(kernel.attributes[ATTRIBUTE]), target)
