"""From the ``torch`` stage to a Program, in worker processes or from the cache."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from typing import Any

from inferno.capture import Captured, Signature
from inferno.errors import InfernoError, NoLowering, PassError
from inferno.options import STAGES
from inferno.runtime.cache.cache import Cache, kernel_key, open_cache, program_key
from inferno.runtime.database import known_schedules
from inferno.runtime.device import features
from inferno.runtime.launch.cublaslt import library_path
from inferno.runtime.plan.kernel import Kernel, PassRecord
from inferno.runtime.program import Program
from inferno.runtime.workers.pool import WorkerDied, pool
from inferno.target import Target

log = logging.getLogger(__name__)


# What finds the best schedules of kernels: of a folder behind this one.
_TUNER = "inferno.tune.tuner"


def build_program(
    captured: Captured, target: Target, tf32: bool = False, record: bool = False, explain: bool = True, matmul: str = "auto", tune: bool = False,
) -> Program:
    """Everything past the ``torch`` stage: from the cache, else in worker processes.  With ``record`` it is compiled in any
    case, and the passes' texts are kept.  ``matmul`` and ``tune`` are the options.

    Without ``explain`` an operation that has no lowering is a NoLowering that does not name it: who finds it out needs no other to.
    """
    from inferno.capture import explain_failure

    try:
        if record:
            return build_from("torch", captured.text, target, tf32, record, signature=captured.signature, matmul=matmul, tune=tune)
        return replace(build_text(captured.text, target, tf32, matmul, tune), signature=captured.signature)
    except NoLowering as error:
        if not explain:
            raise
        raise explain_failure(captured.text, str(error), _lowers) from error


def build_text(text: str, target: Target, tf32: bool = False, matmul: str = "auto", tune: bool = False) -> Program:
    """The program of a ``torch`` module's text, from the cache or compiled; it has no signature."""
    kept = open_cache()
    if kept is None:
        return build_from("torch", text, target, tf32, matmul=matmul, tune=tune)
    key = text_key(text, target, tf32, matmul, tune)
    return load_or_build(kept, key, target, lambda: build_from("torch", text, target, tf32, matmul=matmul, tune=tune))


def text_key(text: str, target: Target, tf32: bool, matmul: str = "auto", tune: bool = False) -> str:
    """The key under which ``build_text`` keeps a program.  One that was tuned for is another: what was compiled before was not."""
    options = {"tf32": tf32, **({"matmul": matmul} if matmul != "auto" else {}), **({"tune": True} if tune else {})}
    return program_key(text, target, {**options, "features": features(), "library": _has_library(target)})


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
    matmul: str = "auto", tune: bool = False,
) -> Program:
    """Everything past ``stage``, which ``text`` is at, and no more than ``last`` needs."""
    workers, wanted = pool(), STAGES.index(last)
    stages, passes, kernels, constants, plan, preparation, known = {stage: text}, [], [], [], None, None, {}
    with workers.bar.shown():
        if stage == "torch" and wanted > STAGES.index("torch"):
            stages["linalg"], imported = _import(text, record)
            passes += imported
        start = next((s for s in ("linalg", "fused", "scheduled") if s in stages), None)
        if start and wanted > STAGES.index(start):
            fused, known = _fuse(start, stages[start], target, tf32, matmul, record, last)
            stages, passes, constants = {**stages, **fused.stages}, [*passes, *fused.passes], fused.constants
    if known and tune and import_module(_TUNER).tune_kernels(fused.kernels, fused.keys, target):
        fused, known = _fuse("fused", stages["fused"], target, tf32, matmul)
        stages.update(fused.stages)
    with workers.bar.shown():
        if "scheduled" in stages and wanted > STAGES.index("scheduled"):
            kernels = _build_kernels(fused.kernels, target)
            _warn(kernels)
            stages["gpu"], plan, preparation = workers.run(
                "planning the launches", "plan", scheduled=stages["scheduled"], modules={k.name: k.module for k in kernels},
            )
        elif stage == "gpu" and wanted > STAGES.index("gpu"):
            kernels = workers.run("assembling the kernels", "assemble", text=text, target=target.name)
            preparation = workers.run("reading the preparation", "preparation_of", text=text)
    return Program(signature, target, stages, {k.name: k for k in kernels}, constants, passes, plan, preparation, known)


def _fuse(
    stage: str, text: str, target: Target, tf32: bool = False, matmul: str = "auto", record: bool = False, last: str = "scheduled",
) -> tuple[Any, dict[str, str]]:
    """To the ``scheduled`` stage, if ``last`` is not before it; and what is known of its kernels' best schedules."""
    known = dict(known_schedules(target))
    fused = pool().run(
        "fusing the program", "fuse", text=text, target=target.name, tf32=tf32, record=record, stage=stage, matmul=matmul, known=known,
        features=features(), library=_has_library(target), last="fused" if last == "fused" else "scheduled",
    )
    for name in fused.ignored:
        log.warning("kernel @%s: the schedule that was measured is ignored, because this version does not have it: tune again", name)
    return fused, {key: known.get(key, "") for key in fused.keys.values()}


def _has_library(target: Target) -> bool:
    """Whether cuBLASLt is there, which ``matmul="auto"`` weighs."""
    return target.kind == "nvptx" and library_path() is not None


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
    # The longest take longest, and what begins last should not: TinyLlama's 43 take 0.05 to 0.5 s each.
    missing = sorted((name for name in texts if name not in found), key=lambda name: -len(texts[name]))
    futures = {name: pool().share(labels[name], "build", text=texts[name], target=target.name) for name in missing}
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
    try:
        return pool().run("importing the program", "lower_to_linalg", text=text, record=record)
    except (PassError, WorkerDied) as error:
        raise NoLowering(str(error)) from error


def _lowers(text: str) -> bool:
    """Whether a ``torch`` module lowers to linalg; a worker that it ends says no."""
    try:
        pool().run("importing an operation", "lower_to_linalg", text=text)
    except (PassError, WorkerDied):
        return False
    return True
