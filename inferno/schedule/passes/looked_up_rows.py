"""Rows of a table that several scatters add, each by its own kernel: each has a call of its own that looks them up, for its kernel to take in.

The mean and the largest of what comes to a graph's nodes are of rows ``x[src]``, which lie in caches where there are more edges than nodes; written for
both, they are as long as the edges.
"""

from math import prod

from inferno.mlir import func, ir, walk
from inferno.passes.generics import is_elementwise
from inferno.passes.programs import callee, readers, root_of
from inferno.schedule.analysis.cost import tensor_bytes
from inferno.schedule.passes.merge_calls import clone_view, inputs_of, is_open, merge_in, operations_in

_COPY = "inferno.copy"  # the number of the call that others are copies of
_MOST = 4  # readers
_SMALLER = 2  # times, at least, that a table is smaller than what is looked up in it


def give_each(module: ir.Module) -> None:
    """Copy the calls that look up rows, one for each of the scatters that read them, or for the maps of these."""
    def copy(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        for number, call in enumerate([o for o in operations_in(main) if o.name == "func.call" and _looks_up(kernels.get(callee(o)))]):
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
        for call in [o for o in operations_in(main) if o.name == "func.call" and _COPY in o.attributes]:
            kept = first.setdefault(ir.IntegerAttr(call.attributes[_COPY]).value, call)
            if kept != call:
                call.results[0].replace_all_uses_with(kept.results[0])
                call.erase()
        for call in first.values():
            del call.attributes[_COPY]
        return bool(first)

    merge_in(module, join)


def _looks_up(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel is one map that reads a table at places that are told, of which it makes more than there is."""
    if not is_open(kernel) or len(kernel.type.results) != 1 or not kernel.type.results[0].has_static_shape:
        return False
    maps = [o for o in operations_in(kernel) if o.name.startswith("linalg.")]
    tables = [p.operands[0].type for p in walk(kernel, "tensor.extract")]
    small = all(t.has_static_shape and _SMALLER * tensor_bytes(t) <= tensor_bytes(kernel.type.results[0]) for t in tables)
    return len(maps) == 1 and is_elementwise(maps[0]) and bool(tables) and small


def _adds(kernels: dict[str, func.FuncOp], reader: ir.Operation, rows: ir.Value) -> bool:
    """Whether what reads the rows is a scatter, or a map that one alone reads, of no more points: each row is computed once."""
    kernel = kernels.get(callee(reader)) if reader.name == "func.call" else None
    if not is_open(kernel) or len(reader.results) != 1:
        return False
    if walk(kernel, "tm_tensor.scatter"):
        return True
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
