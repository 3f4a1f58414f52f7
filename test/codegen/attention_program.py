"""A program with attention as one kernel of a schedule, on the simulator."""

from collections.abc import Callable

from torch import Tensor
from universal_program import SimulatedModel

from inferno.mlir import ir
from inferno.passes.programs import PRECISION
from inferno.schedule.attention import Attention
from inferno.schedule.attention_kernel import parse_attention


def simulate(function: Callable, args: tuple[Tensor, ...], schedule: Attention, early: bool = False) -> Tensor:
    """What ``function`` returns; its other kernels, if any, are the universal generator's."""
    found = []

    def choose(kernel) -> Attention | None:
        if parse_attention(kernel) is None:
            return None
        found.append(kernel.name.value)
        if schedule.pieces == 2:
            kernel.attributes[PRECISION] = ir.StringAttr.get("tf32")
        return schedule

    model = SimulatedModel(function, args, choose=choose, early=early, passes="fuse-attention{target=sm_90a always=1}", expand=True)
    assert found, "no attention was found"
    return model(*args)
