"""Inferno: an optimizing compiler for PyTorch, written in Python on MLIR."""

from inferno.errors import (
    AssertionFailed, CaptureError, CheckError, CompileError, DivisionByZero, IndexOutOfRange, InfernoError, InputError, LaunchError, ModelChanged, OptionError,
    PackageError, PassError, PlanError, StateNotKept, UnsupportedOperation, WorkerError,
)

__all__ = [
    "AssertionFailed", "CaptureError", "CheckError", "CompileError", "CompiledModule", "DivisionByZero", "IndexOutOfRange", "InfernoError", "InputError",
    "LaunchError", "ModelChanged", "OptionError", "PackageError", "PassError", "PlanError", "StateNotKept", "Stats", "UnsupportedOperation", "WorkerError",
    "compile", "explain", "load", "stats",
]


def __getattr__(name: str):
    # Lazily, so that a process that only runs passes does not wait for torch.
    if name == "compile":
        from inferno.runtime.compile import compile
        return compile
    if name == "load":
        from inferno.runtime.package.load import load
        return load
    if name == "explain":
        from inferno.runtime.explain import explain
        return explain
    if name in ("Stats", "stats"):
        from inferno.runtime import stats
        return getattr(stats, name)
    if name == "CompiledModule":
        from inferno.runtime.module import CompiledModule
        return CompiledModule
    if name == "__version__":
        from importlib.metadata import version
        return version("inferno-compiler")
    raise AttributeError(f"module 'inferno' has no attribute {name!r}")
