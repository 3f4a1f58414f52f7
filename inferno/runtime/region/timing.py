"""How long each piece of a call takes: a region's function is run with a mark in front of each of its steps.

For the time of a measurement the function has another code object, with the marks; whoever holds it runs that.  On a GPU a mark is
an event on the current stream, so a piece's time goes until the GPU is done with it, waiting for the host included.
"""

import inspect
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:  # a package is explained where there is no compiler
    from inferno.runtime.region.region import Region

_LEAST_CALLS, _MOST_CALLS = 2, 20  # of which the faster half counts
_SECONDS = 1.0  # beyond so long no further call is begun
_CALLS_TOGETHER = 10  # of several processes, which must make as many

_measuring = threading.Lock()  # one measurement at a time: two would take each other's marks out


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: of all of it, and of each step of each region in it, all its runs together; means over the faster half of
    several calls.  ``steps`` has the regions that ran, in the order that they did, and ``runs`` how often they did."""

    call: float
    steps: dict[int, tuple[float, ...]]
    runs: dict[int, int]


def measure(prepare: Callable[[], Callable[[], Any]], regions: "Sequence[Region]", device: torch.device) -> Timing:
    """Time the calls that ``prepare()`` makes ready, of code that has run before, and the steps of those of the ``regions`` that run
    in them, by their numbers."""
    clock = _GpuClock(device) if device.type == "cuda" else _Clock()
    done: list[tuple[Any, list[tuple[int, Any]], Any]] = []
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    marks: list[tuple[int, Any]] = []
    with _measuring, _marked(regions, _marker(marks, clock)):
        begin = time.perf_counter()
        while (len(done) < _CALLS_TOGETHER) if together else _goes_on(len(done), time.perf_counter() - begin):
            call = prepare()
            marks.clear()
            first = clock.now()
            call()
            done.append((first, list(marks), clock.now()))
    clock.wait()
    found = [(clock.between(first, last), _steps(marks, regions, clock)) for first, marks, last in done]
    fast = sorted(found, key=lambda run: run[0])[: (len(found) + 1) // 2]
    ran = dict.fromkeys(i for _, steps in fast for i in steps)
    none = {i: [0.0] * len(regions[i].steps) for i in ran}
    steps = {i: tuple(sum(column) / len(fast) for column in zip(*(s.get(i, none[i]) for _, s in fast))) for i in ran}
    starts = [number for number, _ in done[-1][1]]
    runs = {i: starts.count(i) // (len(regions[i].steps) + 1) for i in ran}
    return Timing(sum(whole for whole, _ in fast) / len(fast), steps, runs)


def _goes_on(calls: int, seconds: float) -> bool:
    return calls < _LEAST_CALLS or (calls < _MOST_CALLS and seconds < _SECONDS)


def _steps(marks: list[tuple[int, Any]], regions: "Sequence[Region]", clock: "_Clock") -> dict[int, list[float]]:
    """Seconds of each step by region; a run of a region is as many marks as it has starts."""
    found: dict[int, list[float]] = {}
    running: list[tuple[int, list[Any], list[float]]] = []  # a step may call other regions, as torch.cond its branches: their time is theirs
    for number, now in marks:
        count = len(regions[number].steps)
        if not running or running[-1][0] != number:
            running.append((number, [], [0.0] * count))
        _, times, called = running[-1]
        times.append(now)
        if len(times) > count:
            running.pop()
            total = found.setdefault(number, [0.0] * count)
            for i in range(count):
                total[i] += clock.between(times[i], times[i + 1]) - called[i]
            if running:
                _, outer, inside = running[-1]
                inside[len(outer) - 1] += clock.between(times[0], times[-1])
    return found


def _marker(marks: list[tuple[int, Any]], clock: "_Clock") -> Callable[[int], None]:
    thread = threading.get_ident()

    def mark(number: int) -> None:
        if threading.get_ident() == thread:
            marks.append((number, clock.now()))

    return mark


@contextmanager
def _marked(regions: "Sequence[Region]", mark: Callable[[int], None]) -> Iterator[None]:
    """While this lasts the regions' functions call ``mark`` with their number at each of their starts."""
    plain: list[tuple[types.FunctionType, types.CodeType, str]] = []
    try:
        for number, region in enumerate(regions):
            function = inspect.unwrap(region.run)
            name = "mark"
            while name in region.text:
                name += "_"
            plain.append((function, function.__code__, name))
            function.__globals__[name] = mark
            function.__code__ = _marked_code(region, f"{name}({number})")
        yield
    finally:
        for function, code, name in plain:
            function.__code__ = code
            del function.__globals__[name]


def _marked_code(region: "Region", mark: str) -> types.CodeType:
    lines = region.text.splitlines()
    for start in reversed(region.starts):
        lines.insert(start, f"    {mark}")
    module = compile("\n".join(lines), "<inferno region>", "exec")
    return next(c for c in module.co_consts if isinstance(c, types.CodeType))


class _Clock:
    """The host's time."""

    def now(self) -> Any:
        return time.perf_counter()

    def between(self, first: Any, last: Any) -> float:
        return last - first

    def wait(self) -> None:
        pass


class _GpuClock(_Clock):
    """The time at which a GPU gets to a point of the current stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def now(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def between(self, first: Any, last: Any) -> float:
        return first.elapsed_time(last) / 1e3

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)
