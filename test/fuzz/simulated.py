"""Random programs as they are made for a GPU, run by the simulator: every kernel with a schedule drawn from all that its generator takes.

What the cost model picks for the sizes that random programs have is only a part of what it picks for a model's.
"""

import random
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor
from universal_program import Simulated, as_type

from inferno.capture import capture
from inferno.capture.devices import capturing_for
from inferno.mlir import func
from inferno.runtime.build import build_from
from inferno.runtime.call.finish import Finish
from inferno.runtime.executables import constants_of
from inferno.runtime.plan.complex_numbers import as_pairs
from inferno.schedule import spaces
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.universal.universal import Universal
from inferno.target import find_target

TARGET = find_target("sm_90a")
# What the simulator has operations for; of these some have no space: they get the cost model's choice.
_DRAWN = ("elementwise", "rows", "reductions", "scans", "simt", "vectors")
_CHOSEN = ("columns", "short_sorts", "sorts", "select", "scatters", "matched_rows", "sorted_rows", "row_sums", "boxes", "bundle", "universal")


def compiler(seed: int, counts: Counter[str] | None = None) -> Callable:
    """What compiles a function for the simulator, by schedules that follow from ``seed`` and the function's kernels."""

    def compile_(function: Callable, inputs: tuple[Tensor, ...]) -> Callable:
        with capturing_for(True):  # the arguments are examples, and no program's for a CPU
            captured = capture(function, inputs, {}, None)
            text = captured.text
        program = build_from("torch", text, TARGET, last="scheduled", signature=captured.signature, matmul="generated")
        draw = random.Random(f"{seed} {program.stages['scheduled']}")
        run = Simulated(program.stages["scheduled"], lambda kernel: _draw(kernel, draw, counts))
        finish, constants = Finish(captured.signature, run), constants_of(program, torch.device("cpu"))

        def call(*args: Tensor) -> tuple[Tensor, ...]:
            tensors = captured.signature.arguments_of(args, {})
            results = run(*as_pairs(run.plan, [*tensors, *constants]))
            return finish(tensors, [as_type(x, r.dtype) for x, r in zip(results, captured.signature.results)])

        return call

    return compile_


def _draw(kernel: func.FuncOp, draw: random.Random, counts: Counter[str] | None) -> object:
    own = from_attribute(kernel.attributes[ATTRIBUTE])
    found = {name: _simulated(kernel, name) for name in _DRAWN} if own.generator not in _CHOSEN else {}
    names = [name for name, schedules in found.items() if schedules]
    schedule = draw.choice(found[draw.choice(names)]) if names else own if own.generator in (*_DRAWN, *_CHOSEN) else Universal()
    if counts is not None:
        counts[schedule.generator] += 1
    return schedule


def _simulated(kernel: func.FuncOp, generator: str) -> list:
    """The schedules of a generator; those that copy asynchronously have no simulation."""
    schedules = [s for _, s in spaces.find(generator).space(kernel, TARGET)]
    return [s for s in schedules if getattr(s, "stages", 1) <= 1]
