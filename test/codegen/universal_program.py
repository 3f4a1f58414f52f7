"""Programs whose every kernel is the universal generator's: for the simulator and for a GPU."""

from collections.abc import Callable

import role_simulator
import torch
from simulated_plan import Executable
from simulator import simulate_launch
from warp_simulator import WarpSimulation

from inferno.capture import capture
from inferno.capture.devices import capturing_for
from inferno.codegen.generate import generate_kernels
from inferno.mlir import ir, idle_context, walk
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.lift_constants import lifted_values
from inferno.passes.manager import run_pipeline
from inferno.passes.programs import PREPARE, UNMEASURED
from inferno.runtime.call.finish import Finish
from inferno.runtime.executables import tensor_of
from inferno.runtime.module import CompiledModule
from inferno.runtime.plan.complex_numbers import as_pairs
from inferno.runtime.plan.plan import read_plan
from inferno.runtime.program import Program
from inferno.runtime.workers import jobs
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, to_attribute
from inferno.schedule.universal.universal import Universal
from inferno.settings import settings
from inferno.target import Target, find_target
from inferno.targets import nvptx


def scheduled(text: str, choose: Callable | None = None) -> ir.Module:
    """A module at the ``fused`` stage with the universal schedule on every kernel, or what ``choose(kernel)`` says."""
    module = ir.Module.parse(text)
    for kernel in kernels(module):
        kernel.attributes[ATTRIBUTE] = to_attribute((choose and choose(kernel)) or Universal())
    return module


class Simulated:
    """A module at the ``fused`` stage, generated, planned and run by the simulator.  ``gpu`` is its text after generation; ``early`` is
    ``WarpSimulation``'s."""

    def __init__(self, text: str, choose: Callable | None = None, early: bool = False) -> None:
        self._context = idle_context()
        with self._context, ir.Location.unknown():
            module = scheduled(text, choose)
            generate_kernels(module, "sm_90a")  # @main's calls do not fit the launchers until they are planned
            run_pipeline(module, "plan-launches,plan-memory")
            self._module, self.gpu = module, str(module)
        self.plan = read_plan(self.gpu)
        functions = {}
        for device in walk(module, "gpu.module"):
            for function in walk(device, "gpu.func", "llvm.func"):
                functions[f"{_name(device)}::{_name(function)}"] = function

        steps = {}

        def simulate(function, launch, parameters) -> None:
            if function.name == "gpu.func":
                simulate_launch(function, launch, parameters, steps)
            elif walk(function, "nvvm.mbarrier.init") or walk(function, "nvvm.cp.async.bulk.tensor.global.shared.cta"):
                role_simulator.run(function, launch, parameters, steps, early)
            else:
                WarpSimulation(function, launch.grid[0], launch.block[0], parameters, shared=launch.shared, early=early, steps=steps).run()

        self._executable = Executable(self.plan, functions, simulate)
        self._preparation = jobs.preparation_of(self.gpu) if f"@{PREPARE}" in self.gpu else None
        self._prepare = self._preparation and Executable(self._preparation.plan, functions, simulate)

    def __call__(self, *arguments: torch.Tensor) -> list[torch.Tensor]:
        """Of the program's arguments; what is prepared of them is, each time."""
        prepared = self._prepare.run([arguments[n] for n in self._preparation.arguments]) if self._prepare else []
        return self._executable.run([*arguments, *prepared])


def _name(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value


class SimulatedModel:
    """A model, called like it; ``passes`` are behind the ``fused`` stage, and with ``expand`` concatenations and paddings are elementwise."""

    simulated = True

    def __init__(
        self, model: Callable, args: tuple, dynamic_shapes=None, choose: Callable | None = None, early: bool = False, passes: str = "",
        expand: bool = False,
    ) -> None:
        with capturing_for(True):  # the arguments are examples, and no program's for a CPU
            captured = capture(model, args, {}, dynamic_shapes)
            text, constants = _fuse(captured, passes, expand)
        self._signature = captured.signature
        self._constants = [tensor_of(*c) for c in constants]
        self.program = Simulated(text, choose, early)
        self._finish = Finish(self._signature, self.program)

    def __call__(self, *args):
        tensors = self._signature.arguments_of(args, {})
        results = self.program(*as_pairs(self.program.plan, [*tensors, *self._constants]))
        return self._finish(tensors, [as_type(x, r.dtype) for x, r in zip(results, self._signature.results)])


def as_type(result: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What a program gave as its caller has it: complex numbers are pairs for the program."""
    return torch.view_as_complex(result) if dtype.is_complex and not result.is_complex() else result.view(dtype)


def _fuse(captured, passes: str = "", expand: bool = False) -> tuple[str, list]:
    linalg, _ = jobs.lower_to_linalg(captured.text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        if settings().unmeasured:
            module.operation.attributes[UNMEASURED] = ir.UnitAttr.get()
        if expand:
            module.operation.attributes[EXPAND] = ir.UnitAttr.get()
        run_pipeline(module, f"inferno-fuse,{passes}" if passes else "inferno-fuse")
        return str(module), lifted_values(module)


def compile_universal(
    model: Callable, args: tuple, device: torch.device, target: str, choose: Callable | None = None, dynamic_shapes=None,
    passes: str = "",
) -> CompiledModule:
    """What ``inferno.compile`` gives when every kernel is scheduled for the universal generator, or as ``choose(kernel)`` says, behind
    ``passes`` on the ``fused`` stage."""
    captured = capture(model, args, dynamic_shapes=dynamic_shapes)
    text, constants = _fuse(captured, passes)
    with idle_context(), ir.Location.unknown():
        module = scheduled(text, choose)
        whole = str(module)
        texts = {k.name.value: f"module {{\n{k}\n}}\n" for k in kernels(module)}
    built = {name: jobs.build(text, target) for name, text in texts.items()}
    gpu, *_ = jobs.plan(whole, {name: k.module for name, k in built.items()})
    stages = {"torch": captured.text, "scheduled": whole, "gpu": gpu}
    return CompiledModule(Program(captured.signature, find_target(target), stages, built, constants, []), device, 0.0)


def assert_assembles(gpu: str, target: Target) -> None:
    """Every kernel of a program's gpu stage becomes PTX, and where ptxas is there, machine code without a stack or spills."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(gpu)
        run_pipeline(module, "inferno-lower")
        for device in [o for o in module.body.operations if o.operation.name == "gpu.module"]:
            ptx = nvptx.to_ptx(nvptx.llvm_text(device.operation), target)
            assembled = nvptx.assemble(ptx, target)
            assert ".entry" in ptx and (assembled is None or all(r.stack == r.spills == 0 for r in assembled[1].values()))
