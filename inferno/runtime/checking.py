"""Hold a compiled model against eager and float64 on one call: its results, what it writes to, and each of its kernels.

Eager and float64 run the model itself, isolated: nothing that it would write to is changed, and random numbers are those that
the compiled call draws.  Only when a result is off is the program run again kernel by kernel, to tell where it begins.
"""

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves

from inferno.errors import CheckError
from inferno.runtime.comparison import Comparison, compare_leaf, relative_error
from inferno.runtime.isolation import Isolated, run_isolated
from inferno.runtime.perturbation import run_perturbed
from inferno.runtime.trace import KernelCheck, Tracer

log = logging.getLogger(__name__)

_TF32 = 2.0**-10


@dataclass(frozen=True)
class ResultCheck:
    """One result of a call, or a tensor that it wrote to."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    comparison: Comparison

    @property
    def right(self) -> bool:
        return self.comparison.right


@dataclass(frozen=True)
class CallCheck:
    """A call of a compiled model, checked.  ``arguments`` are those of its program's ``@main`` before the call, where it has one;
    ``random``: random numbers were drawn, so that float64's results are not those of the same numbers."""

    results: tuple[ResultCheck, ...]
    output: Any
    arguments: tuple[Tensor, ...] | None
    random: bool = False

    @property
    def right(self) -> bool:
        return all(r.right for r in self.results)


def check_call(compiled: Any, model: Callable, args: tuple, kwargs: dict[str, Any]) -> CallCheck:
    """Call ``compiled``, for real, and hold what it gives and writes against the model's eager call on the same tensors."""
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    devices = list({t.device for t in (*tensors, torch.empty(0, device=compiled.device))})
    call = lambda: _plain(model)(*_fresh(args, tensors), **_fresh(kwargs, tensors))  # noqa: E731
    with _original(model):
        eager, own = run_isolated(call, devices)
        exact, wide = run_isolated(call, devices, wide=True)
    arguments = _arguments(compiled, args, kwargs, own)
    written = _written(compiled, args, kwargs, own)
    with torch.no_grad():
        output = compiled(*args, **kwargs)
    unit = _TF32 if torch.get_float32_matmul_precision() != "highest" and compiled.device.type == "cuda" else None
    perturbed: list[list[Any]] = []

    def judge(name: str, i: int, a: Any, b: Any, c: Any) -> ResultCheck:
        found = compare_leaf(name, a, b, c, unit)
        if not found.right and found.error < float("inf") and i >= 0:
            if not perturbed:
                with _original(model):
                    perturbed.extend(tree_leaves(run_isolated(lambda n=n: run_perturbed(call, [n])[0], devices)[0]) for n in range(3))
            found = compare_leaf(name, a, b, c, unit, max(relative_error(p[i], b, c) for p in perturbed))
        return ResultCheck(name, tuple(getattr(b, "shape", ())), str(getattr(b, "dtype", type(b).__name__)).removeprefix("torch."), found)

    leaves = tree_flatten_with_path(eager)[0]
    ours, theirs = tree_leaves(output), tree_leaves(exact)
    if len(ours) != len(leaves):
        wrong = Comparison(float("inf"), 0.0, 0.0, f"{len(ours)} results where eager has {len(leaves)}")
        return CallCheck((ResultCheck("results", (), "", wrong),), output, arguments, own.random)
    results = [judge(f"output{keystr(path)}", i, a, b, c) for i, ((path, b), a, c) in enumerate(zip(leaves, ours, theirs))]
    results += [judge(f"{name}, written to", -1, t, own.read(t), wide.read(t)) for name, t in written]
    return CallCheck(tuple(results), output, arguments, own.random)


def check_kernels(compiled: Any, arguments: tuple[Tensor, ...] | None, stop: bool = False) -> list[KernelCheck]:
    """Every kernel call of the compiled model's program; with ``stop`` up to the first that is off.

    CheckError where its calls cannot be told apart, or are several programs'.
    """
    if len(compiled.programs) != 1 or arguments is None:
        raise CheckError(f"the model is {len(compiled.programs)} programs with eager operations between them")
    found: list[KernelCheck] = []
    for one in Tracer(compiled.program, compiled.device).run(arguments):
        found.append(one)
        if stop and not one.right:
            break
    return found


def explain_wrong(compiled: Any, call: CallCheck) -> str:
    """The message of a CheckError: the first result that is off, and the first kernel that is."""
    first = next(r for r in call.results if not r.right)
    text = f"{first.comparison.problem} (eager's own error {first.comparison.eager_error:.2e})"
    if call.random:
        text += "; the model draws random numbers, which need not be those that eager draws"
    return f"{text}. {find_kernel(compiled, call.arguments)}"


