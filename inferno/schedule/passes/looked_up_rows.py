"""Rows of a table that several scatters add, or places that they all put to, each by its own kernel: each has a call of its own that looks them up, or
computes them, for its kernel to take in.

The mean and the largest of what comes to a graph's nodes are of rows ``x[src]``, which lie in caches where there are more edges than nodes; written for
both, they are as long as the edges.  A mean is a sum and a number of what goes to the same places, which are as large as the indices that they are computed of.
"""

from collections.abc import Callable
from math import prod

from inferno.mlir import func, ir, walk
from inferno.passes.generics import is_elementwise
from inferno.passes.programs import callee, operations_in, readers, root_of
from inferno.schedule.analysis.accesses import argument_index
from inferno.schedule.analysis.cost import tensor_bytes
from inferno.schedule.passes.calls import calls_in, inputs_of, is_open
from inferno.schedule.passes.merge_calls import clone_view
from inferno.schedule.passes.rewrite import merge_in

_COPY = "inferno.copy"  # the number of the call that others are copies of
_MOST = 4  # readers
_SMALLER = 2  # times, at least, that a table is smaller than what is looked up in it


def give_each(module: ir.Module, made: Callable[[func.FuncOp | None], bool]) -> None:
    """Copy the calls that make what is asked for (``looks_up``, ``tells_places``), one for each of the scatters that read it, or for the maps of these."""
    def copy(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        calls = [o for o in calls_in(main) if made(kernels.get(callee(o)))]
        for number, call in reversed(list(enumerate(calls))):  # those first that are made of others
            found = list(dict.fromkeys(readers(call.results[0])))
            if 1 < len(found) <= _MOST and all(_adds(kernels, r, call.results[0]) for r in found):
                call.attributes[_COPY] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
                for reader in found[1:]:
                    _copy(call, reader)
        return False

    merge_in(module, copy)


def join_left(module: ir.Module) -> None:
    """Let those whose scatters did not take them in be one again."""
    def join(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        first: dict[int, ir.Operation] = {}
        for call in [o for o in calls_in(main) if _COPY in o.attributes]:
            kept = first.setdefault(ir.IntegerAttr(call.attributes[_COPY]).value, call)
            if kept != call:
                call.results[0].replace_all_uses_with(kept.results[0])
                call.erase()
        for call in first.values():
            del call.attributes[_COPY]
        return bool(first)

    merge_in(module, join)


def tells_places(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel is one map to whole numbers, of tensors that together are no larger."""
    if not _is_map(kernel) or not isinstance(kernel.type.results[0].element_type, ir.IntegerType) or kernel.type.results[0].element_type.width < 32:
        return False
    read = list(kernel.type.inputs)[:-1]
    known = all(isinstance(t, ir.RankedTensorType) and t.has_static_shape for t in read)
    return known and sum(map(tensor_bytes, read)) <= tensor_bytes(kernel.type.results[0])


def tables_of(call: ir.Operation, kernel: func.FuncOp) -> list[ir.Value]:
    """What a call gives scatters as places."""
    found = [argument_index(kernel, root_of(s.operands[1])) for s in walk(kernel, "tm_tensor.scatter")]
    return [call.operands[n] for n in found if n is not None]


def looks_up(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel is one map that reads a table at places that are told, of which it makes more than there is."""
    if not is_open(kernel) or not _is_map(kernel):
        return False
    tables = [p.operands[0].type for p in walk(kernel, "tensor.extract")]
    small = all(t.has_static_shape and _SMALLER * tensor_bytes(t) <= tensor_bytes(kernel.type.results[0]) for t in tables)
    return bool(tables) and small


def _is_map(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel is one elementwise operation, of sizes that are known."""
    if kernel is None or len(kernel.type.results) != 1 or not kernel.type.results[0].has_static_shape:
        return False
    maps = [o for o in operations_in(kernel) if o.name.startswith("linalg.")]
    return len(maps) == 1 and is_elementwise(maps[0])


def _adds(kernels: dict[str, func.FuncOp], reader: ir.Operation, rows: ir.Value) -> bool:
    """Whether what reads the rows is a scatter, or a map that one alone reads, of no more points: each row is computed once."""
    kernel = kernels.get(callee(reader)) if reader.name == "func.call" else None
    if kernel is None or len(reader.results) != 1:
        return False
    if walk(kernel, "tm_tensor.scatter"):
        return True
    if not is_open(kernel):
        return False
    found = list(dict.fromkeys(readers(reader.results[0])))
    scatters = len(found) == 1 and found[0].name == "func.call" and bool(walk(kernels[callee(found[0])], "tm_tensor.scatter"))
    maps = [o for o in operations_in(kernel) if o.name.startswith("linalg.")]
    once = prod(kernel.type.results[0].shape) == prod(rows.type.shape)
    return once and scatters and is_open(kernels[callee(found[0])]) and len(maps) == 1 and is_elementwise(maps[0])


def _copy(call: ir.Operation, reader: ir.Operation) -> None:
    """Let ``reader`` have a copy of the call, and of the views by which it reads its result."""
    with ir.InsertionPoint(reader):
        new = call.clone()
        known = {call.results[0]: new.results[0]}
        for number, value in enumerate(inputs_of(reader)):
            if root_of(value) == call.results[0]:
                reader.operands[number] = clone_view(value, known)
