"""A program with attention as one kernel of a schedule, on the simulator."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor
from universal_program import SimulatedModel

from inferno.codegen.attention.attention import Emitter
from inferno.mlir import ir
from inferno.passes.programs import PRECISION
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.attention.schedule import Attention


def simulate(function: Callable, args: tuple[Tensor, ...], schedule: Attention, early: bool = False) -> Tensor:
    """What ``function`` returns."""
    return simulated(function, args, schedule, early)(*args)


def simulated(function: Callable, args: tuple[Tensor, ...], schedule: Any, early: bool = False, dynamic_shapes: Any = None) -> SimulatedModel:
    """``function`` by the simulator; its kernels beside attention, if any, are the universal generator's."""
    found = []

    def choose(kernel) -> Any | None:
        if parse_attention(kernel) is None:
            return None
        found.append(kernel.name.value)
        if getattr(schedule, "pieces", 1) == 2:
            kernel.attributes[PRECISION] = ir.StringAttr.get("tf32")
        return schedule

    model = SimulatedModel(function, args, dynamic_shapes, choose, early, "fuse-attention{target=sm_90a always=1}", expand=True)
    assert found, "no attention was found"
    return model


def share_two_multiprocessors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attention be generated for a GPU of two multiprocessors, whose blocks have several tiles each."""
    begin = Emitter.__post_init__

    def with_two(self):
        self.target = replace(self.target, multiprocessors=2)
        begin(self)
        assert isinstance(self.tiles, int) and self.tiles > self.workers

    monkeypatch.setattr(Emitter, "__post_init__", with_two)