def find_kernel(compiled: Any, arguments: tuple[Tensor, ...] | None) -> str:
    """A sentence about where a wrong result begins."""
    try:
        kernels = check_kernels(compiled, arguments, stop=True)
    except CheckError as error:
        return f"Which kernel is off could not be told: {error}"
    unknown = [k for k in kernels if k.comparison is None]
    if kernels and not kernels[-1].right:
        last = kernels[-1]
        wrong = f"{last.comparison.problem}, eager's {last.comparison.eager_error:.2e}"
        found = f"The first kernel that is off is @{last.kernel} ({', '.join(last.source)}): {wrong}"
        return found + (f"; before it, {len(unknown)} calls could not be checked" if unknown else "")
    if unknown:
        return f"No kernel was found to be off, but @{unknown[0].kernel} could not be checked: {unknown[0].note}"
    from inferno.runtime.stage_check import find_stage

    return f"Every kernel computes what its IR says; {find_stage(compiled, arguments)}"


def check_first_call(compiled: Any, model: Callable) -> Any:
    """Make the first call of a CompiledModule a checked one: it raises CheckError if the result is off, and leaves what the
    model writes to as it was."""
    fast, plain = compiled._fast, compiled._call
    busy = [False]

    def checked(args: tuple, kwargs: dict[str, Any]) -> Any:
        if busy[0]:
            return plain(args, kwargs)
        busy[0] = True
        try:
            before = _state(compiled, args, kwargs)
            found = check_call(compiled, model, args, kwargs)
            if not found.right:
                for tensor, value in before:
                    tensor.copy_(value)
                raise CheckError(explain_wrong(compiled, found))
        finally:
            busy[0] = False
        compiled._fast = fast
        del compiled._call
        log.info("checked: %d results are right", len(found.results))
        return found.output

    compiled._fast = None
    compiled._call = checked
    return compiled


def _state(compiled: Any, args: tuple, kwargs: dict[str, Any]) -> list[tuple[Tensor, Tensor]]:
    """The tensors that a call writes to, each with a copy."""
    tensors = compiled.program.signature.arguments_of(args, kwargs)
    written = [tensors[r.target] for r in compiled.program.signature.results if r.kind == "mutation"]
    return [(t, t.detach().clone()) for t in written]


def _arguments(compiled: Any, args: tuple, kwargs: dict[str, Any], mode: Isolated) -> tuple[Tensor, ...] | None:
    """The arguments of the program's ``@main``, as the kernels need them; copies of those that the call writes to."""
    program = getattr(compiled, "program", None)
    if program is None or program.signature is None:
        return None
    tensors = program.signature.arguments_of(args, kwargs)
    device = compiled.device
    ready = [t.detach().to(device).contiguous() for t in tensors]
    return tuple(r.clone() if mode.wrote(t) and r.data_ptr() == t.data_ptr() else r for r, t in zip(ready, tensors))


def _written(compiled: Any, args: tuple, kwargs: dict[str, Any], mode: Isolated) -> list[tuple[str, Tensor]]:
    """The inputs, parameters and buffers that eager writes to, by name."""
    found: list[tuple[str, Tensor]] = []
    program = getattr(compiled, "program", None)
    if program is not None and program.signature is not None:
        tensors = program.signature.arguments_of(args, kwargs)
        found = [(a.name, t) for a, t in zip(program.signature.arguments, tensors)]
    else:
        found = [(keystr(path), t) for path, t in tree_flatten_with_path((args, kwargs))[0] if isinstance(t, Tensor)]
    return [(name, t) for name, t in found if mode.wrote(t)]


def _fresh(value: Any, tensors: list[Tensor]) -> Any:
    """Containers anew (a cache object that the model appends to), the tensors in them the same."""
    try:
        return copy.deepcopy(value, {id(t): t for t in tensors})
    except Exception:  # an object that cannot be copied is passed as it is
        return value


def _plain(model: Callable) -> Callable:
    return model.module() if isinstance(model, torch.export.ExportedProgram) else model


@contextmanager
def _original(model: Any) -> Iterator[None]:
    """While this lasts an instance of a decorated class runs its own forward."""
    state = getattr(model, "__dict__", {})
    held = state.get("_inferno")
    if "_inferno" in state:
        state["_inferno"] = None
    try:
        yield
    finally:
        if "_inferno" in state:
            state["_inferno"] = held
