"""Programs whose independent contractions are one launch, with any of the schedules that it may have: for the simulator and for a GPU."""

from collections.abc import Callable

import torch
from universal_program import Simulated, SimulatedModel, _fuse

from inferno.capture import capture
from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.runtime.call.finish import Finish
from inferno.runtime.executables import tensor_of
from inferno.runtime.module import CompiledModule
from inferno.runtime.program import Program
from inferno.runtime.workers import jobs
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute, to_attribute
from inferno.schedule.composite import siblings
from inferno.schedule.composite.siblings import Siblings
from inferno.schedule.passes.merge_siblings import MERGE
from inferno.target import Target, find_target

TARGET = find_target("sm_90a")


def schedules(kernel, generator: str = "", target: Target = TARGET) -> list[Siblings]:
    """The best schedule for each size of tiles and number of parts, the best first; of one generator, if it is named."""
    found: dict[tuple, Siblings] = {}
    for _, s in sorted(siblings.candidates(kernel, target), key=lambda item: item[0]):
        e = s.each
        if generator and e.generator != generator:
            continue
        found.setdefault((e.rows, e.across, e.threads) if e.generator == "vectors" else (e.generator, e.tile_m, e.tile_n, getattr(e, "split", 1)), s)
    return list(found.values())


def merged(fused: str, number: int = 0, generator: str = "", target: Target = TARGET) -> tuple[str, list[int]]:
    """A program at the ``fused`` stage, scheduled, with the ``number``-th schedule (of one generator) for what was merged; and how many those
    have."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(fused)
        module.operation.attributes[MERGE] = ir.UnitAttr.get()
        run_pipeline(module, f"inferno-schedule{{target={target.name}}}")
        counts = []
        for kernel in kernels(module):
            if 'generator = "siblings"' in str(kernel.attributes[ATTRIBUTE]):
                found = schedules(kernel, generator, target)
                counts.append(len(found))
                kernel.attributes[ATTRIBUTE] = to_attribute(found[number % len(found)])
        return str(module), counts


def fuse(function: Callable, args: tuple) -> tuple:
    """What was captured, its text at the ``fused`` stage, and its constants."""
    captured = capture(function, args)
    return captured, *_fuse(captured)


def compile_merged(function: Callable, args: tuple, device: torch.device, number: int = 0) -> tuple[CompiledModule, list[int]]:
    """What ``inferno.compile`` gives with the ``number``-th schedule for what was merged; and how many those have."""
    captured, fused, constants = fuse(function, args)
    text, counts = merged(fused, number)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        texts = {k.name.value: f"module {{\n{k.operation.get_asm(use_local_scope=True)}\n}}\n" for k in kernels(module)}
    built = {name: jobs.build(text, "sm_90a") for name, text in texts.items()}
    assert not any(k.note for k in built.values()), [k.note for k in built.values()]
    gpu, *_ = jobs.plan(text, {name: k.module for name, k in built.items()})
    stages = {"torch": captured.text, "scheduled": text, "gpu": gpu}
    return CompiledModule(Program(captured.signature, TARGET, stages, built, constants, []), device, 0.0), counts


class SimulatedSiblings(SimulatedModel):
    """A model whose contractions of one tensor are one launch, on the simulator."""

    def __init__(self, function: Callable, args: tuple, number: int = 0, generator: str = "vectors", target: Target = TARGET) -> None:
        captured, fused, constants = fuse(function, args)
        self.text, self.counts = merged(fused, number, generator, target)
        self._signature, self._constants = captured.signature, [tensor_of(*c) for c in constants]
        self.program = Simulated(self.text, lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))
        self._finish = Finish(self._signature, self.program)


class SimulatedRows(SimulatedModel):
    """A model whose contractions of one tensor are one launch for any number of rows, as chosen, on the simulator."""

    def __init__(self, function: Callable, args: tuple, dynamic_shapes: tuple) -> None:
        captured = capture(function, args, {}, dynamic_shapes)
        fused, constants = _fuse(captured)
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(fused)
            module.operation.attributes[MERGE] = ir.UnitAttr.get()
            run_pipeline(module, f"inferno-schedule{{target={TARGET.name}}}")
            self.text = str(module)
        self._signature, self._constants = captured.signature, [tensor_of(*c) for c in constants]
        self.program = Simulated(self.text, lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))
        self._finish = Finish(self._signature, self.program)
