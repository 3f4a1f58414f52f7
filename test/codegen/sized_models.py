"""Models of sizes that vary as they are compiled for the GPU that the tests are for, on the simulator."""

from collections.abc import Callable
from typing import Any

from kernels import TARGET
from universal_program import Simulated

from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.runtime.call.finish import Finish
from inferno.schedule import assign


class SizedModel:
    """A model, called like it.  ``schedules`` are those of its kernels, the model's own, or what ``choose(kernel)`` says: None for the universal one."""

    def __init__(self, model: Callable, args: tuple, dynamic_shapes: Any, choose: Callable | None = None) -> None:
        found = capture(model, args, {}, dynamic_shapes)
        self._signature, self.schedules = found.signature, []

        def chosen(kernel):
            self.schedules.append((choose or (lambda k: assign.choose(k, TARGET)))(kernel))
            return self.schedules[-1]

        self._program = Simulated(build_from("torch", found.text, TARGET, last="fused", signature=found.signature).stages["fused"], chosen)
        self._finish = Finish(self._signature, self._program)

    def __call__(self, *args):
        tensors = self._signature.arguments_of(args, {})
        return self._finish(tensors, self._program(*tensors))
