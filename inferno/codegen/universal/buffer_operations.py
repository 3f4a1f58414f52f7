"""What operations on buffers do with them: which ones touch no memory, what the others write, and which of them are copies and fills."""

from dataclasses import dataclass

from inferno.codegen.builders.device_function import buffers_of, roots_of
from inferno.codegen.universal.serial import is_scalar
from inferno.mlir import ir, linalg, outside_values, owner, terminator, walk
from inferno.passes.generics import is_reduction, maps

# What touches no memory.
FREE = {
    "memref.alloc", "memref.dealloc", "memref.subview", "memref.cast", "memref.reinterpret_cast", "memref.expand_shape",
    "memref.collapse_shape", "memref.dim", "memref.get_global", "func.return",
}


@dataclass(frozen=True)
class Fill:
    """A buffer that holds one value everywhere, once ``operation``, the function's ``number``-th, has run."""

    operation: ir.Operation
    target: ir.Value
    value: ir.Value
    number: int


def results_of(op: ir.Operation) -> list[ir.Value]:
    """The operands of a structured operation that are its results."""
    body = op.regions[0].blocks[0]
    count = len(terminator(body).operands)
    return list(op.operands)[len(op.operands) - count:]


def written_by(op: ir.Operation) -> set[ir.Value]:
    """The buffers that an operation may write to; what a loop carries may be written in it."""
    if op.name in FREE or is_scalar(op):
        return set()
    if op.name == "linalg.generic":
        targets = results_of(op)
    elif op.name == "tm_tensor.scatter":
        targets = [op.operands[2]]
    elif len(op.regions) and not op.name.startswith("tm_tensor."):
        inside = [v for o in walk(op) if o != op for v in _stored_to(o)]
        targets = [v for v in [*op.operands, *inside] if isinstance(v.type, ir.MemRefType)]
    else:
        targets = [v for v in op.operands if isinstance(v.type, ir.MemRefType)]
    outside = set(outside_values(op))
    return {r for v in targets if v in outside for r in roots_of(v)}


def meet(first: ir.Operation, second: ir.Operation) -> bool:
    """Whether one of two operations writes to what the other touches."""
    one, two = set(buffers_of([first])), set(buffers_of([second]))
    return bool(written_by(first) & two or written_by(second) & one)


def _stored_to(op: ir.Operation) -> list[ir.Value]:
    return [v for v in op.operands if isinstance(v.type, ir.MemRefType)] if op.name not in ("memref.load", "memref.dim") else []


def is_copy(op: ir.Operation) -> bool:
    """Whether an operation copies one buffer to another element by element."""
    if op.name != "linalg.generic" or len(op.operands) != 2 or op.operands[0].type != op.operands[1].type:
        return False
    body = op.regions[0].blocks[0]
    plain = len(list(body.operations)) == 1 and body.operations[0].operands[0] == body.arguments[0]
    return plain and all(m == ir.AffineMap.get_identity(m.n_dims) for m in maps(op))


def read_fill(op: ir.Operation, number: int) -> Fill | None:
    """The operation as a fill of a whole buffer with a value that is not in memory."""
    body = op.regions[0].blocks[0]
    end = terminator(body)
    targets = results_of(op)
    if len(targets) != 1 or len(list(body.operations)) != 1 or is_reduction(op):
        return None
    value = end.operands[0]
    if isinstance(value, ir.BlockArgument):
        if value.owner != body or value.arg_number >= len(op.operands) - 1:
            return None
        value = list(op.operands)[value.arg_number]
    if isinstance(value.type, ir.MemRefType) or owner(value) is None or owner(value).name != "arith.constant":
        return None
    return Fill(op, targets[0], value, number) if maps(op)[-1].is_permutation or not ir.MemRefType(targets[0].type).rank else None


def copy_between(source: ir.Value, target: ir.Value) -> ir.Operation:
    """A structured operation that makes one buffer what another one of its type and shape is."""
    rank = ir.MemRefType(source.type).rank
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = linalg.GenericOp([], [source], [target], ir.ArrayAttr.get([identity] * 2), ir.ArrayAttr.get([parallel] * rank))
    element = source.type.element_type
    body = generic.regions[0].blocks.append(element, element, arg_locs=[ir.Location.current] * 2)
    with ir.InsertionPoint(body):
        linalg.YieldOp([body.arguments[0]])
    return generic.operation
