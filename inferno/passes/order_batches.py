"""Put the batch dimension first in a product that only other products read, so that whole matrices are contiguous in memory.

``einsum("lhn,shn->lsh")`` says that the batch, h, lies innermost, and who multiplies its result for each h reads one element of each sector of memory, as who
makes it writes one.  Nobody asks for that order where another product by the same batch is the only reader.
"""

from inferno.mlir import ir, is_read, owner, tensor, users, walk
from inferno.passes.contraction import FusedContraction, is_convolution, parse_fused
from inferno.passes.generics import REDUCTION, body, build, clone_body, dims, inputs, kinds, maps, outputs, started_like, take_place


def order_batches(module: ir.Module) -> None:
    """Rewrite such products."""
    for op in walk(module.operation, "linalg.generic"):
        fused = parse_fused(op)
        if fused is not None and not is_convolution(op) and (order := _order(fused)) is not None:
            _reorder(op, order)


def _order(fused: FusedContraction) -> list[int] | None:
    """The dimensions of a product's result, batches first; None where they may lie as they do."""
    op, value = fused.op, fused.op.results[fused.result]
    written, batches = dims(maps(op)[len(inputs(op)) + fused.result]), _batches(fused)
    if not value.type.has_static_shape or not written or written[-1] not in batches or value.type.shape[-1] == 1 or len(batches) == len(written):
        return None
    if any(is_read(r) for i, r in enumerate(op.results) if i != fused.result):
        return None
    places = [i for i, d in enumerate(written) if d in batches]
    if not users(value) or not all(_reads_batches(u, value, places) for u in users(value)) or not all(map(_is_start, outputs(op))):
        return None
    return places + [i for i in range(len(written)) if i not in places]


def _reads_batches(user: ir.Operation, value: ir.Value, places: list[int]) -> bool:
    """Whether a reader is a product of which these dimensions are batches, too."""
    fused = parse_fused(user)
    if fused is None or is_convolution(user) or value in outputs(user):
        return False
    batches = _batches(fused)
    read = [dims(m) for v, m in zip(inputs(user), maps(user)) if v == value]
    return all(d is not None and all(d[i] in batches for i in places) for d in read)


def _batches(fused: FusedContraction) -> set[int]:
    """The loops that both factors walk along and the sum does not."""
    op = fused.op
    return {d for d in _loops(op, fused.lhs) & _loops(op, fused.rhs) if kinds(op)[d] != REDUCTION}


def _loops(op: ir.Operation, value: ir.Value) -> set[int]:
    if isinstance(value, ir.BlockArgument):
        own = value.owner == body(op) and value.arg_number < len(inputs(op))
        return set(dims(maps(op)[value.arg_number]) or ()) if own else set()
    return set().union(*(_loops(op, v) for v in owner(value).operands))


def _is_start(value: ir.Value) -> bool:
    made = owner(value)
    return made is not None and made.name in ("tensor.empty", "linalg.fill")


def _reorder(op: ir.Operation, order: list[int]) -> None:
    count, location = len(inputs(op)), op.location
    moved = lambda m: ir.AffineMap.get(m.n_dims, 0, [m.results[d] for d in order])  # noqa: E731
    old = list(op.results)
    readers = {u for r in old for u in users(r)}
    for user in readers:
        every = [moved(m) if v in old else m for v, m in zip(user.operands, maps(user))]
        user.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in every])
    with ir.InsertionPoint(op), location:
        starts = [_start(v, order) for v in outputs(op)]
        every = [*maps(op)[:count], *map(moved, maps(op)[count:])]
        new = build(inputs(op), starts, every, kinds(op), lambda given: clone_body(body(op), given), location)
    take_place(new, op)


def _start(value: ir.Value, order: list[int]) -> ir.Value:
    empty = tensor.EmptyOp([value.type.shape[d] for d in order], value.type.element_type).result
    made = owner(value)
    return started_like(made, empty)
