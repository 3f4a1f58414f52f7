"""What is chosen for a program's kernels, without making them: that takes longer."""

import re
from collections.abc import Callable
from typing import Any

from inferno.capture import capture
from inferno.capture.devices import capturing_for
from inferno.runtime.build import build_from
from inferno.target import find_target


def scheduled(model: Callable, args: tuple, target: str = "sm_90a", dynamic_shapes: Any = None) -> str:
    """The ``scheduled`` stage of ``model``, as a whole."""
    machine = find_target(target)
    with capturing_for(machine.hopper):
        text = capture(model, args, dynamic_shapes=dynamic_shapes).text
    return build_from("torch", text, machine, last="scheduled").stages["scheduled"]


def generators(model: Callable, args: tuple, target: str = "sm_90a", dynamic_shapes: Any = None) -> list[str]:
    """That of each kernel."""
    return re.findall(r'generator = "(\w+)"', scheduled(model, args, target, dynamic_shapes))
