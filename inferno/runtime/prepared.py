"""What is made of frozen weights, kept from call to call and made again when one of them has changed.

A weight has changed when another tensor is in its place, or when its version counter, its memory or its layout is another one.  The
tensors and their memory are held meanwhile, so that nothing new can look like them.  Writes that torch does not count (through
``.data``, or by code outside of torch) are not seen: ``refresh()`` is for them.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from inferno.capture import Captured, Frozen, Signature
from inferno.runtime.elements import DTYPES
from inferno.runtime.plan.plan import Buffer, Plan, TensorMap
from inferno.runtime.program import Program
from inferno.settings import read_bytes

_TIMES = 2  # of the weights' own bytes, where no limit is given: three bf16 for a float32, padded, are one and a half


@dataclass(frozen=True, eq=False)
class Record:
    """What was prepared of ``weights``, which ``memory`` keeps where it was; ``state`` is all that a fast call compares and needs:
    tensor, version and address of each weight, the addresses of the ``results``, and the results."""

    weights: tuple[Tensor, ...]
    marks: tuple[tuple, ...]
    memory: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    state: tuple
    captured: bool = False


class Prepared:
    """The results of a program's preparation.  Safe to use from several threads."""

    def __init__(self, program: Program, executable: Any, constants: Sequence[Tensor]) -> None:
        """``executable`` runs the preparation's plan; None where the program is for another machine."""
        preparation = program.preparation
        given = len(program.launch_plan().arguments) - len(preparation.plan.outputs) - len(constants)
        self._numbers, self._executable, self._constants = preparation.arguments, executable, tuple(constants)
        self._given = given
        self._program = program
        self.weights = tuple(n for n in preparation.arguments if n < given)
        self.only = frozenset(self.weights) - _read(program.launch_plan())
        self.count = len(preparation.plan.outputs)
        self.record: Record | None = None
        self.state: tuple | None = None
        self._lock = threading.Lock()

    def copy(self) -> "Prepared":
        """The same for other weights."""
        return Prepared(self._program, self._executable, self._constants)

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Whether what is kept was made of these arguments of a call."""
        record = self.record
        return record is not None and _is_of(record, [tensors[n] for n in self.weights])

    def get(self, tensors: Sequence[Tensor], ready: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The results for a call's arguments; ``ready`` are the same, contiguous and aligned."""
        record, weights = self.record, [tensors[n] for n in self.weights]
        capturing = _is_capturing(ready)
        if record is None or not _is_of(record, weights):
            with self._lock:
                record = self.record
                if record is None or not _is_of(record, weights):
                    return self._prepare(weights, ready, capturing)
        if capturing and not record.captured:
            with self._lock:
                if self.record is record:
                    self.record = replace(record, captured=True)
        return record.results

    def forget(self) -> None:
        """Prepare again at the next call."""
        with self._lock:
            self.state = None
            if self.record is not None:
                self.record = replace(self.record, weights=(), marks=()) if self.record.captured else None

    def _prepare(self, weights: list[Tensor], ready: Sequence[Tensor], capturing: bool) -> tuple[Tensor, ...]:
        marks = None if any(w.is_inference() for w in weights) else tuple(map(_mark, weights))
        given = [*ready[: self._given], *self._constants]
        results = tuple(self._executable.run([given[n] for n in self._numbers]))
        # A result may be a weight's own memory in another shape; what is kept must not change with it.
        addresses = {given[n].untyped_storage().data_ptr() for n in self._numbers}
        results = tuple(r.clone() if r.numel() and r.untyped_storage().data_ptr() in addresses else r for r in results)
        if capturing:
            return results  # it is part of the capture, and nothing has run yet
        old = self.record
        if results and results[0].is_cuda:
            torch.cuda.synchronize(results[0].device)  # any stream may read it from now on, and nobody reads what was there
            if old is not None and old.captured:  # a graph has these addresses
                with torch.inference_mode():  # they may have been made in it
                    for target, value in zip(old.results, results):
                        target.copy_(value)
                torch.cuda.synchronize(results[0].device)
                results = old.results
        if marks is None:  # their writes are not counted
            self.record = self.state = None
            return results
        memory = tuple(w.detach() for w in weights)
        state = (*(v for w, m in zip(weights, marks) for v in (w, m[0], m[1])), *(r.data_ptr() for r in results), results)
        self.record = Record(tuple(weights), marks, memory, results, state, old is not None and old.captured)
        self.state = state
        return results

    @property
    def bytes(self) -> int:
        """Bytes that the results take."""
        return prepared_bytes(self._program)


