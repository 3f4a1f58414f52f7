"""What a worker can be asked to do.  Text in, text and bytes out; no MLIR context that another uses.  Nothing here imports torch."""

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from inferno.dialect.random import RANDOM
from inferno.errors import CompileError, InputError
from inferno.mlir import ir, parse, walk
from inferno.options import MATMUL
from inferno.passes import modules
from inferno.passes.contraction import is_convolution, is_exact
from inferno.passes.draw_numbers import draw_numbers
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.lift_constants import lifted_values
from inferno.passes.manager import run_pipeline
from inferno.passes.programs import FEW, PRECISION, UNMEASURED, find_main
from inferno.passes.write_slices import WRITES
from inferno.runtime.check.calls import Calls, read_calls, without_schedules
from inferno.runtime.plan.kernel import Kernel, PassRecord
from inferno.runtime.plan.plan import Plan, Preparation
from inferno.runtime.plan.reader import read_module, read_preparation
from inferno.runtime.workers.tuning import Problem, problem_of
from inferno.schedule.analysis.cost import count_bytes, count_flops
from inferno.schedule.analysis.unchanged import texts_read_once
from inferno.schedule.assign import choosers, generators, kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute, module_of, stands_for, to_attribute
from inferno.schedule.known import key_of, set_known, take_asked
from inferno.target import Target, find_target
from inferno.targets.torch_source import Source, to_torch

# What holds a kernel's code at the ``gpu`` stage.
_HOLDER = {"nvptx": "gpu.module", "cpu": "builtin.module"}
_TF32_CONVOLUTIONS = "tf32_convolutions"
_CODE = frozenset(_HOLDER.values())


@dataclass(frozen=True)
class Fused:
    """A program up to the ``scheduled`` stage: text by stage, one module's text a kernel, the values of the constants that
    became arguments behind the signature's, and what the passes did.  ``keys``: what each kernel's measured schedule is found by, where the
    target is tuned for; ``ignored``: the kernels whose measured schedule they cannot have."""

    stages: dict[str, str]
    kernels: dict[str, str]
    constants: list[tuple[str, tuple[int, ...], bytes]]
    passes: list[PassRecord]
    keys: dict[str, str]
    ignored: list[str]


def needed(kind: str) -> list[str]:
    """The modules that a job imports when it comes to them, for targets of this kind: 0.2 s together."""
    made = generators(kind)
    return [*modules(), f"inferno.targets.{kind}", *(module_of(name, package) for package in ("schedule", "codegen") for name in made)]


def print_module(module: ir.Module, locations: bool = False) -> str:
    """The text of a valid module: printing would verify it once more."""
    return module.operation.get_asm(enable_debug_info=locations, assume_verified=True)


def run(text: str, pipeline: str) -> str:
    """The text of a module after a pipeline, whose last pass may leave it invalid."""
    module = parse(text)
    run_pipeline(module, pipeline)
    return str(module)


def lower_to_linalg(text: str, record: bool = False) -> tuple[str, list[PassRecord]]:
    """``torch`` -> ``linalg``; keeps locations."""
    module = parse(text)
    recorder = _Recorder(record)
    run_pipeline(module, "inferno-import", recorder, verify_each=record)
    return print_module(module, locations=True), recorder.records


def fuse(
    text: str, target: str, tf32: bool = False, record: bool = False, stage: str = "linalg", matmul: str = "auto", known: dict[str, str] | None = None,
    features: Sequence[str] = (), library: bool = False, last: str = "scheduled",
) -> Fused:
    """``linalg`` -> ``fused`` -> ``scheduled``, and the kernels, each as a module of its own; ``text`` is at one of the three.  With the ``last`` one
    ``fused`` no more is done, and there are no kernels yet.
    ``matmul`` is the option, ``known`` has measured schedules by their keys, ``features`` are the settings' (each is an attribute of the
    module that a pass looks for), ``library`` says whether there is cuBLASLt."""
    module = parse(text)
    recorder, machine = _Recorder(record), find_target(target)
    stages, keys = {}, {}
    # The CPU has its library in any case.
    if matmul == "generated" or (machine.kind == "nvptx" and (matmul == "library" or library)):
        module.operation.attributes[MATMUL] = ir.StringAttr.get(matmul, module.context)
    if UNMEASURED.removeprefix("inferno.") in features:
        module.operation.attributes[UNMEASURED] = ir.UnitAttr.get(module.context)
    if stage == "linalg":
        if machine.kind == "nvptx":
            module.operation.attributes[EXPAND] = ir.UnitAttr.get(module.context)
            module.operation.attributes[WRITES] = ir.UnitAttr.get(module.context)
        run_pipeline(module, "inferno-fuse", recorder, verify_each=record)
        stages["fused"] = print_module(module)
    if last == "fused":
        return Fused(stages, {}, lifted_values(module), recorder.records, {}, [])
    if stage != "scheduled":
        _allow_tf32(module, tf32, _TF32_CONVOLUTIONS in features)
        if machine.kind == "nvptx":
            set_known(module, known or {})
        for feature in [f for f in features if f != _TF32_CONVOLUTIONS]:
            module.operation.attributes[f"inferno.{feature}"] = ir.UnitAttr.get(module.context)
        with texts_read_once():
            run_pipeline(module, f"inferno-schedule{{target={target}}}", recorder, verify_each=record)
        for name in [n for n in (UNMEASURED, FEW) if n in module.operation.attributes]:
            del module.operation.attributes[name]
        asked = take_asked(module)
        keys = {name: asked[name] for k in kernels(module) if (name := k.name.value) in asked}
        stages["scheduled"] = print_module(module)
    with module.context:
        # The local form does not look at the rest of the module: 3 ms instead of 100 for 43 kernels.
        texts = {k.name.value: f"module {{\n{k.operation.get_asm(use_local_scope=True, assume_verified=True)}\n}}\n" for k in kernels(module)}
        best = {name: text.partition("\n")[0] for name, key in keys.items() if known and (text := known.get(key))}
        had = {k.name.value: k.attributes[ATTRIBUTE] for k in kernels(module) if k.name.value in best and key_of(k) == keys[k.name.value]}
    ignored = [name for name, schedule in had.items() if not stands_for(best[name], schedule) and matmul == "auto"]
    return Fused(stages, texts, lifted_values(module), recorder.records, keys, ignored)


