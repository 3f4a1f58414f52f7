"""Operations that take rows of a tensor at the numbers that a table has, as an embedding does: what they are, and how to build one of another tensor."""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.mlir import clone_onto, ir, owner, tensor
from inferno.passes.generics import PARALLEL, body, build, inputs, is_elementwise, kinds, loop, loop_of, loops_of, maps, started_like, substitute, yielded


@dataclass(frozen=True)
class Taking:
    """An operation that takes parts of ``source`` along ``axis``: the loops from ``axis`` on, as many as ``counts`` has sizes, go over the table, and
    ``place`` is the number that its body has of it.  All other dimensions are whole, in order."""

    op: ir.Operation
    gather: ir.Operation
    axis: int
    counts: tuple[int, ...]
    place: ir.Value

    @property
    def source(self) -> ir.Value:
        """What the parts are of."""
        return self.gather.operands[0]


def taking(gather: ir.Operation) -> Taking | None:
    """What the operation around a ``tensor.extract`` takes, if that is all it does and all sizes are known."""
    op = gather.parent.operation
    if not is_elementwise(op) or len(op.results) != 1 or maps(op)[-1] != ir.AffineMap.get_identity(len(kinds(op)), op.context):
        return None
    source, places, type_ = gather.operands[0], list(gather.operands)[1:], op.results[0].type
    more = type_.rank - len(places)  # loops of a table beside its first
    known = type_.has_static_shape and source.type.has_static_shape and 0 not in type_.shape
    if yielded(op)[0] != gather.results[0] or more < 0 or not known or source in inputs(op):
        return None
    axis = next((d for d, v in enumerate(places) if loop_of(v) != d), None)
    if axis is None or any(loop_of(v) != d + more for d, v in enumerate(places) if d > axis):
        return None
    if not _is_of_loops(op, places[axis], set(range(axis, axis + more + 1))):
        return None
    rest = [n for d, n in enumerate(type_.shape) if not axis <= d <= axis + more]
    whole = rest == [n for d, n in enumerate(source.type.shape) if d != axis]
    return Taking(op, gather, axis, tuple(type_.shape[axis:axis + more + 1]), places[axis]) if whole else None


def take(made: Taking, value: ir.Value, axis: int) -> ir.Value:
    """The parts of ``value`` along ``axis`` that ``made`` takes of its source, with the table's loops in the place of ``axis``."""
    op, count = made.op, len(made.counts)
    sizes = [n for d, n in enumerate(value.type.shape) if d != axis]
    sizes[axis:axis] = made.counts
    numbers, arguments = _made_of(op, made.place), list(body(op).arguments)
    read = sorted({arguments.index(v) for o in numbers for v in o.operands if v in arguments})
    moved = [ir.AffineDimExpr.get(d - made.axis + axis if made.axis <= d < made.axis + count else 0, op.context) for d in range(len(kinds(op)))]
    ins = [substitute(maps(op)[i], moved, len(sizes)) for i in read]

    def fill(block: Sequence[ir.Value]) -> list[ir.Value]:
        known = {arguments[i]: v for i, v in zip(read, block)}
        for o in numbers:
            if loop_of(o.results[0]) is not None:
                known[o.results[0]] = loop(loop_of(o.results[0]) - made.axis + axis)
            else:
                clone_onto(o, known)
        others = [loop(d) for d in range(len(sizes)) if not axis <= d < axis + count]
        others.insert(axis, known.get(made.place, made.place))
        return [tensor.ExtractOp(value, others).result]

    with op.location:
        empty = tensor.EmptyOp(sizes, value.type.element_type).result
        identity = ir.AffineMap.get_identity(len(sizes), op.context)
        return build([inputs(op)[i] for i in read], [empty], [*ins, identity], [PARALLEL] * len(sizes), fill, op.location).results[0]


def _made_of(op: ir.Operation, value: ir.Value) -> list[ir.Operation]:
    """What ``op`` makes a number of its body of, in order."""
    found, todo = [], [value]
    while todo:
        made = owner(todo.pop())
        if made is not None and made.parent == op and made not in found:
            found.append(made)
            todo += made.operands
    return [o.operation for o in body(op).operations if o.operation in found]


def _is_of_loops(op: ir.Operation, value: ir.Value, numbers: set[int]) -> bool:
    """Whether a number of the body depends on some loops alone."""
    if isinstance(value, ir.BlockArgument):  # a table of places as they are: nothing here makes its number
        return False
    every, arguments = _made_of(op, value), list(body(op).arguments)
    read = [arguments.index(v) for o in every for v in o.operands if v in arguments]
    alone = all(loops_of(e) <= numbers for i in read for e in maps(op)[i].results)
    return alone and all(len(o.regions) == 0 and loop_of(o.results[0]) in {None, *numbers} and o.name != "tensor.extract" for o in every)


def beginning(value: ir.Value) -> ir.Operation | None:
    """What makes the tensor that results are written to: nothing, or one number for all."""
    made = owner(value)
    filled = made is not None and made.name == "linalg.fill" and (inner := owner(made.operands[1])) is not None and inner.name == "tensor.empty"
    return made if filled or (made is not None and made.name == "tensor.empty") else None


def begin(value: ir.Value, axis: int, sizes: Sequence[int]) -> ir.Value:
    """The tensor that results are written to that begin as ``value`` does, of other sizes from ``axis`` on."""
    made, type_ = beginning(value), resized(value.type, axis, sizes)
    empty = tensor.EmptyOp(list(type_.shape), type_.element_type).result
    return started_like(made, empty)


def resized(type_: ir.RankedTensorType, axis: int, sizes: Sequence[int]) -> ir.RankedTensorType:
    """The type with other sizes from ``axis`` on."""
    shape = list(type_.shape)
    shape[axis:axis + len(sizes)] = sizes
    return ir.RankedTensorType.get(shape, type_.element_type)
