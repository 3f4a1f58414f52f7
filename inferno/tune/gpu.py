"""Measuring on a GPU: what the child process does.

A kernel's results are held against float64 first, by the rule of the whole project, and again, bit by bit, behind the timing, when launches have
overlapped.  Inputs are random normal numbers.

Times are those of many launches in one CUDA graph.  *Warm* ones read the same inputs again and again, so those that fit are in the L2 cache, as
what the kernel before has written is in a model; *cold* ones go round copies of the inputs that are twice as large as the cache together, as the
weights of a model are.  A model's kernel reads some of both, so what counts is the geometric mean.  Inputs of which so many copies would be
needed that the launches are all that is timed are taken as warm, and those larger than that as they are.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from inferno.errors import CompileError, LaunchError
from inferno.runtime.check.expected import Expected
from inferno.runtime.elements import DTYPES
from inferno.runtime.launch.executable import GpuExecutable
from inferno.runtime.plan.plan import Plan
from inferno.tune.child import Unusable

_COPIES = 128  # of the inputs: launches of one graph are some hundred
_GRAPH = 3.0  # milliseconds of launches in a graph: a replay takes 10 us itself
_MOST = 400  # launches in a graph
_HOST = 150  # microseconds below which launches one by one may be the host's time (40 us each while it compiles, of kernels of 12 us)
_SLOW = 1.5  # what takes so many times the best time at the first look is not timed again
_HOPELESS = 1.1  # nor what takes so many times the best one with its inputs in the cache: without, it takes longer still


class Gpu:
    """One GPU.  ``prepare`` comes first, and then ``measure`` for each candidate of that kernel."""

    def __init__(self, index: str) -> None:
        self._device = torch.device("cuda", int(index))
        torch.cuda.set_device(self._device)
        self._pool = torch.cuda.graph_pool_handle()  # one graph lives at a time, and all have their memory here
        torch.set_float32_matmul_precision("highest")  # the reference's; a kernel's own is in its code

    def prepare(
        self, inputs: Sequence, outputs: Sequence, source: str, function: str, roundings: Sequence[str], tf32: bool,
    ) -> None:
        """Make inputs and the results that they should give.  Unusable where the PyTorch program does not run."""
        self._given: list[Tensor] = []
        self._sets: list[list[Tensor]] = []
        self._expected: Expected | None = None
        torch.cuda.empty_cache()
        self._given = make_inputs(inputs, self._device)
        self._dtypes = [DTYPES[element] for _, element in outputs]
        like = [torch.empty(shape, dtype=dtype, device=self._device) for (shape, _), dtype in zip(outputs, self._dtypes)]
        try:
            self._expected = Expected(source, function, roundings, tf32, self._given, like, self._device)
        except (RuntimeError, IndexError, ZeroDivisionError, TypeError) as error:
            torch.cuda.synchronize()  # raises what the process must end of
            raise Unusable(f"its PyTorch form fails: {type(error).__name__}: {str(error).splitlines()[0]}") from error
        size = sum(t.nbytes for t in self._given)
        cache = torch.cuda.get_device_properties(self._device).L2_cache_size
        copies = -(-2 * cache // max(1, size))
        self._sets = [self._given] + ([[t.clone() for t in self._given] for _ in range(copies - 1)] if copies <= _COPIES else [])

    def measure(self, plan: Plan, binaries: dict[str, bytes], early: bool, best: float | None, rounds: int) -> dict[str, float]:
        """``time`` in microseconds, ``warm`` and ``cold`` (see above) where it was measured so well, and the ``error``; Unusable if the
        results are wrong.  ``best``: the lowest time so far."""
        try:
            executable = GpuExecutable(plan, binaries, self._device, self._dtypes, early, interpret=True)
            _poison(executable)
            first = executable.run(self._given)
            torch.cuda.synchronize()
        except (CompileError, LaunchError, torch.cuda.OutOfMemoryError) as error:
            torch.cuda.synchronize()  # raises if it was worse than a launch that was refused
            raise Unusable(f"it does not run: {str(error).splitlines()[0]}") from error
        found = self._expected.compare(first)
        if not found.right:
            raise Unusable(f"its result is wrong: {found.problem}")
        rough = _timed(lambda: [executable.run(self._given) for _ in range(3)]) / 3
        if rough < _HOST:
            rough = min(rough, self._graph_time(executable, self._sets[:1], rough, 1))
        if best is not None and rough > _SLOW * best:
            return {"time": rough, "error": found.error}
        warm = self._graph_time(executable, self._sets[:1], rough, rounds)
        if best is not None and warm > _HOPELESS * best:
            return {"time": warm, "warm": warm, "error": found.error}
        cold = self._graph_time(executable, self._sets, rough, rounds) if len(self._sets) > 1 else warm
        for _ in range(3):
            again = executable.run(self._given)
            if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, again)):
                raise Unusable("its result is another one after many launches")
        return {"time": (warm * cold) ** 0.5, "warm": warm, "cold": cold, "error": found.error}

    def _graph_time(self, executable: GpuExecutable, sets: Sequence[list[Tensor]], rough: float, rounds: int) -> float:
        """Microseconds a launch, by replaying a graph of launches that take turns with the inputs."""
        count = max(8, min(_MOST, round(1e3 * _GRAPH / max(rough, 1.0))))
        count = -(-count // len(sets)) * len(sets)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            executable.run(self._given)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            for i in range(count):
                executable.run(sets[i % len(sets)])
        graph.replay()
        return statistics.median(_timed(graph.replay) for _ in range(rounds)) / count


def make_inputs(types: Sequence[tuple[tuple[int, ...], str]], device: torch.device) -> list[Tensor]:
    """Random normal numbers, small integers and coins, the same in every process."""
    generator = torch.Generator(device).manual_seed(0)
    made = []
    for shape, element in types:
        dtype = DTYPES[element]
        if dtype is torch.bool:
            made.append(torch.rand(shape, generator=generator, device=device) > 0.5)
        elif dtype.is_floating_point:
            made.append(torch.randn(shape, generator=generator, device=device).to(dtype))
        elif dtype.is_complex:
            made.append(torch.randn(shape, generator=generator, device=device, dtype=dtype))
        else:
            made.append(torch.randint(1, 100, shape, generator=generator, device=device).to(dtype))
    return made


def _poison(executable: GpuExecutable) -> None:
    """Leave NaN in the memory that the results and the workspace will get."""
    made = [torch.empty_like(t) for t in executable.templates]  # at the same time, as in a call
    for t in made:
        if t.dim():
            t.view(torch.uint8).fill_(0xFF)


def _timed(work: Callable[[], Any]) -> float:
    """Microseconds between the GPU's coming to the work and its being done with it."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * begin.elapsed_time(end)
