"""The independent parts of a kernel function, each as a function of its own."""

from collections.abc import Sequence

from inferno.dialect.sizes import SIZES, sizes_attribute
from inferno.mlir import clone_onto, func, ir, outside_values
from inferno.passes.programs import operations_in, returned
from inferno.passes.shapes import argument_attributes, is_dynamic, shape, symbol_arguments
from inferno.schedule.analysis.kept_operands import PARTS, keep, kept
from inferno.symbolic import symbols_of

# Operations that parts may share: each gets its own.
_COMMON = ("arith.constant", "tensor.empty", "linalg.fill")
OWN = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "inferno.schedule", "inferno.overwrites")
"""What is said of one kernel function alone; its parts have all other attributes."""


def parts_of(kernel: func.FuncOp) -> list[list[int]]:
    """The numbers of the results that are computed together, by part; in the order of each part's first result."""
    values = returned(kernel)
    slices = [{o for o in _slice(kernel, [value]) if o.name not in _COMMON} for value in values]
    groups: list[tuple[list[int], set[ir.Operation]]] = []
    for number, operations in enumerate(slices):
        shared = [g for g in groups if g[1] & operations]
        numbers, union = sorted([number, *(n for g in shared for n in g[0])]), operations.union(*(g[1] for g in shared))
        groups = [*(g for g in groups if g not in shared), (numbers, union)]
    return sorted(numbers for numbers, _ in groups)


def extract(kernel: func.FuncOp, results: Sequence[int], name: str) -> tuple[func.FuncOp, list[int]]:
    """A function at the insertion point that computes these results alone, and which of the kernel's arguments its arguments are."""
    block, values = kernel.entry_block, [returned(kernel)[r] for r in results]
    first = len(kernel.type.inputs) - len(kernel.type.results)
    operations = operations_of(kernel, results)
    used = {v.arg_number for o in operations for v in outside_values(o) if isinstance(v, ir.BlockArgument)}
    used |= {split for weight, split in kept(kernel, PARTS).items() if weight in used}
    symbols, own = symbol_arguments(kernel.operation), [block.arguments[n] for n in (*used, *(first + r for r in results))]
    used |= {symbols[s].arg_number for v in own if is_dynamic(v) for size in shape(v) for s in symbols_of(size)}
    numbers = [*sorted(n for n in used if n < first), *(first + r for r in results)]
    part = func.FuncOp(name, ([kernel.type.inputs[n] for n in numbers], [v.type for v in values]), visibility="private")
    for attribute in kernel.attributes:
        if attribute not in OWN:
            part.attributes[attribute] = kernel.attributes[attribute]
    if symbols:
        said = argument_attributes(kernel.operation)
        left = [s for s, v in symbols.items() if v.arg_number in used]
        sized = {n: {SIZES: sizes_attribute(shape(block.arguments[n]), left)} if is_dynamic(block.arguments[n]) else {} for n in numbers}
        part.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get({e.name: e.attr for e in said[n]} | sized[n]) for n in numbers])
    keep(part, PARTS, {numbers.index(weight): numbers.index(split) for weight, split in kept(kernel, PARTS).items() if split in numbers})
    body = part.add_entry_block()
    known = {block.arguments[n]: a for n, a in zip(numbers, body.arguments)}
    with ir.InsertionPoint(body):
        for op in operations:
            clone_onto(op, known)
        func.ReturnOp([known[v] for v in values])
    return part, numbers


def operations_of(kernel: func.FuncOp, results: Sequence[int]) -> list[ir.Operation]:
    """The operations that compute these results, in order."""
    return _slice(kernel, [returned(kernel)[r] for r in results])


def _slice(kernel: func.FuncOp, values: Sequence[ir.Value]) -> list[ir.Operation]:
    """The operations of the kernel that compute these values, in order."""
    found: set[ir.Operation] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if not isinstance(value, ir.BlockArgument) and (op := value.owner.operation) not in found:
            found.add(op)
            pending += outside_values(op)
    return [o for o in operations_in(kernel) if o in found]
