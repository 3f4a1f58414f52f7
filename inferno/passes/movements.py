"""Operations that only move data, in any order of dimensions: reshapes, slices, paddings, concatenations.

An order is of a tensor's dimensions in memory, outermost first: a tensor in order (0, 2, 3, 1) has at place 1 what is its dimension 2.
"""

from collections.abc import Sequence

from inferno.mlir import dim_of, ir, linalg, owner, tensor, terminator
from inferno.passes.convolution import Order
from inferno.passes.name_symbols import expand
from inferno.passes.programs import RESHAPES
from inferno.passes.propagate_reshapes import grouping
from inferno.passes.shapes import function_of, reassociation, reassociation_attribute, shape, static
from inferno.passes.size_values import mixed
from inferno.symbolic import Int

_SAME = ("tensor.pad", "tensor.concat", "tensor.extract_slice", "tensor.insert_slice")


def moves(op: ir.Operation | None) -> bool:
    """Whether an operation is one of these, with numbers for what it moves by."""
    if op is None or op.name not in (*RESHAPES, *_SAME):
        return False
    tensors = [v for v in (*op.operands, op.results[0]) if isinstance(v.type, ir.RankedTensorType)]
    if op.name in RESHAPES:
        return all(t.type.has_static_shape and 0 not in t.type.shape for t in tensors)
    if any(t.type.rank != op.results[0].type.rank for t in tensors):
        return False
    if op.name == "tensor.concat":
        return True
    inside = any(isinstance(v, ir.BlockArgument) or owner(v).parent == op for v in _yielded(op))
    return len(op.operands) == len(tensors) - 1 and not inside


def sources(op: ir.Operation) -> list[ir.Value]:
    """The tensors that it moves."""
    return [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]


def order_before(op: ir.Operation, order: Order) -> Order | None:
    """The order of the operands of which the result comes in ``order`` without moving anything else; None where there is none."""
    if op.name not in RESHAPES:
        return order
    groups, many = _reshape(op)
    return _of_many(groups, order) if op.name == "tensor.collapse_shape" else _of_few(groups, many, order)


def order_after(op: ir.Operation, order: Order) -> Order | None:
    """The order of the result if the operands come in ``order``."""
    if op.name not in RESHAPES:
        return order
    groups, many = _reshape(op)
    return _of_many(groups, order) if op.name == "tensor.expand_shape" else _of_few(groups, many, order)


def move(op: ir.Operation, values: Sequence[ir.Value], order: Order) -> ir.Value:
    """The operation at the insertion point, with a result in ``order``, of operands that are in the order that belongs to it."""
    result = op.results[0]
    wanted = [result.type.shape[d] for d in order]
    if op.name in RESHAPES:
        return reshape(values[0], wanted)
    type_ = ir.RankedTensorType.get(wanted, result.type.element_type)
    if op.name == "tensor.concat":
        return tensor.ConcatOp(type_, order.index(dim_of(op)), list(values)).result
    numbers = {n: [list(ir.DenseI64ArrayAttr(op.attributes[n]))[d] for d in order] for n in op.attributes if n.startswith("static_")}
    if op.name == "tensor.pad":
        return pad(values[0], type_, numbers["static_low"], numbers["static_high"], _yielded(op)[0])
    places = [numbers[f"static_{n}"] for n in ("offsets", "sizes", "strides")]
    if op.name == "tensor.extract_slice":
        return tensor.extract_slice(type_, values[0], [], [], [], *places)
    return tensor.InsertSliceOp(values[0], values[1], [], [], [], *places).result


def pad(value: ir.Value, type_: ir.RankedTensorType, low: Sequence[int], high: Sequence[int], filling: ir.Value) -> ir.Value:
    """A tensor with ``filling`` around it, at the insertion point; ``type_`` is that of the result."""
    made = tensor.PadOp(type_, value, [], [], low, high)
    block = made.region.blocks.append(*[ir.IndexType.get()] * type_.rank, arg_locs=[ir.Location.current] * type_.rank)
    with ir.InsertionPoint(block):
        tensor.YieldOp(filling)
    return made.result


