"""The shell commands on a package, ``FILE.inferno``: run it, explain it, print a stage of it."""

import argparse
import sys
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_unflatten

from inferno.capture import Signature
from inferno.errors import InputError
from inferno.runtime.report import counted
from inferno.tools.subject import COMPILING, INPUTS, refuse


def _load(options: argparse.Namespace, device: str | None):
    from inferno.runtime.package.load import load

    refuse(options, (*COMPILING, *INPUTS), "is compiled already, and the option is for what is still to be compiled")
    return load(options.expr, device)


def run_package(options: argparse.Namespace) -> int:
    """Call it on random inputs; there is no model to compare with.  Where it writes to nothing it is called twice: 1 if the
    results' bits differ."""
    compiled = _load(options, None)
    signature = compiled.program.signature
    args, kwargs = example_call(signature, compiled.device)
    first = [leaf for leaf in tree_leaves(compiled(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    shapes = ", ".join(f"{tuple(t.shape)} {str(t.dtype).removeprefix('torch.')}" for t in first)
    same, verdict = True, "it writes to its state"
    if all(r.kind != "mutation" for r in signature.results):
        second = [leaf for leaf in tree_leaves(compiled(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
        same = all(torch.equal(_bits(a), _bits(b)) for a, b in zip(first, second))
        verdict = "the same bits in two calls" if same else "OTHER BITS in a second call"
    print(f"{options.expr}: {counted(len(compiled.program.kernels), 'kernel')} on {compiled.program.target.name}; results {shapes or 'none'}; {verdict}")
    if options.bench:
        from inferno.tools.timing import call_times

        print(f"call: {call_times({'inferno': lambda: compiled(*args, **kwargs)}, compiled.device)['inferno']:.1f} us")
    return 0 if same else 1


def explain_package(options: argparse.Namespace) -> int:
    """Print a package's table of kernels; the command's exit status."""
    from rich.console import Console

    sys.stdout.write(_load(options, "cpu").explain().render(max(120, Console().width)))
    return 0


def print_package(options: argparse.Namespace) -> int:
    """Print a stage that was saved; the command's exit status."""
    sys.stdout.write(_load(options, "cpu").ir(options.ir))
    return 0


def example_call(signature: Signature, device: torch.device) -> tuple[tuple, dict[str, Any]]:
    """Arguments that fit: normal floats, zeros for integers (an index that always exists), True for booleans."""

    def make(index: int) -> torch.Tensor:
        made, order, part = in_memory(index), signature.arguments[index].order, signature.arguments[index].part
        if part is not None:
            return made.as_strided(part.shape, part.strides, part.begins)
        return made if order is None else made.permute([order.index(d) for d in range(len(order))])

    def in_memory(index: int) -> torch.Tensor:
        argument = signature.arguments[index]
        if not all(isinstance(s, int) for s in argument.shape):
            raise InputError(f"argument {argument.name} has a size that varies; call the package from Python, where the size is yours to choose")
        if argument.dtype.is_floating_point or argument.dtype.is_complex:
            wide = torch.complex64 if argument.dtype.is_complex else torch.float32
            return torch.randn(argument.shape, dtype=wide, device=device).to(argument.dtype)
        return (torch.ones if argument.dtype is torch.bool else torch.zeros)(argument.shape, dtype=argument.dtype, device=device)

    values = [make(v) if is_tensor else v for is_tensor, v in signature.leaves]
    args, kwargs = tree_unflatten(values, signature.input_spec)
    return args, kwargs


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


__all__ = ["example_call", "explain_package", "print_package", "run_package"]
