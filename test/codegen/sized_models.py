"""Models of sizes that vary as they are compiled for the GPU that the tests are for, on the simulator."""

from collections.abc import Callable
from typing import Any

import torch
from checks import assert_close_to_float64
from kernels import TARGET
from torch.export import Dim
from universal_program import Simulated, SimulatedModel

from inferno.capture import capture
from inferno.capture.devices import capturing_for
from inferno.runtime.build import build_from
from inferno.runtime.call.finish import Finish
from inferno.schedule import assign


class SizedModel:
    """A model, called like it.  ``schedules`` are those of its kernels, the model's own, or what ``choose(kernel)`` says: None for the universal one."""

    def __init__(self, model: Callable, args: tuple, dynamic_shapes: Any, choose: Callable | None = None) -> None:
        with capturing_for(True):  # the arguments are examples, and no program's for a CPU
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


def assert_right_at_all_sizes(
    model: Callable, shape: tuple[int, ...], varying: tuple[int, ...], others: list[tuple[int, ...]], dtype: torch.dtype, choose: Callable, passes: str = "",
) -> None:
    """That kernels that are compiled for an example of a ``shape``, of which these dimensions vary, have the right numbers there and at ``others``."""
    torch.manual_seed(0)
    run = SimulatedModel(model, (torch.randn(shape).to(dtype),), ({d: Dim.AUTO for d in varying},), choose, passes=passes)
    for other in (shape, *others):
        x = torch.randn(other).to(dtype)
        assert_close_to_float64(run(x), model, (x,))
