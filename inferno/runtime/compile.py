"""``inferno.compile``: from a model to a CompiledModule, stage by stage."""

import functools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from inferno.capture import Captured, Signature, capture
from inferno.errors import InfernoError, InputError, PassError
from inferno.runtime.cache import Cache, kernel_key, open_cache, program_key
from inferno.runtime.device import find_device, target_of
from inferno.runtime.kernel import Kernel, PassRecord
from inferno.runtime.module import STAGES, CompiledModule, Program
from inferno.runtime.workers import WorkerDied, pool
from inferno.target import Target, find_target

log = logging.getLogger(__name__)


def compile(
    model: Any = None, example_inputs: Sequence[Any] | Any = None, *, inputs: Sequence[Any] | Any = None,
    kwargs: dict[str, Any] | None = None, target: str | None = None,
) -> Any:
    """Compile ``model`` for inputs like ``example_inputs``.

    ``model`` is an nn.Module, a function of tensors or a torch.export.ExportedProgram; ``example_inputs`` are its
    positional arguments (one tensor may stand alone) and ``kwargs`` its keyword arguments.  ``target`` names the machine
    to compile for (``sm_90a``, ``cpu``, ...); by default the one that the tensors are on.

    Returns a CompiledModule, which is called like the model.  Without a model this is a decorator,
    ``@inferno.compile(inputs=...)``: on a function it compiles at once, on an nn.Module class each instance compiles at
    its first call.

    Raises CaptureError when the model is not one graph of tensor operations, UnsupportedOperation for an operation that
    has no way into the compiler, OptionError for an unknown target.  The model is not run and not changed.
    """
    if example_inputs is not None and inputs is not None:
        raise InputError("give example_inputs or inputs, not both: they are the same thing, inputs= is for the decorator")
    examples = inputs if example_inputs is None else example_inputs
    if model is None:
        return functools.partial(_decorate, examples=examples, kwargs=kwargs, target=target)
    if isinstance(model, type) or (example_inputs is None and inputs is not None):
        return _decorate(model, examples=examples, kwargs=kwargs, target=target)
    if examples is None and not kwargs and not isinstance(model, torch.export.ExportedProgram):
        raise InputError("example_inputs is missing: pass a tuple of tensors like those that the model will be called with")
    return _compile(model, _as_tuple(examples), kwargs or {}, target)


def _as_tuple(examples: Any) -> tuple:
    if examples is None:
        return ()
    return tuple(examples) if isinstance(examples, (tuple, list)) else (examples,)


def _decorate(model: Any, *, examples: Any, kwargs: dict[str, Any] | None, target: str | None) -> Any:
    if isinstance(model, type):
        if not issubclass(model, torch.nn.Module):
            raise InputError(f"model: expected a torch.nn.Module class or a function, got class {model.__name__}")
        return _compiled_class(model, examples, kwargs, target)
    compiled = _compile(model, _as_tuple(examples), kwargs or {}, target)
    return functools.update_wrapper(compiled, model) if isinstance(model, Callable) and hasattr(model, "__name__") else compiled


def _compiled_class(cls: type, examples: Any, kwargs: dict[str, Any] | None, target: str | None) -> type:
    """A subclass whose instances compile at their first call, for ``examples`` or, without them, for that call's arguments."""

    def compiled(self: torch.nn.Module, *args: Any, **keywords: Any) -> CompiledModule:
        state = self.__dict__
        if "_inferno" not in state:
            state["_inferno"] = None  # the capture calls the module: let it through to the original
            try:
                given, named = (args, keywords) if examples is None else (_as_tuple(examples), kwargs or {})
                state["_inferno"] = _compile(self, given, named, target)
            finally:
                if state["_inferno"] is None:
                    del state["_inferno"]
        return state["_inferno"]

    class Compiled(cls):
        def __call__(self, *args: Any, **keywords: Any) -> Any:
            if self.__dict__.get("_inferno", self) is None:
                return super().__call__(*args, **keywords)
            return compiled(self, *args, **keywords)(*args, **keywords)

        def ir(self, stage: str) -> str:
            """The IR at ``stage``; the instance must have been called, or the decorator must hold the inputs."""
            return _existing(self).ir(stage)

        def explain(self) -> Any:
            return _existing(self).explain()

    def _existing(self: torch.nn.Module) -> CompiledModule:
        if examples is None and "_inferno" not in self.__dict__:
            raise InputError(f"{cls.__name__} has not been compiled yet: call it once, or give inputs= to the decorator")
        return compiled(self)

    return functools.update_wrapper(Compiled, cls, updated=())


def _compile(model: Any, args: tuple, kwargs: dict[str, Any], target: str | None) -> CompiledModule:
    begin = time.perf_counter()
    device = find_device(model, args, kwargs)
    machine = find_target(target) if target else target_of(device)
    captured = capture(model, args, kwargs)
    captured_at = time.perf_counter()
    program = build_program(captured, machine, tf32=torch.get_float32_matmul_precision() != "highest")
    log.info(
        "compiled for %s: %d kernels, capture %.2f s, compile %.2f s", machine.name, len(program.kernels),
        captured_at - begin, time.perf_counter() - captured_at,
    )
    return CompiledModule(program, device, time.perf_counter() - begin)


