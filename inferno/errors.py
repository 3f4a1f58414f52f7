"""The errors that a user of Inferno can meet.  Each message says what is wrong and what to do about it."""

import logging


class InfernoError(Exception):
    """Base of every error that Inferno raises on purpose.  ``lasting``: the same attempt would fail again; not so where a
    process was killed or a disk was full."""

    lasting = True


class CaptureError(InfernoError):
    """The model could not be captured as one graph of tensor operations."""


class UnsupportedOperation(InfernoError):
    """An operation of the model has no way into the compiler.  Names the operation, the user's line and the shapes."""


class NoLowering(UnsupportedOperation):
    """Something in a ``torch`` module has no lowering to linalg.  The message is MLIR's, which seldom names it."""


class InputError(InfernoError, ValueError):
    """A call's arguments do not fit the compiled module.  Names the argument, what was expected and what came."""


class ModelChanged(InputError):
    """The model is not the one that was compiled: a module was replaced, or put into the other mode of train and eval."""


class StateNotKept(InputError):
    """The model's forward changes something in Python that no way of capturing keeps right.  Names it, and what to use instead."""


class IndexOutOfRange(InputError, IndexError, RuntimeError):
    """An index that a tensor holds is out of range, as found on the CPU.  Names the kernel and the operations in it.  Eager raises an
    IndexError or, for gathers and scatters, a RuntimeError: this is both."""


class DivisionByZero(InputError, ZeroDivisionError, RuntimeError):
    """An integer is divided by zero, as found on the CPU.  Names the kernel and the operations in it.  Eager's error is a RuntimeError."""


class AssertionFailed(InfernoError, AssertionError, RuntimeError):
    """What a model asserts of a call's tensors is not so, as found on the CPU.  Eager raises an AssertionError for an ``assert`` and a RuntimeError for
    torch's assertions, which are one in a graph: this is both."""


class OptionError(InfernoError, ValueError):
    """An option, target or name that does not exist; lists the ones that do."""


class CompileError(InfernoError):
    """A stage of the compiler failed on valid input: a fault of Inferno's.  Names the stage and the kernel."""


class WorkerError(InfernoError):
    """A process that compiles cannot start on this machine.  Says what Python said."""

    lasting = False


class PassError(InfernoError):
    """A pass or pipeline failed, or its text names something that does not exist."""


def level_of(error: InfernoError) -> int:
    """How loudly it is logged that something slower stands in for what failed: a warning for a fault of Inferno's, of which nobody else would hear."""
    return logging.WARNING if isinstance(error, (CompileError, PassError)) else logging.INFO


class CheckError(InfernoError):
    """A compiled model's result is wrong.  Names the result, the errors, and the first kernel that is off."""


class TuneError(InfernoError):
    """Tuning is not possible here: there is no GPU that the kernels are for, or its results cannot be kept."""


class LaunchError(InfernoError):
    """The driver refused a kernel or a launch."""


class PlanError(InfernoError, ValueError):
    """A launch plan that was read from a file is damaged: a field is missing, or its numbers do not fit each other."""


class PackageError(InfernoError):
    """A package cannot be written, or is damaged, from a newer version or for another machine.  Names the file and what is wrong."""