def reshape(value: ir.Value, wanted: Sequence[int]) -> ir.Value:
    """A tensor with other sizes, whose elements stay in row-major order; static, without elements of size 0, and apart from sizes of 1 one
    shape's dimensions are groups of the other's."""
    given, element = list(value.type.shape), value.type.element_type
    if given == list(wanted):
        return value
    type_ = ir.RankedTensorType.get(list(wanted), element)
    if not given:
        return tensor.expand_shape(type_, value, reassociation_attribute([]), [], list(wanted))
    if len(wanted) >= len(given) and (groups := grouping(wanted, given)) is not None:
        return tensor.expand_shape(type_, value, reassociation_attribute(groups), [], list(wanted))
    if len(wanted) <= len(given) and (groups := grouping(given, wanted)) is not None:
        return tensor.CollapseShapeOp(type_, value, reassociation_attribute(groups)).result
    before, after = ([s for s in sizes if s != 1] for sizes in (given, wanted))
    return reshape(reshape(value, before if before != given else after), wanted)


def spread(value: ir.Value, places: Sequence[int | None], op: ir.Operation) -> ir.Value:
    """A tensor with dimensions of size 1 between its own, at the insertion point: ``places`` has for each of the result's the number of the tensor's,
    or None.  ``op`` is an operation of the function."""
    given, group, groups = shape(value), 0, [[] for _ in range(value.type.rank)]
    for d, place in enumerate(places):
        group = group if place is None else place
        if groups:
            groups[group].append(d)
    return expand(value, [1 if place is None else given[place] for place in places], groups, op)


def insert(part: ir.Value, into: ir.Value, offsets: Sequence[Int], sizes: Sequence[Int], op: ir.Operation, steps: Sequence[Int] = ()) -> ir.Value:
    """``tensor.insert_slice`` of sizes and places that may vary, at the insertion point; ``op`` is an operation of the function.  Steps are 1 unless said."""
    numbers = (offsets, sizes, steps or [1] * len(sizes))
    varying = [[v for v in mixed(each, function_of(op)) if not isinstance(v, int)] for each in numbers]
    return tensor.InsertSliceOp(part, into, *varying, *map(static, numbers)).result


def is_free(value: ir.Value) -> bool:
    """Whether a tensor is nothing but sizes, or one number everywhere: in every order at no cost."""
    made = owner(value)
    return made is not None and (made.name == "tensor.empty" or (made.name == "linalg.fill" and is_free(made.operands[1])))


def remake(value: ir.Value, order: Order) -> ir.Value:
    """A free tensor in another order, at the insertion point."""
    made, found = owner(value), shape(value)
    if made.name == "linalg.fill":
        return linalg.fill(made.operands[0], outs=[remake(made.operands[1], order)])
    return tensor.EmptyOp(mixed([found[d] for d in order], function_of(made)), value.type.element_type).result


def _yielded(op: ir.Operation) -> list[ir.Value]:
    """What a padding is filled with."""
    return [v for region in op.regions for block in region.blocks for v in terminator(block).operands]


def _reshape(op: ir.Operation) -> tuple[list[list[int]], list[int]]:
    """The groups of a reshape, and the sizes on the side with more dimensions."""
    many = op.results[0] if op.name == "tensor.expand_shape" else op.operands[0]
    return reassociation(op), list(many.type.shape)


def _of_many(groups: list[list[int]], order: Order) -> Order:
    """The order of the many dimensions if the few are in ``order``."""
    return tuple(d for g in order for d in groups[g])


def _of_few(groups: list[list[int]], many: list[int], order: Order) -> Order | None:
    """The order of the few dimensions if the many are in ``order``; None where one's parts would not lie together, in their order."""
    group_of = {d: i for i, g in enumerate(groups) for d in g}
    large = [d for d in order if many[d] != 1]
    runs = [group_of[d] for i, d in enumerate(large) if i == 0 or group_of[d] != group_of[large[i - 1]]]
    if len(set(runs)) != len(runs) or any(a > b and group_of[a] == group_of[b] for a, b in zip(large, large[1:])):
        return None
    for group in range(len(groups)):  # of sizes of 1: behind the one before them
        if group not in runs:
            runs.insert(runs.index(group - 1) + 1 if group else 0, group)
    return tuple(runs)


