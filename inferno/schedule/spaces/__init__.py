"""All schedules that a kernel may have, for the tuner, which measures them; the cost model's own choice is one.

A generator joins by a module of its name here, with one or two functions:

* ``space(kernel, target)``: its schedules of the kernel, each with the cost model's estimate in microseconds; none for a kernel that it does
  not take, or whose sizes vary.
* ``valid(kernel, schedule, target)``: whether it generates the kernel with a schedule that is not of this run, but was measured, maybe by
  another version.  It is asked at every compile, so it looks at that one schedule alone.  Where there is no such function, schedules of the space are valid.

Estimates only say in which order schedules are worth measuring.  Where they are equal the model does not tell schedules apart: the first
stands for all of them until it turns out to be good.  The last generator, which takes every kernel, is asked where no other one has a space.
A generator without a module here is not tuned.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from inferno.mlir import func
from inferno.symbolic import Undecided
from inferno.target import Target


def space_of(kernel: func.FuncOp, target: Target, generators: list[str], own: Any) -> list[tuple[float, Any]]:
    """(estimate in microseconds, schedule) of these generators, each schedule once: ``own``, the cost model's choice, and then by estimate."""
    found: dict[Any, float] = {}
    for name in generators:
        module = find(name)
        if module is None or (found and name == generators[-1]):
            continue
        try:
            for time, schedule in module.space(kernel, target):
                found.setdefault(schedule, time)
        except Undecided:
            continue
    first = found.pop(own, min(found.values(), default=0.0))
    return [(first, own), *((time, s) for s, time in sorted(found.items(), key=lambda item: item[1]))]


def estimate_of(kernel: func.FuncOp, schedule: Any, target: Target) -> float | None:
    """The cost model's microseconds for the kernel with a schedule; None where its generator has no space, or the kernel's sizes vary."""
    module = find(schedule.generator)
    try:
        return dict((s, time) for time, s in module.space(kernel, target)).get(schedule) if module is not None else None
    except Undecided:
        return None


def is_valid(kernel: func.FuncOp, schedule: Any, target: Target) -> bool:
    """Whether the schedule's generator, if it has a space, generates the kernel with it."""
    module = find(schedule.generator)
    if module is None:
        return False
    if hasattr(module, "valid"):
        return module.valid(kernel, schedule, target)
    return any(s == schedule for _, s in module.space(kernel, target))


def find(generator: str) -> ModuleType | None:
    """The module with a generator's space; None where it has none."""
    name = f"{__name__}.{generator}"
    return import_module(name) if find_spec(name) else None
