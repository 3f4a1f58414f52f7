"""Hold a compiled model against eager and float64 on one call: its results, what it writes to, and each of its kernels.

Eager and float64 run the model itself, isolated: nothing that it would write to is changed, and random numbers are those that
the compiled call draws.  Only when a result is off is the program run again kernel by kernel, to tell where it begins.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves

from inferno.errors import CheckError, InputError
from inferno.runtime.check.comparison import Comparison, compare_leaf, relative_error
from inferno.runtime.check.isolation import fresh, run_isolated
from inferno.runtime.check.perturbation import FLOAT64_TO_FLOAT32, run_perturbed
from inferno.runtime.plan.complex_numbers import as_pairs
from inferno.tf32 import takes_tf32
from inferno.runtime.program import Program
from inferno.runtime.region.region import Region
from inferno.runtime.check.region_check import record
from inferno.runtime.check.trace import KernelCheck, Tracer

log = logging.getLogger(__name__)

_TF32 = 2.0**-10  # of TF32's mantissa of 10 bits the last


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
    """A call of a compiled model, checked.  ``before`` has the tensors that it wrote to, each with a copy of what it held;
    ``random``: random numbers were drawn, so that eager's results need not be of the same numbers."""

    results: tuple[ResultCheck, ...]
    output: Any
    before: tuple[tuple[Tensor, Tensor], ...]
    random: bool = False

    @property
    def right(self) -> bool:
        return all(r.right for r in self.results)

    @property
    def worst(self) -> Comparison:
        """Of the results' comparisons the first that is off, else that of the largest error."""
        found = [r.comparison for r in self.results]
        return next((c for c in found if not c.right), max(found, key=lambda c: c.error, default=Comparison(0.0, 0.0, 0.0)))

    def restore(self) -> None:
        """Take back what the call wrote."""
        with torch.no_grad():
            for tensor, value in self.before:
                tensor.copy_(value)


def check_call(compiled: Any, model: Callable, args: tuple, kwargs: dict[str, Any]) -> CallCheck:
    """Call ``compiled``, for real, and hold what it gives and writes against the model's eager call on the same tensors."""
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    with _original(model):
        eager = lambda given: _plain(model)(*fresh(args, tensors, given), **fresh(kwargs, tensors, given))  # noqa: E731
        return check_against(lambda: compiled(*args, **kwargs), eager, _held(compiled, args, kwargs), compiled.device, _tables(compiled, model))


def check_against(
    ours: Callable[[], Any], eager: Callable[[Callable], Any], held: list[tuple[str, Tensor]], device: torch.device,
    tables: Sequence[tuple[dict[str, Any], str]] = (),
) -> CallCheck:
    """Call ``ours`` and hold its results, and what it writes to the tensors of ``held``, against ``eager`` and float64.

    ``eager`` and ``tables`` are as ``run_isolated`` takes them.
    """
    devices = list({device, *(t.device for _, t in held)})
    expected, own = run_isolated(eager, devices, held=tables)
    try:
        exact, wide = run_isolated(eager, devices, torch.float64, tables, own.drawn)
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        raise CheckError(
            f"it could not be checked, because the model does not run in float64: {type(error).__name__}: {error}; without check=True it is run unchecked"
        ) from error
    written = [(name, t) for name, t in held if own.wrote(t)]
    before = tuple((t, t.detach().clone()) for _, t in written)
    state = [torch.random.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]
    output = ours()
    unit = _TF32 if takes_tf32() and device.type == "cuda" else None
    perturbed: list[list[Any]] = []
    halved: list[Any] = []

    def own_error(i: int, b: Tensor, c: Tensor) -> float:
        """Eager's error by other runs of eager, on the same tensors and random numbers."""
        with _random_state(state, device):
            if not perturbed:
                for n in range(3):
                    run, _ = run_isolated(lambda given, n=n: run_perturbed(lambda: eager(given), [n])[0], devices, held=tables)
                    perturbed.append(tree_leaves(run))
            found = max(relative_error(p[i], b, c) for p in perturbed)
            if b.dtype is torch.float64:
                halved.extend([] if halved else tree_leaves(run_isolated(eager, devices, torch.float32, tables, own.drawn)[0]))
                found = max(found, relative_error(halved[i], b, c) * FLOAT64_TO_FLOAT32)
        return found

    def judge(name: str, i: int, a: Any, b: Any, c: Any) -> ResultCheck:
        found = compare_leaf(name, a, b, c, unit)
        if not found.right and found.error < float("inf") and i >= 0 and not before:
            found = compare_leaf(name, a, b, c, unit, own_error(i, b, c))
        return ResultCheck(name, tuple(getattr(b, "shape", ())), str(getattr(b, "dtype", type(b).__name__)).removeprefix("torch."), found)

    leaves = tree_flatten_with_path(expected)[0]
    made, theirs = tree_leaves(output), tree_leaves(exact)
    if len(made) != len(leaves):
        wrong = Comparison(float("inf"), 0.0, 0.0, f"{len(made)} results where eager has {len(leaves)}")
        return CallCheck((ResultCheck("results", (), "", wrong),), output, before, own.random)
    results = [judge(f"output{keystr(path)}", i, a, b, c) for i, ((path, b), a, c) in enumerate(zip(leaves, made, theirs))]
    results += [judge(f"{name}, written to", -1, t, own.read(t), wide.read(t)) for name, t in written]
    return CallCheck(tuple(results), output, before, own.random)


