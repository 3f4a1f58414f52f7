"""Calls in ``@main``, and the kernels that they call."""

from collections.abc import Collection, Sequence
from functools import cmp_to_key, reduce

from inferno.mlir import func, ir, tensor
from inferno.passes.generics import is_generic
from inferno.passes.kernel_names import free
from inferno.passes.programs import operations_in
from inferno.passes.shapes import function_of
from inferno.passes.size_values import sizes
from inferno.schedule.analysis.accesses import filled, has_known_sizes
from inferno.schedule.attributes import ATTRIBUTE

_LONGEST_NAME = 40  # characters, as ``kernel_names.py`` has it


# Kernels.


def places_in(function: func.FuncOp) -> dict[ir.Operation, int]:
    """The same, with the number of each."""
    return {o: i for i, o in enumerate(operations_in(function))}


def generics_of(kernel: func.FuncOp) -> list[ir.Operation]:
    """The maps and reductions of a kernel, in order: not those that fill a tensor with one number."""
    return [o for o in operations_in(kernel) if is_generic(o) and filled(o.results[0]) is None]


def is_open(kernel: func.FuncOp | None) -> bool:
    """Whether there is a kernel that has no schedule yet, of any sizes."""
    return kernel is not None and ATTRIBUTE not in kernel.attributes


def may_change(kernel: func.FuncOp | None) -> bool:
    """The same, where all sizes are numbers."""
    return is_open(kernel) and has_known_sizes(kernel)


def new_kernel(module: ir.Module, before: func.FuncOp, name: str, given: Sequence[ir.Type], made: Sequence[ir.Type]) -> func.FuncOp:
    """A kernel without operations in front of another one, of these operands and results."""
    with ir.InsertionPoint(before):
        new = func.FuncOp(free_name(module, name), ([*given, *made], list(made)), visibility="private")
    new.add_entry_block()
    return new


def free_name(module: ir.Module, wanted: str) -> str:
    """A name for a new function, not too long."""
    return free(wanted[:_LONGEST_NAME].rstrip("_"), ir.SymbolTable(module.operation))


# Calls.


def calls_in(program: func.FuncOp) -> list[ir.Operation]:
    """Those of its block, in order; a copy, so that they may change meanwhile."""
    return [o for o in operations_in(program) if o.name == "func.call"]


def inputs_of(call: ir.Operation) -> list[ir.Value]:
    """What a call takes beside its destinations."""
    return list(call.operands)[: len(call.operands) - len(call.results)]


def tensors_of(call: ir.Operation) -> list[ir.Value]:
    """The same without sizes."""
    return [v for v in inputs_of(call) if isinstance(v.type, ir.RankedTensorType)]


def first_of(operations: Collection[ir.Operation]) -> ir.Operation:
    """The first one of operations of one block."""
    return reduce(lambda first, op: op if op.is_before_in_block(first) else first, operations)


def in_order(operations: Collection[ir.Operation]) -> list[ir.Operation]:
    """Operations of one block as they come in it."""
    return sorted(operations, key=cmp_to_key(lambda a, b: -1 if a.is_before_in_block(b) else 1))


def empty_like(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Tensors of ``@main`` of these values' sizes and types."""
    return [tensor.EmptyOp(sizes(v, function_of(v.owner.operation)), v.type.element_type).result for v in values]


def replace_call(call: ir.Operation, new: func.CallOp) -> None:
    """Let ``new`` be in the place of ``call``, and say what that said."""
    for name in call.attributes:
        if name not in ("callee", "operandSegmentSizes"):
            new.operation.attributes[name] = call.attributes[name]
    for old, result in zip(call.results, new.results):
        old.replace_all_uses_with(result)
    call.erase()


def call_in_two(
    call: ir.Operation, first: func.FuncOp, read: Sequence[ir.Value], rest: func.FuncOp, left: Sequence[ir.Value],
) -> ir.Operation:
    """Two calls in the place of one: of a kernel that computes parts of what its kernel does, of arguments ``read`` of that, and of one that has the
    ``rest``, of those that are ``left`` and of the parts; the second one is given."""
    given = lambda arguments: [call.operands[ir.BlockArgument(v).arg_number] for v in arguments]  # noqa: E731
    with ir.InsertionPoint(call), call.location:
        made = func.CallOp(first, [*given(read), *(tensor.EmptyOp(list(t.shape), t.element_type).result for t in first.type.results)]).operation
        done = func.CallOp(rest, [*given(left), *made.results, *list(call.operands)[len(inputs_of(call)):]]).operation
    for new in (made, done):
        tell_sources(new, [call])
    for old, result in zip(call.results, done.results):
        old.replace_all_uses_with(result)
    call.erase()
    return done


def tell_sources(new: ir.Operation, calls: Sequence[ir.Operation]) -> None:
    """Let a call say the source lines of those that it stands for, each once."""
    told = (s.value for c in calls if "inferno.source" in c.attributes for s in map(ir.StringAttr, c.attributes["inferno.source"]))
    new.attributes["inferno.source"] = ir.ArrayAttr.get([ir.StringAttr.get(s) for s in dict.fromkeys(told)])
