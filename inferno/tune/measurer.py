"""One GPU, as the tuner sees it: candidates in, times or reasons out, whatever they do to the process that runs them."""

from dataclasses import dataclass

import torch

from inferno.runtime.plan.kernel import Kernel
from inferno.runtime.plan.plan import Plan
from inferno.runtime.workers.tuning import Problem
from inferno.target import find_target
from inferno.tune.child import Child, Died, Unusable

PREPARE = 300.0  # seconds: starting torch, and the float64 reference of the largest matmul that was tried takes 20
MEASURE = 30.0  # seconds; the longest seen takes 3
_ROUNDS, _MORE_ROUNDS = 5, 9  # replays; for each turn of the last comparison of the best

GPU = "inferno.tune.gpu:Gpu"


@dataclass(frozen=True)
class Measurement:
    """``time`` in microseconds, or None and why not (``failure``); ``ended``: it ended the process."""

    time: float | None
    failure: str = ""
    ended: bool = False


class Measurer:
    """Runs the candidates of one kernel at a time in a child process; one that ended is started again for the next candidate."""

    def __init__(self, index: int, place: str = GPU) -> None:
        self._place, self.index = place, index
        self._child: Child | None = None
        self._problem: Problem | None = None
        self._ready = False

    @property
    def device(self) -> str:
        """What the device is called in whatever process: numbers go by what a process sees."""
        return str(getattr(torch.cuda.get_device_properties(self.index), "uuid", self.index)) if self._place == GPU else str(self.index)

    def begin(self, problem: Problem) -> None:
        """What ``measure`` is about from now on."""
        self._problem, self._ready = problem, False

    def measure(self, kernel: Kernel, plan: Plan, best: float | None, thorough: bool = False) -> Measurement:
        """The time of a candidate, or why it has none.  Unusable or Died if the kernel cannot be measured at all."""
        child = self._prepared()
        binaries = {kernel.code: kernel.cubin or kernel.ptx.encode()} if kernel.ptx else {}
        early = find_target(self._problem.target).early_launch
        rounds = _MORE_ROUNDS if thorough else _ROUNDS
        try:
            found = child.ask("measure", MEASURE, plan=plan, binaries=binaries, early=early, best=best, rounds=rounds)
            return Measurement(found["time"])
        except Unusable as error:
            return Measurement(None, str(error))
        except Died as error:
            self._child = None
            return Measurement(None, str(error), ended=True)

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _prepared(self) -> Child:
        """A process that has the kernel's inputs and reference."""
        if self._child is None:
            self._child, self._ready = Child(self._place, [str(self.index)]), False
        if not self._ready:
            p = self._problem
            try:
                self._child.ask(
                    "prepare", PREPARE, inputs=p.inputs, outputs=p.outputs, source=p.source, function=p.function, roundings=p.roundings, tf32=p.tf32,
                )
            except Died:
                self._child = None
                raise
            self._ready = True
        return self._child