def prepared_bytes(program: Program) -> int:
    """Bytes that a program keeps of what it prepares."""
    outputs = program.preparation.plan.outputs if program.preparation is not None else ()
    return sum(torch.Size(o.shape).numel() * DTYPES[o.element].itemsize for o in outputs)


def _mark(weight: Tensor) -> tuple:
    return weight._version, weight.data_ptr(), weight.dtype, weight.shape, weight.stride()


def _is_of(record: Record, weights: Sequence[Tensor]) -> bool:
    if len(record.weights) != len(weights):
        return False
    return all(w is old and not w.is_inference() and _mark(w) == mark for w, old, mark in zip(weights, record.weights, record.marks))


def _is_capturing(tensors: Sequence[Tensor | None]) -> bool:
    return next((t.is_cuda for t in tensors if t is not None), False) and torch.cuda.is_current_stream_capturing()


def _read(plan: Plan) -> frozenset[int]:
    """The numbers of the arguments that a plan reads or returns."""
    buffers = [p.buffer if isinstance(p, TensorMap) else p for s in plan.steps for p in s.parameters]
    read = {b.index for b in buffers if isinstance(b, Buffer) and b.place == "argument"}
    return frozenset(read | {o.argument for o in plan.outputs})


def freeze(signature: Signature, option: bool | int | str) -> Frozen | None:
    """Which arguments are frozen by the option ``freeze``, and the limit; None if there are none.

    These are parameters, buffers and tensors that the model holds, but for those that it writes and those whose writes torch does not count.
    """
    written = {r.target for r in signature.results if r.kind == "mutation"}
    tensors = {
        i: a.table[a.key] for i, a in enumerate(signature.arguments)
        if a.kind != "input" and a.table is not None and i not in written and isinstance(a.table.get(a.key), Tensor)
    }
    return freeze_tensors({i: t for i, t in tensors.items() if not t.is_inference()}, option)


def freeze_tensors(tensors: dict[int, Tensor], option: bool | int | str) -> Frozen | None:
    """The same of tensors by their arguments' numbers."""
    if option is False or not tensors:
        return None
    return Frozen(tuple(tensors), limit(option, list(tensors.values())))


def shares(captured: Captured, option: bool | int | str) -> dict[str, int]:
    """The names of a graph's inputs that are frozen, each with its share of the limit."""
    if captured.frozen is None:
        return {}
    names = [n.name for n in captured.graph.nodes if n.op == "placeholder"]
    arguments = captured.signature.arguments
    return share({names[i]: arguments[i].table[arguments[i].key] for i in captured.frozen.arguments}, option)


def share(tensors: dict[str, Tensor], option: bool | int | str) -> dict[str, int]:
    """The limit for these weights, divided among them by their bytes."""
    total, most = sum(t.nbytes for t in tensors.values()), limit(option, list(tensors.values()))
    return {name: most * t.nbytes // max(1, total) for name, t in tensors.items()}


def limit(option: bool | int | str, tensors: Sequence[Tensor]) -> int:
    """How many bytes may be kept for these weights."""
    if option is True:
        return _TIMES * sum({id(t): t.nbytes for t in tensors}.values())
    return read_bytes(option) if isinstance(option, str) else option