def _allow_tf32(module: ir.Module, matmuls: bool, convolutions: bool) -> None:
    """Say of each kernel whether its products may be TF32: convolutions have a flag of their own."""
    for kernel in kernels(module):
        every = walk(kernel, "linalg.generic")
        if (convolutions if any(map(is_convolution, every)) else matmuls) and not any(map(is_exact, every)):
            kernel.attributes[PRECISION] = ir.StringAttr.get("tf32", module.context)


def build(text: str, target: str) -> Kernel:
    """One scheduled kernel, in a module of its own, to machine code.

    A generator that fails on a kernel which it took is a fault of ours, but not the user's loss: the last generator, which
    takes everything, makes the kernel instead, and ``note`` says why.
    """
    begin = time.perf_counter()
    machine = find_target(target)
    try:
        made = _build(parse(text), machine)
    except (OSError, MemoryError):  # the machine's fault, and the last generator would meet it too
        raise
    except Exception as error:
        made = build_instead(text, target, f"{type(error).__name__}: {error}".splitlines()[0])
    return replace(made, seconds=time.perf_counter() - begin)


def build_instead(text: str, target: str, reason: str) -> Kernel:
    """The kernel by the last generator, because the one that it was scheduled for failed for ``reason``."""
    machine = find_target(target)
    module = parse(text)
    kernel = kernels(module)[0]
    with module.context:
        first = from_attribute(kernel.attributes[ATTRIBUTE]).generator
        last = importlib.import_module(choosers(machine)[-1]).choose(kernel, machine)
        if first == last.generator:
            raise CompileError(f"kernel @{kernel.name.value} for {target}: {first} failed: {reason}")
        kernel.attributes[ATTRIBUTE] = to_attribute(last)
    return replace(_build(module, machine), note=f"{first} failed ({reason})")


def _build(module: ir.Module, machine: Target) -> Kernel:
    function = kernels(module)[0]
    name, facts = function.name.value, {
        "schedule": str(function.attributes[ATTRIBUTE]), "flops": count_flops(function), "bytes": count_bytes(function),
    }
    run_pipeline(module, f"generate-kernels{{target={machine.name}}}")
    generated = print_module(module)
    if machine.kind == "cpu":
        from inferno.targets import cpu

        return Kernel(name, generated, f"{name}_code", llvm=cpu.lower(module), **facts)
    return Kernel(name, generated, **_assemble(name, module, machine), **facts)


def _assemble(name: str, module: ir.Module, machine: Target) -> dict[str, Any]:
    """The kernel's LLVM IR, PTX, cubin and resources; nothing where every destination is empty and there is no code."""
    from inferno.targets import nvptx

    run_pipeline(module, "inferno-lower")
    if machine.early_launch:
        run_pipeline(module, "await-kernels")
    devices = [o for o in module.body.operations if o.operation.name == "gpu.module"]
    if not devices:
        return {}
    if len(devices) > 1:
        raise CompileError(f"kernel @{name} has {len(devices)} gpu.modules; a generator makes one")
    text = nvptx.llvm_text(devices[0].operation)
    ptx = nvptx.to_ptx(text, machine)
    cubin, resources = nvptx.assemble(ptx, machine) or (None, {})
    code = ir.StringAttr(devices[0].operation.attributes["sym_name"]).value
    return {"code": code, "llvm": text, "ptx": ptx, "cubin": cubin, "resources": resources}


def assemble(text: str, target: str) -> list[Kernel]:
    """The kernels of a module at the ``gpu`` stage, to machine code."""
    machine, module = find_target(target), parse(text)
    holders = [o.operation for o in module.body.operations if o.operation.name in _CODE]
    made = []
    for holder in holders:
        code = ir.StringAttr(holder.attributes["sym_name"]).value
        name = code.removesuffix("_gpu").removesuffix("_code")
        with module.context, ir.Location.unknown():
            part = ir.Module.create()
            part.body.append(holder.clone(ip=False))
        if machine.kind == "cpu":
            from inferno.targets import cpu

            made.append(Kernel(name, print_module(part), code, llvm=cpu.lower(part)))
        else:
            part.operation.attributes["gpu.container_module"] = ir.UnitAttr.get(module.context)
            made.append(Kernel(name, print_module(part), **_assemble(name, part, machine)))
    return made


