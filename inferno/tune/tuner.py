"""Measure the schedules of kernels on the live GPU, and keep the best.

Each kernel that has no entry in the database is searched (``search``) while workers compile what comes next; every GPU of the model that is
here takes a kernel at a time (``measurer``).  In the end the best few and the cost model's choice are timed once more, longer, and what comes out
best is the kernel's entry.  Killed at any time, it goes on where it was (``records``).
"""

import contextlib
import logging
import queue
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from filelock import FileLock, Timeout

from inferno.errors import InfernoError, TuneError
from inferno.runtime.cache.cache import make_key
from inferno.runtime.cache.versions import versions
from inferno.runtime.database import Entry, add, gpu_name, known_schedules, own_folder, require_gpus
from inferno.runtime.workers.pool import pool
from inferno.runtime.workers.tuning import Candidate, Problem
from inferno.settings import settings
from inferno.target import Target
from inferno.tune.child import Died, Unusable
from inferno.tune.display import Display
from inferno.tune.measurer import Measurement, Measurer
from inferno.tune.records import Records
from inferno.tune.search import GAIN, Search
from inferno.tune.suspects import Suspects

log = logging.getLogger(__name__)

_FINALISTS, _TURNS = 6, 3  # the best ones are timed again, so often
_UNLIKELY = 4
"""Times the estimate of the model's choice, where that was never timed, beyond which another's time is no reason to take that one instead: 1024x3584x3584
with a float32 result took 3014 us by CUDA cores, where tensor cores, whose sums the check of a float32 result refuses, take 40."""
_RUNNERS_UP = 6  # kept in an entry: cuBLASLt has four, which some compiles must do without


def tune_kernels(texts: Mapping[str, str], keys: Mapping[str, str], target: Target) -> bool:
    """Tune those kernels of which nothing is known; whether there is something new.

    ``texts`` are their modules at the ``scheduled`` stage and ``keys`` what they are found by, both by name.  TuneError where there is no GPU of the
    target, or the results cannot be kept.
    """
    gpus = require_gpus(target)
    gpu = gpu_name(gpus[0])
    known = known_schedules(target, elsewhere=False)
    missing = {key: name for name, key in keys.items() if key not in known}
    futures = {key: pool().submit(f"kernel @{name}", "tuning_problem", text=texts[name], key=key, target=target.name) for key, name in missing.items()}
    problems = {}
    for key, future in futures.items():
        try:
            problem = future.result()
        except InfernoError as error:  # a worker died of it: it is compiled without
            log.warning("kernel @%s is not tuned: %s", missing[key], error)
            continue
        if problem.refused:
            log.info("@%s is not tuned: %s", problem.name, problem.refused)
        else:
            problems[key] = problem
    if not problems:
        return False
    measurers = [Measurer(d.index) for d in gpus if gpu_name(d) == gpu][: len(problems)]
    try:
        return tune(problems, measurers, gpu, target) > 0
    except OSError as error:
        raise TuneError(f"the results of tuning cannot be kept in {own_folder()}: {error}; set INFERNO_CACHE_DIR to another folder") from error


