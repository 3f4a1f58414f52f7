"""Run a plan whose sizes vary on the CPU: the native code is one for all sizes, the rows of launches are made for each."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from inferno.runtime.launch.cpu import Code, CpuExecutable
from inferno.runtime.plan.plan import Plan, at_sizes
from inferno.runtime.call.sizes import size_reader

# Sizes whose launches and workspace are kept; making them again takes some 10 us a launch.
KEPT = 16


class SizedCpuExecutable:
    """A plan with its native code; ``run`` reads the sizes off the arguments.  Safe to run from several threads."""

    def __init__(self, plan: Plan, code: Code, dtypes: Sequence[torch.dtype]) -> None:
        self.plan, self._code, self._dtypes = plan, code, list(dtypes)
        self._names = [s.name for s in plan.symbols]
        self._read = size_reader([a.shape for a in plan.arguments], plan.symbols)
        self._kept: OrderedDict[tuple[int, ...], CpuExecutable] = OrderedDict()

    @property
    def names(self) -> list[str]:
        """The symbols' names, in the order in which ``run_at`` takes their values."""
        return self._names

    @property
    def all_results_are_new(self) -> bool:
        """Whether no result is an argument, or another result in another shape."""
        return all(o.result == i for i, o in enumerate(self.plan.outputs))

    def run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The outputs for these arguments, which must be contiguous, of sizes that the program takes."""
        return self.run_at(self._read(arguments), arguments)

    def run_at(self, sizes: tuple[int, ...], arguments: Sequence[Tensor]) -> list[Tensor]:
        """The same where the symbols' values are known."""
        found = self._kept.pop(sizes, None)
        if found is None:
            found = CpuExecutable(at_sizes(self.plan, dict(zip(self._names, sizes))), self._code, self._dtypes)
        self._kept[sizes] = found  # the one used last is the last; each step is atomic, and two threads may both make one
        while len(self._kept) > KEPT:
            try:
                self._kept.popitem(last=False)
            except KeyError:
                break
        return found.run(arguments)
