"""The end of a call: what the program computed becomes what eager gives: inputs and buffers are written, outputs share the memory
that they share in eager, and no other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inferno.capture import Signature
from inferno.errors import InputError
from inferno.runtime.plan.plan import Output


class Finish:
    """Makes a program's outputs for a call, and writes what the model writes to."""

    def __init__(self, signature: Signature, executable: Any) -> None:
        """``executable``: what runs the program.  Where it has a plan, that says where the results are; else each call looks."""
        self._signature = signature
        plan = getattr(executable, "plan", None)
        self._mutations = [(i, r.target) for i, r in enumerate(signature.results) if r.kind == "mutation"]
        self._outputs = [(i, r) for i, r in enumerate(signature.results) if r.kind == "output"]
        self._copied = None if plan is None else _copied(signature, [_owner(o) for o in plan.outputs])
        self._written = frozenset(t for _, t in self._mutations)

    def check(self, tensors: Sequence[Tensor]) -> None:
        """InputError where the model writes to a tensor that shares elements with another one, of which the program would not see it, or with
        itself, which eager refuses as well."""
        for i in self._written:
            if not tensors[i].is_contiguous() and torch._debug_has_internal_overlap(tensors[i]) == 1:
                raise InputError(
                    f"argument {self._signature.arguments[i].name}: unsupported operation: more than one element of the written-to tensor refers to "
                    f"a single memory location (its strides are {tensors[i].stride()}); pass a copy of it (.clone())"
                )
        if not self._written or not (pair := overlapping(tensors, self._written)):
            return
        names = [self._signature.arguments[i].name for i in pair]
        raise InputError(
            f"arguments {names[0]} and {names[1]} share memory, and the model writes to {names[0]}: a compiled module takes them for "
            f"different tensors; pass a copy of one (.clone()), or compile a model that takes the memory once"
        )

    def __call__(self, tensors: Sequence[Tensor], results: Sequence[Tensor]) -> Any:
        """The model's output.  ``tensors`` are the call's arguments as they came, ``results`` the program's."""
        copied = self._copied
        if copied is None:
            places = {_memory(t): i for i, t in enumerate(tensors)}
            copied = _copied(self._signature, [("argument", places[m]) if (m := _memory(r)) in places else ("result", m) for r in results])
        if copied:
            results = [r.clone() if i in copied else r for i, r in enumerate(results)]
        if self._mutations:
            write_values([tensors[target] for _, target in self._mutations], [results[i] for i, _ in self._mutations])
        made = [r.as_eager(results[i]) for i, r in self._outputs]
        return self._signature.build_output(self._signature.add_views(made, tensors) if self._signature.views else made)


def _copied(signature: Signature, owners: Sequence[tuple[str, int]]) -> frozenset[int]:
    """The results that are in an argument's memory or another result's, where they must have memory of their own.  ``owners``: for
    each result ("argument", its number) or ("result", what tells that memory from others)."""
    copied, seen = set(), set()
    for i, (result, owner) in enumerate(zip(signature.results, owners)):
        if result.kind == "mutation":
            # Written back in order, after the run: by then an argument may have been overwritten.
            if owner[0] == "argument" and owner[1] != result.target:
                copied.add(i)
        elif owner[0] == "argument" or owner in seen:
            copied.add(i)
        else:
            seen.add(owner)
    return frozenset(copied)


def _owner(output: Output) -> tuple[str, int]:
    return ("argument", output.argument) if output.argument >= 0 else ("result", output.result)


def _memory(tensor: Tensor) -> int:
    """What tells a tensor's memory from others'; of one that is several tensors, as a sparse one is, what tells it."""
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else -id(tensor)


def write_values(targets: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy each value to its target, unless it was computed there: on a GPU in a few launches for all of them."""
    there = [t for t, v in zip(targets, values) if v.data_ptr() == t.data_ptr() and not t.is_inference()]
    torch.autograd.graph.increment_version(there)
    pairs = [(t, v) for t, v in zip(targets, values) if v.data_ptr() != t.data_ptr()]
    with torch.no_grad():
        for dtype in dict.fromkeys(t.dtype for t, _ in pairs if t.is_cuda):  # together only those of one
            alike = [(t, v) for t, v in pairs if t.is_cuda and t.dtype == dtype]
            torch._foreach_copy_([t for t, _ in alike], [v for _, v in alike])
        for target, value in pairs:
            if not target.is_cuda:
                target.copy_(value)


def overlapping(tensors: Sequence[Tensor], written: frozenset[int]) -> tuple[int, int] | None:
    """The numbers of a written tensor and another one that share an element; None if there are none.

    Of hundreds of tensors, as a model with a key-value cache has, most share no memory at all: that is told by numpy, from where
    they begin and end.
    """
    starts = np.fromiter((t.data_ptr() for t in tensors), np.int64, len(tensors))
    ends = starts + np.fromiter((t.nbytes if t.is_contiguous() else _extent(t) for t in tensors), np.int64, len(tensors))
    order = np.argsort(starts, kind="stable")
    first, last = starts[order], np.maximum.accumulate(ends[order])
    for place in np.flatnonzero(last[:-1] > first[1:]):
        j = int(order[place + 1])
        for i in np.flatnonzero((starts < ends[j]) & (ends > starts[j])).tolist():
            if i != j and (i in written or j in written) and np.shares_memory(_array(tensors[i]), _array(tensors[j])):
                return (i, j) if i in written else (j, i)
    return None


def _extent(tensor: Tensor) -> int:
    """Bytes from the tensor's first element to the end of its last one."""
    if not tensor.numel():
        return 0
    return (sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1) * tensor.element_size()


def _array(tensor: Tensor) -> np.ndarray:
    """An array at the tensor's addresses, for comparing them; its memory, which may be a GPU's, is never read."""
    size = tensor.element_size()
    interface = {
        "shape": tuple(tensor.shape), "typestr": f"|V{size}", "data": (tensor.data_ptr(), False), "strides": tuple(s * size for s in tensor.stride()),
        "version": 3,
    }
    return np.asarray(type("Addresses", (), {"__array_interface__": interface})())