def stage_of(text: str, target: str) -> str:
    """The stage that a program's text is at.  InputError if it is no program, or holds kernels of another kind of target."""
    machine = find_target(target)
    try:
        module = parse(text)
    except ir.MLIRError as error:
        first = error.error_diagnostics[0]
        place = str(first.location).removeprefix('loc("-":').removesuffix(")")
        raise InputError(f"it does not parse: line {place}: {first.message}") from error
    main = find_main(module)
    if main is None or main.is_external:
        raise InputError("it has no function @main, so it is not IR of a stage from torch to gpu")
    if any(o.name.startswith("torch.") for o in walk(main)) or "!torch." in str(main.type):
        return "torch"
    for kernel in kernels(module):
        made = from_attribute(kernel.attributes[ATTRIBUTE]).generator if ATTRIBUTE in kernel.attributes else None
        known = generators(machine.kind)
        if made is not None and made not in known:
            raise InputError(f"kernel @{kernel.name.value} is scheduled for {made}, which is not among target {target}'s: {', '.join(known)}")
    if "inferno.results" in main.attributes:
        held = {o.operation.name for o in module.body.operations if o.operation.name in _CODE}
        if held - {_HOLDER[machine.kind]}:
            raise InputError(f"its kernels are in a {min(held - {_HOLDER[machine.kind]})}, which is not of target {target}")
        return "gpu"
    if not kernels(module):
        return "linalg"
    return "scheduled" if all(ATTRIBUTE in k.attributes for k in kernels(module)) else "fused"


def plan(scheduled: str, modules: dict[str, str]) -> tuple[str, Plan, Preparation | None]:
    """``scheduled`` and the generated kernels -> the ``gpu`` stage, every kernel's code and ``@main`` as a launch plan; and
    that plan as data, and ``@prepare``'s."""
    module = parse(scheduled)
    with module.context, ir.Location.unknown():
        for kernel in kernels(module):
            part = ir.Module.parse(modules[kernel.name.value])
            for op in part.body.operations:
                ir.InsertionPoint(kernel.operation).insert(op.operation.clone(ip=False))
            kernel.operation.erase()
        if any(o.operation.name == "gpu.module" for o in module.body.operations):
            module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    run_pipeline(module, "plan-launches,plan-memory")
    return print_module(module), read_module(module), read_preparation(module)


def preparation_of(text: str) -> Preparation | None:
    """``@prepare`` of a program at the ``gpu`` stage as data."""
    return read_preparation(parse(text))


def build_alone(text: str, alone: str, target: str) -> tuple[Kernel, Plan]:
    """A scheduled kernel, and the plan of ``alone``, the program that only calls it."""
    kernel = build(text, target)
    return kernel, plan(alone, {kernel.name: kernel.module})[1]


def tuning_problem(text: str, key: str, target: str) -> Problem:
    """What there is to measure of a scheduled kernel, in a module of its own, whose schedule was looked for by ``key``."""
    return problem_of(text, key, target)


def calls_of(text: str) -> Calls:
    """``@main`` of a program at the ``fused`` or ``scheduled`` stage as data."""
    return read_calls(parse(text))


def to_pytorch(text: str) -> Source:
    """The PyTorch program of a module of the stages ``linalg``, ``fused`` and ``scheduled``."""
    module = parse(text)
    with module.context, ir.Location.unknown():
        draw_numbers(module)
    return to_torch(module)


def as_reproducer(text: str) -> tuple[str, Source, list[tuple[tuple[int, ...], str]]]:
    """A kernel as a program of its own at the ``scheduled`` stage: its text at the ``fused`` stage, the PyTorch program, and shapes and
    element types of the arguments."""
    fused = without_schedules(text)
    module = parse(fused)
    main = find_main(module)
    return fused, to_pytorch(fused), [(tuple(t.shape), str(t.element_type)) for t in main.type.inputs]


def argument_count(text: str) -> int:
    """How many arguments ``@main`` takes; random numbers are not given to it."""
    module = parse(text)  # which its operations need
    main = find_main(module)
    attributes = main.attributes["arg_attrs"] if "arg_attrs" in main.attributes else []
    return len(main.type.inputs) - sum(RANDOM in ir.DictAttr(a) for a in attributes)


class _Recorder:
    """Collects a PassRecord for each pass."""

    def __init__(self, text: bool) -> None:
        self.records: list[PassRecord] = []
        self._text = text
        self._last = time.perf_counter()

    def __call__(self, name: str, module: ir.Module) -> None:
        seconds = time.perf_counter() - self._last
        self.records.append(PassRecord(name, seconds, print_module(module) if self._text else None))
        self._last = time.perf_counter()
