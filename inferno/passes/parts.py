"""Parts of tensors, and what computes a part of an operation's results alone."""

from collections.abc import Collection, Sequence
from math import prod

from inferno.mlir import ir, owner, tensor
from inferno.passes.affine import renumber
from inferno.passes.generics import REDUCTION, body, build, clone_body, inputs, kinds, maps, outputs, started_like, substitute
from inferno.passes.shapes import function_of, shape, static
from inferno.passes.size_values import mixed
from inferno.symbolic import Int, bounds

Part = tuple[Int, Int, Int]  # of a dimension: where it begins, how many there are, and how far apart


def taken_by(op: ir.Operation, drops: bool = False) -> list[Part] | None:
    """What a slice takes of each dimension, if that are numbers and it keeps all dimensions, or ``drops`` some."""
    if op.name != "tensor.extract_slice" or len(op.operands) != 1 or (op.results[0].type.rank != op.operands[0].type.rank and not drops):
        return None
    return list(zip(*(list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides"))))


def inside(outer: Sequence[Part], kept: Sequence[int], inner: Sequence[Part]) -> list[Part]:
    """The parts that are ``inner`` ones of the dimensions ``kept`` of ``outer`` ones."""
    found = list(outer)
    for d, (begin, count, step) in zip(kept, inner, strict=True):
        found[d] = outer[d][0] + begin * outer[d][2], count, outer[d][2] * step
    return found


def merged_part(dimensions: Sequence[tuple[Int, Part]]) -> Part | None:
    """The part of the one dimension that these, of so many elements each, become; None if its elements are not equally far apart."""
    begin, count, step = 0, 1, 1
    for size, (b, n, s) in dimensions:
        if count == 1:
            begin, count, step = begin * size + b, n, s
        elif n == 1:
            begin, step = begin * size + b, step * size
        elif step * size == n * s:
            begin, count, step = begin * size + b, count * n, s
        else:
            return None
    return begin, count, step


def split_part(part: Part, sizes: Sequence[Int]) -> list[Part] | None:
    """The parts of the dimensions that one becomes."""
    if len(sizes) == 1:
        return [part]
    begin, count, step = part
    inner = prod(sizes[1:])
    numbers = all(isinstance(n, int) for n in (*part, inner))
    if isinstance(begin, int) and isinstance(inner, int):
        first, rest = divmod(begin, inner)
    elif bounds(begin)[0] >= 0 and bounds(inner - begin)[0] >= 1:
        first, rest = 0, begin
    else:
        return None
    if step == inner or (isinstance(step, int) and isinstance(inner, int) and step % inner == 0):
        outer, within = (first, count, 1 if step == inner else step // inner), (rest, 1, 1)
    elif bounds(inner - rest - (count - 1) * step)[0] >= 1:
        outer, within = (first, 1, 1), (rest, count, step)
    elif numbers and inner % step == 0 and rest < step and count % (inner // step) == 0:
        outer, within = (first, count // (inner // step), 1), (rest, inner // step, step)
    else:
        return None
    split = split_part(within, sizes[1:])
    return None if split is None else [outer, *split]


def type_of(value: ir.Value) -> ir.RankedTensorType | None:
    """A tensor's type; None of any other value."""
    return value.type if isinstance(value.type, ir.RankedTensorType) else None


def compute_part(producer: ir.Operation, parts: Sequence[Part], kept: Collection[int]) -> ir.Operation:
    """What computes ``parts`` of a generic's loops, at the insertion point: without the loops of one iteration that are not ``kept``, which its results have no
    dimension for.  Of loops that the body asks for their iterations, the parts are numbers."""
    kept = sorted({*kept, *(d for d, kind in enumerate(kinds(producer)) if kind == REDUCTION)})
    names = renumber(kept, len(parts))

    def without(map_: ir.AffineMap) -> ir.AffineMap:
        read = [e for e in map_.results if not isinstance(e, ir.AffineDimExpr) or ir.AffineDimExpr(e).position in kept]
        return substitute(ir.AffineMap.get(len(parts), 0, read), names, len(kept))

    count = len(inputs(producer))
    values = [_slice(v, m, parts, kept) for v, m in zip(inputs(producer), maps(producer))]
    begun = [_begin(v, m, parts, kept) for v, m in zip(outputs(producer), maps(producer)[count:])]
    # Through a map, which knows what kind of expression each is.
    known = [name * step + begin if isinstance(begin, int) and isinstance(step, int) else name for name, (begin, _, step) in zip(names, parts)]
    loops = ir.AffineMap.get(len(kept), 0, known).results
    return build(
        values, begun, list(map(without, maps(producer))), [kinds(producer)[d] for d in kept],
        lambda arguments: clone_body(body(producer), arguments, loops), producer.location,
    )


def extract(value: ir.Value, parts: Sequence[Part], stays: Sequence[bool] | None = None) -> ir.Value:
    """A part of a tensor, without the dimensions of one element that do not stay."""
    type_ = ir.RankedTensorType.get(static([n for d, (_, n, _) in enumerate(parts) if stays is None or stays[d]]), value.type.element_type)
    numbers = [[part[i] for part in parts] for i in range(3)]
    varying = [[v for v in mixed(each, _function()) if not isinstance(v, int)] for each in numbers]
    return tensor.extract_slice(type_, value, *varying, *map(static, numbers))


def _function() -> ir.Operation:
    """The function around the insertion point."""
    return function_of(ir.InsertionPoint.current.block.owner.operation)


def _begin(value: ir.Value, map_: ir.AffineMap, parts: Sequence[Part], kept: Sequence[int]) -> ir.Value:
    """A part of what a result begins as."""
    made = owner(value)
    if made is None or made.name not in ("tensor.empty", "linalg.fill"):
        return _slice(value, map_, parts, kept)
    found = [ir.AffineDimExpr(e).position for e in map_.results]
    empty = tensor.EmptyOp(mixed([parts[d][1] for d in found if d in kept], _function()), value.type.element_type).result
    return started_like(made, empty)


def _slice(value: ir.Value, map_: ir.AffineMap, parts: Sequence[Part], kept: Sequence[int]) -> ir.Value:
    """What is read of an operand, without the dimensions of loops that are not ``kept``."""
    if type_of(value) is None:
        return value
    sizes = shape(value)
    taken = [parts[ir.AffineDimExpr(e).position] if isinstance(e, ir.AffineDimExpr) else (0, n, 1) for e, n in zip(map_.results, sizes)]
    stays = [not isinstance(e, ir.AffineDimExpr) or ir.AffineDimExpr(e).position in kept for e in map_.results]
    if all(stays) and all(part == (0, n, 1) for part, n in zip(taken, sizes)):
        return value
    return extract(value, taken, stays)