def tune(problems: Mapping[str, Problem], measurers: Sequence[Measurer], gpu: str, target: Target) -> int:
    """Tune the problems, by key, each measurer one at a time; how many have an entry now."""
    folder = own_folder()
    waiting: queue.SimpleQueue[tuple[str, Problem]] = queue.SimpleQueue()
    several = len(measurers) > 1  # then what takes long is not to begin last
    for item in sorted(problems.items(), key=lambda item: -item[1].candidates[0].estimate) if several else problems.items():
        waiting.put(item)
    stop, suspects = threading.Event(), Suspects()
    display = Display(len(problems))
    ahead = max(2, settings().workers // len(measurers))

    def work(measurer: Measurer) -> int:
        done = 0
        while not stop.is_set():
            try:
                key, problem = waiting.get_nowait()
            except queue.Empty:
                break
            records = Records(folder / gpu, target.name, key)
            with _held(records.lock, stop) as held:
                if not held:
                    break
                entry = None
                if key in known_schedules(target, elsewhere=False):  # another process was faster
                    done += 1
                elif (entry := _tune(problem, measurer, records, display, stop, ahead, suspects)) is not None:
                    add(folder / f"{gpu}.json", target.name, {key: entry})
                    records.remove()
                    done += 1
            display.finish()
        return done

    def alone(measurer: Measurer) -> int:
        """While no other process tunes on this GPU, which would disturb the times."""
        with _held(folder / gpu / f"device-{measurer.device}.lock", stop) as held:
            try:
                return work(measurer) if held else 0
            finally:
                measurer.close()

    (folder / gpu).mkdir(parents=True, exist_ok=True)
    with display.shown(), ThreadPoolExecutor(len(measurers), thread_name_prefix="inferno-tune") as threads:
        futures = [threads.submit(alone, m) for m in measurers]
        try:
            return sum(f.result() for f in futures)
        finally:
            stop.set()


@contextlib.contextmanager
def _held(path: Path, stop: threading.Event) -> Iterator[bool]:
    """A lock of a file; whether it is held, or waiting for it was stopped."""
    lock = FileLock(path)
    while not stop.is_set():
        with contextlib.suppress(Timeout):
            lock.acquire(timeout=1)
            break
    try:
        yield lock.is_locked
    finally:
        lock.release()


def _tune(
    problem: Problem, measurer: Measurer, records: Records, display: Display, stop: threading.Event, ahead: int, suspects: Suspects,
) -> Entry | None:
    """The entry of one kernel; None where none of its schedules works, or it was stopped."""
    search = Search(problem.candidates, suspects=suspects)
    for schedule, found, failure in records.read():
        search.record(schedule, found, failure)
    records.begin()
    measurer.begin(problem)
    builds = _Builds(problem, ahead)
    same: dict[str, Measurement] = {}  # by code, which two schedules may have in common
    try:
        with display.kernel(problem.name, len(problem.candidates)) as show:
            for candidate, future in builds.of(search.next):
                if suspects.suspect(candidate.knobs):  # by now
                    continue
                schedule, result = candidate.schedule, _measure(future, measurer, same, search.best)
                search.record(schedule, result.time, result.failure)
                records.add(schedule, result.time, result.failure)
                if result.ended:
                    suspects.ended(candidate.knobs)
                elif result.time is not None:
                    suspects.fine(candidate.knobs)
                if result.failure:
                    log.info("@%s: %s has no time: %s", problem.name, schedule, result.failure)
                show(search)
                if stop.is_set():
                    return None
            entry = _decide(problem, measurer, search, builds)
    except (Unusable, Died) as error:
        log.warning("kernel @%s cannot be measured: %s", problem.name, error)
        return None
    if entry is None:
        log.warning("kernel @%s: none of %d schedules gives the right result in time, so none is kept", problem.name, search.measured)
        return None
    log.info(
        "@%s: %.2f us, where the model's choice takes %s; %d of %d schedules measured: %s", problem.name, entry.time,
        entry.model_time and f"{entry.model_time:.2f}", search.measured, len(problem.candidates), search.reason,
    )
    return entry


class _Builds:
    """Candidates of one kernel, compiled by the workers a few ahead of where they are needed."""

    def __init__(self, problem: Problem, ahead: int) -> None:
        self._problem, self._ahead = problem, ahead
        self._made: dict[str, Future] = {}

    def __call__(self, schedule: str) -> Future:
        if schedule not in self._made:
            p = self._problem
            self._made[schedule] = pool().submit(
                f"kernel @{p.name} with {schedule}", "build_alone", text=p.with_schedule(schedule), alone=p.alone, target=p.target,
            )
        return self._made[schedule]

    def of(self, next_: Callable[[], Candidate | None]) -> Iterator[tuple[Candidate, Future]]:
        """(candidate, its future) for each that ``next_`` gives."""
        waiting: deque[Candidate] = deque()
        while True:
            while len(waiting) < self._ahead and (candidate := next_()) is not None:
                waiting.append(candidate)
                self(candidate.schedule)
            if not waiting:
                return
            candidate = waiting.popleft()
            yield candidate, self._made[candidate.schedule]


def _measure(
    future: Future, measurer: Measurer, same: dict[str, Measurement], best: tuple[str, float] | None, thorough: bool = False,
) -> Measurement:
    """The time of a candidate once it is compiled; ``same`` has the times by code, and gets this one."""
    try:
        kernel, plan = future.result()
    except InfernoError as error:
        return Measurement(None, f"it does not compile: {str(error).splitlines()[0]}")
    if kernel.note:
        return Measurement(None, f"it does not compile: {kernel.note}")
    code = make_key(kernel.ptx, repr(plan))
    if code not in same:
        same[code] = measurer.measure(kernel, plan, best[1] if best else None, thorough)
    return same[code]


def _decide(problem: Problem, measurer: Measurer, search: Search, builds: _Builds) -> Entry | None:
    """Time the best ones and the model's choice again, in turns; the model's stays unless another one is clearly better.

    In turns because a GPU gets slower as it gets warmer: an H200 took 196 us for what it had done in 178 when it was cool, bf16 4096^3.
    """
    ranked, own = search.ranked(), problem.candidates[0].schedule
    finalists = list(dict.fromkeys([*(schedule for schedule, _ in ranked[:_FINALISTS]), *([own] if own in dict(ranked) else [])]))
    found: dict[str, list[float]] = {}
    for _ in range(_TURNS):
        for schedule in finalists:
            result = _measure(builds(schedule), measurer, {}, None, thorough=True)
            if result.time is not None:
                found.setdefault(schedule, []).append(result.time)
    times = {schedule: statistics.median(all_) for schedule, all_ in found.items() if len(all_) == _TURNS}
    if not times:
        return None
    # Others were timed when the GPU was as cool as it was for these.
    warmer = statistics.median(time / search.time_of(schedule) for schedule, time in times.items())
    best = min(times, key=times.__getitem__)
    if own not in times and times[best] > _UNLIKELY * problem.candidates[0].estimate:
        log.warning("kernel @%s: the model's choice has no time, and the best that has one takes %.0f us: none is kept", problem.name, times[best])
        return None
    if own in times and times[best] > GAIN * times[own]:
        best = own
    others = {**{s: t * warmer for s, t in ranked if s not in finalists}, **times}
    runners = sorted(((s, t) for s, t in others.items() if s != best), key=lambda item: item[1])[:_RUNNERS_UP]
    return Entry(
        best, times[best], own, times.get(own), tuple(runners), search.measured, problem.name, make_key(versions())[:12], time.time(),
    )