@contextmanager
def _random_state(state: list[Tensor], device: torch.device) -> Iterator[None]:
    """While this lasts random numbers are those of a moment before."""
    with torch.random.fork_rng(devices=[device.index or 0] if device.type == "cuda" else []):
        torch.random.set_rng_state(state[0])
        if device.type == "cuda":
            torch.cuda.set_rng_state(state[1], device)
        yield


def check_kernels(compiled: Any, args: tuple, kwargs: dict[str, Any]) -> list[KernelCheck]:
    """Every kernel call of the compiled model's programs.  Only a model with eager operations between its programs is called, and then what it
    writes to is changed.

    CheckError where the calls cannot be told apart.
    """
    return [k for _, k in trace(programs_of(compiled, args, kwargs), compiled.device)]


def programs_of(compiled: Any, args: tuple, kwargs: dict[str, Any]) -> list[tuple[Program, tuple[Tensor, ...]]]:
    """The programs that a call runs, with the arguments of each one's ``@main``."""
    regions = _regions(compiled)
    if regions is None:
        tensors = compiled.program.signature.arguments_of(args, kwargs)
        return [(compiled.program, tuple(t.detach().to(compiled.device).contiguous().clone() for t in tensors))]
    return record(regions, lambda: compiled(*args, **kwargs))


def trace(programs: list[tuple[Program, tuple[Tensor, ...]]], device: torch.device, stop: bool = False) -> list[tuple[Tracer, KernelCheck]]:
    """Every kernel call of the programs in order, with the Tracer of its program."""
    found: list[tuple[Tracer, KernelCheck]] = []
    tracers: dict[int, Tracer] = {}
    for program, arguments in programs:
        if id(program) not in tracers:
            tracers[id(program)] = Tracer(program, device)
        tracer = tracers[id(program)]
        for one in tracer.run(as_pairs(program.launch_plan(), arguments)):
            found.append((tracer, one))
            if stop and not one.right:
                return found
    return found


def _regions(compiled: Any) -> list[Region] | None:
    """The regions of a model with eager operations between its programs; None for one that is one program."""
    if hasattr(compiled, "region"):
        return [compiled.region, *compiled.called]
    return [region for _, region in compiled.regions] if hasattr(compiled, "regions") else None


def explain_wrong(call: CallCheck, programs: Callable[[], list[tuple[Program, tuple[Tensor, ...]]]], device: torch.device) -> str:
    """The message of a CheckError: the first result that is off, and the first kernel that is.  ``programs`` are those that the call
    ran, with their arguments; getting them may run it again, so what it wrote is taken back before and after."""
    first = next(r for r in call.results if not r.right)
    text = f"{first.comparison.problem} (eager's own error {first.comparison.eager_error:.2e})"
    if call.random:
        text += "; the model draws random numbers, which need not be those that eager draws"
    call.restore()
    try:
        return f"{text}. {find_kernel(programs(), device)}"
    finally:
        call.restore()


def find_kernel(programs: list[tuple[Program, tuple[Tensor, ...]]], device: torch.device) -> str:
    """A sentence about where a wrong result begins."""
    try:
        kernels = [k for _, k in trace(programs, device, stop=True)]
    except (CheckError, InputError) as error:
        return f"Which kernel is off could not be told: {error}"
    unknown = [k for k in kernels if k.comparison is None]
    if kernels and not kernels[-1].right:
        last = kernels[-1]
        wrong = f"{last.comparison.problem}, eager's {last.comparison.eager_error:.2e}"
        found = f"The first kernel that is off is @{last.kernel} ({', '.join(last.source)}): {wrong}"
        return found + (f"; before it, {len(unknown)} calls could not be checked" if unknown else "")
    if unknown:
        return f"No kernel was found to be off, but @{unknown[0].kernel} could not be checked: {unknown[0].note}"
    if len(programs) != 1:
        return "Every kernel computes what its IR says: it is the IR of one of the compiled pieces, or what lies between them"
    from inferno.runtime.check.stage_check import find_stage

    program, arguments = programs[0]
    return f"Every kernel computes what its IR says; {find_stage(program, as_pairs(program.launch_plan(), arguments), device)}"


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
            found = check_call(compiled, model, args, kwargs)
            if not found.right:
                raise CheckError(explain_wrong(found, lambda: programs_of(compiled, args, kwargs), compiled.device))
        finally:
            busy[0] = False
        compiled._fast = fast
        del compiled._call
        log.info("checked: %d results are right", len(found.results))
        return found.output

    compiled._fast = None
    compiled._call = checked
    return compiled


def _held(compiled: Any, args: tuple, kwargs: dict[str, Any]) -> list[tuple[str, Tensor]]:
    """The tensors that a call may write to, by name: inputs, parameters and buffers."""
    program = getattr(compiled, "program", None)
    if program is not None and program.signature is not None:
        return [(a.name, t) for a, t in zip(program.signature.arguments, program.signature.arguments_of(args, kwargs))]
    return [(keystr(path), t) for path, t in tree_flatten_with_path((args, kwargs))[0] if isinstance(t, Tensor)]


def _tables(compiled: Any, model: Any) -> list[tuple[dict[str, Any], str]]:
    """Where the model's tensors are held: tables and keys."""
    program = getattr(compiled, "program", None)
    if program is not None and program.signature is not None:
        return [(a.table, a.key) for a in program.signature.arguments if a.table is not None]
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    return [(table, key) for m in modules for table in (m._parameters, m._buffers) for key, value in table.items() if value is not None]


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