def build_program(captured: Captured, target: Target, tf32: bool = False, record: bool = False) -> Program:
    """Everything past the ``torch`` stage: from the cache, else in worker processes.  With ``record`` it is compiled in any
    case, and the passes' texts are kept."""
    if record:
        return build_from("torch", captured.text, target, tf32, record, signature=captured.signature)
    return replace(build_text(captured.text, target, tf32), signature=captured.signature)


def build_text(text: str, target: Target, tf32: bool = False) -> Program:
    """The program of a ``torch`` module's text, from the cache or compiled; it has no signature."""
    kept = open_cache()
    if kept is None:
        return build_from("torch", text, target, tf32)
    return load_or_build(kept, program_key(text, target, {"tf32": tf32}), target, lambda: build_from("torch", text, target, tf32))


def load_or_build(kept: Cache, key: str, target: Target, build: Callable[[], Program]) -> Program:
    """The program of this key, compiled by ``build`` and kept where there is none; or the error that it failed with, which is
    kept as well.  Of several processes that want the same program one compiles it, and the others wait."""
    program = kept.load_program(key, target)
    if program is None:
        with kept.lock(key):
            program = kept.load_program(key, target)  # another process may have made it meanwhile
            if program is None:
                try:
                    program = build()
                except InfernoError as error:
                    kept.save_failure(key, error, target)
                    raise
                if all(kernel.lasting for kernel in program.kernels.values()):
                    kept.save_program(key, program)
                return program
    _warn(program.kernels.values())
    return program


def build_from(
    stage: str, text: str, target: Target, tf32: bool = False, record: bool = False, last: str = "sass", signature: Signature | None = None,
) -> Program:
    """Everything past ``stage``, which ``text`` is at, and no more than ``last`` needs."""
    workers, wanted = pool(), STAGES.index(last)
    stages, passes, kernels, constants, plan = {stage: text}, [], [], [], None
    if stage == "torch" and wanted > STAGES.index("torch"):
        stages["linalg"], imported = _import(text, record)
        passes += imported
    start = next((s for s in ("linalg", "fused", "scheduled") if s in stages), None)
    if start and wanted > STAGES.index(start):
        fused = workers.run("fusing the program", "fuse", text=stages[start], target=target.name, tf32=tf32, record=record, stage=start)
        stages, passes, constants = {**stages, **fused.stages}, [*passes, *fused.passes], fused.constants
        if wanted > STAGES.index("scheduled"):
            kernels = _build_kernels(fused.kernels, target)
            _warn(kernels)
            stages["gpu"], plan = workers.run(
                "planning the launches", "plan", scheduled=stages["scheduled"], modules={k.name: k.module for k in kernels},
            )
    elif stage == "gpu" and wanted > STAGES.index("gpu"):
        kernels = workers.run("assembling the kernels", "assemble", text=text, target=target.name)
    return Program(signature, target, stages, {k.name: k for k in kernels}, constants, passes, plan)


def _warn(kernels: Iterable[Kernel]) -> None:
    for kernel in kernels:
        if kernel.note:
            log.warning("kernel @%s: %s; another generator made it", kernel.name, kernel.note)


def _build_kernels(texts: dict[str, str], target: Target) -> list[Kernel]:
    """Every kernel, from the cache or compiled, in parallel; one whose compiler process died is made by the last generator
    instead."""
    kept = open_cache()
    keys = {name: kernel_key(text, target) for name, text in texts.items()} if kept else {}
    found = {name: kernel for name, key in keys.items() if (kernel := kept.load_kernel(key))}
    labels = {name: f"kernel @{name} for {target.name}" for name in texts}
    futures = {name: pool().submit(labels[name], "build", text=text, target=target.name) for name, text in texts.items() if name not in found}
    for name, future in futures.items():
        try:
            found[name] = future.result()
            if kept:
                kept.save_kernel(keys[name], found[name], target)
        except WorkerDied as error:
            reason = str(error).splitlines()[0]
            instead = pool().run(labels[name], "build_instead", text=texts[name], target=target.name, reason=reason)
            found[name] = replace(instead, lasting=error.lasting)
            if kept and error.lasting:
                kept.save_kernel(keys[name], found[name], target)
    return [found[name] for name in texts]


def _import(text: str, record: bool) -> tuple[str, list[PassRecord]]:
    from inferno.capture import explain_failure

    try:
        return pool().run("importing the program", "lower_to_linalg", text=text, record=record)
    except (PassError, WorkerDied) as error:
        raise explain_failure(text, str(error), _lowers) from error


def _lowers(text: str) -> bool:
    """Whether a ``torch`` module lowers to linalg; a worker that it ends says no."""
    try:
        pool().run("importing an operation", "lower_to_linalg", text=text)
    except (PassError, WorkerDied):
        return False
    return True
