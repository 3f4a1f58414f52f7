"""What the tuner has workers do: say what there is to measure of a kernel, and compile it with one schedule."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from inferno.mlir import ir, parse, walk
from inferno.runtime.check.calls import alone
from inferno.schedule.assign import choose, generators, kernels
from inferno.schedule.attributes import ATTRIBUTE, to_attribute
from inferno.schedule.known import key_of
from inferno.schedule.spaces import space_of
from inferno.target import find_target
from inferno.targets.torch_source import python_name, to_torch

Types = tuple[tuple[tuple[int, ...], str], ...]
Knobs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Candidate:
    """A schedule: the text of its attribute, the model's estimate in microseconds, and its generator and knobs by name."""

    schedule: str
    estimate: float
    knobs: Knobs


@dataclass(frozen=True)
class Problem:
    """A kernel to be tuned.  ``text`` is its module with ``chosen``, a schedule, and ``alone`` it as a program of its own; ``source`` is that in
    PyTorch, ``function`` the kernel's there, ``roundings`` and ``tf32`` as ``Expected`` takes them; ``inputs`` and
    ``outputs`` are shapes and element types.  The first of ``candidates`` is what the model chooses.  ``refused`` says why it cannot be tuned, if it cannot."""

    name: str
    target: str
    text: str
    chosen: str
    alone: str = ""
    source: str = ""
    function: str = ""
    roundings: tuple[str, ...] = ()
    tf32: bool = False
    inputs: Types = ()
    outputs: Types = ()
    candidates: tuple[Candidate, ...] = ()
    refused: str = ""

    def with_schedule(self, schedule: str) -> str:
        """The kernel's module with another schedule."""
        return self.text.replace(self.chosen, schedule, 1)


def problem_of(text: str, key: str, target: str) -> Problem:
    """What there is to measure of a kernel's module at the ``scheduled`` stage; ``key`` is what its schedule is found by."""
    module, machine = parse(text), find_target(target)
    kernel = kernels(module)[0]
    name, chosen = kernel.name.value, str(kernel.attributes[ATTRIBUTE])
    refused = _refusal(kernel) or ("its operands are made before it (freeze)" if key_of(kernel) != key else "")
    if text.count(chosen) != 1:
        refused = "its schedule is not found in its text"
    if refused:
        return Problem(name, target, text, chosen, refused=refused)
    with module.context, ir.Location.unknown():
        found = [
            Candidate(str(to_attribute(s)), time, _knobs(s))
            for time, s in space_of(kernel, machine, generators(machine.kind), choose(kernel, machine))
        ]
        program = alone(kernel)
        whole = str(program)
        source = to_torch(program)
    if name in source.missing:
        return Problem(name, target, text, chosen, refused=f"there is no PyTorch form to check it against: {source.missing[name]}")
    if len(found) < 2:
        return Problem(name, target, text, chosen, refused=f"{dict(found[0].knobs)['generator']} has no other schedules")
    given = list(kernel.type.inputs)[: len(kernel.type.inputs) - len(kernel.type.results)]
    return Problem(
        name, target, text, chosen, whole, source.text, python_name(name), source.roundings[name], name in source.tf32,
        _types(given), _types(kernel.type.results), tuple(found),
    )


def _types(types: Iterable[ir.Type]) -> Types:
    return tuple((tuple(t.shape), str(t.element_type)) for t in types)


def _refusal(kernel: Any) -> str:
    if not all(isinstance(t, ir.RankedTensorType) and t.has_static_shape for t in kernel.type.inputs):
        return "its sizes vary"
    if 0 in [s for t in kernel.type.inputs for s in t.shape]:
        return "it has a tensor without elements"
    by_data = sorted({o.name for o in walk(kernel) if o.name == "tensor.extract" or o.name.startswith(("tm_tensor.", "inferno."))})
    return f"what it reads or writes depends on data ({', '.join(by_data)})" if by_data else ""


def _knobs(schedule: Any) -> Knobs:
    plain = [(f.name, v) for f in fields(schedule) if not is_dataclass(v := getattr(schedule, f.name))]
    return (("generator", schedule.generator), *plain)
