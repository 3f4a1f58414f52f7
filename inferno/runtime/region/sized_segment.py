"""A compiled piece of a graph whose sizes vary, as a Python function: one program for every size."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from inferno.capture.orders import dense_order, inverse
from inferno.capture.take_sizes import Source
from inferno.errors import LaunchError, UnsupportedOperation
from inferno.runtime.call.finish import write_values
from inferno.runtime.call.transforms import in_memory
from inferno.runtime.executables import constants_of, make_executable, make_prepared, plan_in_place
from inferno.runtime.program import Program

_ALIGNMENT = 15  # kernels read 16 bytes at once


class SizedSegment:
    """One program on one device.  ``call`` takes the piece's inputs, tensors and integers, and returns its results, but for those ``written`` to tensors
    that it took; the program reads the sizes off its tensors."""

    takes = False  # see Segment

    def __init__(
        self, program: Program, device: torch.device, inputs: Sequence[Any], outputs: Sequence[Tensor], sources: Sequence[Source],
        writes: Mapping[int, int] | None = None,
    ) -> None:
        """``inputs`` and ``outputs`` are fake tensors and symbolic integers; UnsupportedOperation for a result that has gaps.  ``writes``: as Segment's."""
        self.program = program
        self.device = device
        arguments = {s.place: n for n, s in enumerate(sources)}
        pairs = {i: arguments[to] for i, to in (writes or {}).items()}
        self._executable = make_executable(program, device, [t.dtype for t in outputs], writes=tuple(pairs.items()))
        placed = plan_in_place(program, tuple(pairs.items())).outputs
        self.written = {i: sources[n].place for i, n in pairs.items() if placed[i].argument == n}
        self._constants = constants_of(program, device)
        self._prepared = make_prepared(program, device, self._constants)
        self._sources = [(s.place, _signs(s), None if s.is_size else dense_order(inputs[s.place])) for s in sources]
        orders = [dense_order(t) for t in outputs]
        if any(order is None for order in orders):
            raise UnsupportedOperation("a result whose sizes vary has gaps between its elements")
        self._steps = [_step(i not in self.written and (o.argument >= 0 or o.result != i), order) for i, (o, order) in enumerate(zip(placed, orders))]

    def call(self, *values: Any) -> list[Tensor]:
        if self._executable is None:
            raise LaunchError(f"compiled for {self.program.target.name}, which is not what {self.device} is")
        ready = [self._ready(values[place], sign, order) for place, sign, order in self._sources]
        prepared = ()
        if self._prepared is not None:
            tensors = [r if sign else values[place] for r, (place, sign, _) in zip(ready, self._sources)]
            prepared = self._prepared.get(tensors, ready)
        results = self._executable.run([*ready, *self._constants, *prepared])
        results = [r if step is None else step(r) for step, r in zip(self._steps, results)]
        if self.written:  # what was written in place of a copy, of a tensor that lay otherwise, is copied back
            write_values([values[to] for to in self.written.values()], [results[i] for i in self.written])
        return [r for i, r in enumerate(results) if i not in self.written]

    def refresh(self) -> None:
        """As Segment's."""
        if self._prepared is not None:
            self._prepared.forget()

    def _ready(self, value: Any, sign: int, order: tuple[int, ...] | None) -> Tensor:
        """The program's tensor: dense in its physical order, which is how the program knows it."""
        if sign:
            return torch.empty((sign * value, 0), device=self.device)
        tensor = (value if order is None else value.permute(order)).contiguous()
        address = tensor.data_ptr()
        return in_memory(tensor) if address & _ALIGNMENT or (not address and tensor.numel()) else tensor


def _signs(source: Source) -> int:
    """What a size is multiplied by; 0 for a tensor."""
    return (-1 if source.negated else 1) if source.is_size else 0


def _step(shared: bool, order: tuple[int, ...]) -> Callable[[Tensor], Tensor] | None:
    """What makes an output from the plan's result, whose memory may be ``shared``: memory of its own, and the order of dimensions that eager has."""
    if order == tuple(range(len(order))):
        return torch.clone if shared else None
    back = inverse(order)
    return lambda r: (r.clone() if shared else r).permute(back)
