"""What a command line names (a package, a file of IR, or a model with what it is called with), and the model compiled with the line's options."""

import argparse
from collections.abc import Iterable
from typing import Any

from inferno.errors import OptionError
from inferno.target import find_target

# Options of a compile and of a model's inputs, as ``_add_subject`` of ``cli`` gives them.
COMPILING, INPUTS = ("target", "matmul", "freeze", "tune"), ("dtype", "batch", "sequence")


def names_package(options: argparse.Namespace) -> bool:
    """Whether the command's subject is a package."""
    return options.code is None and (options.expr or "").endswith(".inferno")


def names_ir(options: argparse.Namespace) -> bool:
    """Whether the command's subject is a file with the IR of a stage."""
    return options.code is None and (options.expr or "").endswith(".mlir")


def refuse(options: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """OptionError for an option among these that the command line gives, and that would do nothing, because of ``why``."""
    for name in names:
        if getattr(options, name) not in (None, False, "auto"):
            raise OptionError(f"--{name}: {options.expr} {why}")


def device_for(target: str | None) -> str:
    """Where to put the tensors: on the GPU if the target is one and there is one."""
    import torch

    wants_gpu = target is None or find_target(target).kind == "nvptx"
    return "cuda" if wants_gpu and torch.cuda.is_available() else "cpu"


def read(options: argparse.Namespace) -> Any:
    """The model, and what it is called with (a Subject)."""
    from inferno.tools.expression import read_subject
    from inferno.tools.hugging_face import make_sizes

    if options.target:
        find_target(options.target)
    return read_subject(options.expr, options.code, device_for(options.target), make_sizes(options.dtype, options.batch, options.sequence))


def read_compiled(options: argparse.Namespace) -> tuple[Any, Any]:
    """The Subject, and its model compiled."""
    from inferno.runtime.compile import compile

    subject = read(options)
    return subject, compile(subject.model, subject.args, kwargs=subject.kwargs, **{name: getattr(options, name) for name in COMPILING})
