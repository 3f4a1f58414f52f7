"""Concatenations, paddings and writes to parts of a tensor become elementwise operations: each point is read from the piece that it lies in.

A rotary embedding concatenates two halves of a row, one of them negated, and multiplies the result.  As an operation on points, whose body chooses
between the pieces by a coordinate (``scf.if``) and reads them by ``tensor.extract``, the concatenation takes in what makes its pieces, and goes into
what reads it, like any other elementwise operation: what lay between is never in memory.
"""

from collections.abc import Callable, Sequence
from math import prod

from inferno.mlir import arith, dim_of, ir, linalg, owner, scf, tensor, terminator, users, walk
from inferno.passes.contraction import ended_contraction, ended_convolution, has_windows, pads_convolutions
from inferno.passes.fuse_elementwise import is_cheap
from inferno.passes.generics import PARALLEL, build, dims, element_at, index, inputs, is_elementwise, knows_sizes, maps, only_user, use_count
from inferno.passes.join_slices import read_pieces
from inferno.passes.padding import known_padding
from inferno.passes.programs import RESHAPES, is_written
from inferno.passes.selected_products import product_of
from inferno.passes.shapes import UnknownSize, function_of, is_dynamic, kept_dimensions, reassociation, shape, slice_parts
from inferno.passes.size_values import SizeValues, sizes
from inferno.symbolic import Int, bounds, ceildiv

# Pieces that compute something costly each for itself, and operations between it and them: the sigmoid of a gate whose gradients lie side by side was written
# in float32 and read twice.
_SHARED, _DEPTH = 4, 6
_VIEWS = (*RESHAPES, "tensor.extract_slice")
# Elements read, and choices made, in all that compute a value each for itself: running sums by steps that reach twice as far each read three elements of the
# step in front, those of a recurrence five, and after five steps one kernel read 864.
_MOST_REPEATED = 64
EXPAND = "inferno.expand_pieces"
"""On a module for a GPU."""
# Pieces of one concatenation: more of them are copied, each by its own launch.  (DLRM stacks 27.)
_MOST = 32
# What a kernel of another kind has made is copied where so large a part of it is written, or where it has no more elements than so: otherwise the part is
# written in place.  (An H100 copies 2 MB in the 2 us that two launches take.)
_LARGE_PART, _SMALL = 1 / 4, 1 << 19
_WRITTEN = 1 << 17  # elements of a product, of fewer of which two more bytes take no 0.1 us


def expand_pieces(module: ir.Module) -> None:
    """Rewrite every ``tensor.concat`` and ``tensor.pad`` whose sizes are known, as numbers or expressions, and what ``tensor.insert_slice`` writes to a
    tensor that is new.  Only modules that ask for it (``inferno.expand_pieces``) are changed."""
    if EXPAND not in module.operation.attributes:
        return
    for op in walk(module.operation, "tensor.insert_slice"):
        if op.parent is not None and op.parent.name == "func.func" and _is_last(op):
            _expand_writes(op)
    for op in walk(module.operation, "tensor.concat", "tensor.pad"):
        if op.parent is not None and op.parent.name == "func.func" and not pads_convolutions(op):
            if op.name == "tensor.pad" or not read_pieces(op):
                expand_piece(op)


def expand_piece(op: ir.Operation) -> None:
    """Rewrite one ``tensor.concat`` or ``tensor.pad``, if its sizes are known."""
    values = SizeValues(function_of(op))
    choose = _concatenation(op, values) if op.name == "tensor.concat" else _padding(op, values)
    if choose is None:
        return
    result, split = op.results[0], None
    view = only_user(result)
    if view is not None and view.name == "tensor.collapse_shape" and (split := collapsed(view)) is not None:
        result = view.results[0]
    rank = result.type.rank
    before = view if split is not None else op
    with ir.InsertionPoint(before), op.location:
        out = tensor.EmptyOp(sizes(result, function_of(op)), result.type.element_type).result

        def fill(_: list[ir.Value]) -> list[ir.Value]:
            place = [linalg.IndexOp(d).result for d in range(rank)]
            return [choose(split(place) if split is not None else place)]

        made = build([], [out], [ir.AffineMap.get_identity(rank)], [PARALLEL] * rank, fill, op.location)
    result.replace_all_uses_with(made.results[0])
    if split is not None:
        view.erase()
    op.erase()


def collapsed(view: ir.Operation):
    """From places in what a ``collapse_shape`` makes to places in what it takes; None where that needs sizes that vary."""
    groups, source = reassociation(view), view.operands[0].type
    if any(source.is_dynamic_dim(d) for group in groups for d in group[1:]):
        return None

    def split(place: Sequence[ir.Value]) -> list[ir.Value]:
        found: list[ir.Value] = []
        for x, group in zip(place, groups):
            inner = []
            for d in reversed(group[1:]):
                size = source.shape[d]
                inner.append(index(0) if size == 1 else arith.remui(x, index(size)))
                x = x if size == 1 else arith.divui(x, index(size))
            found += [x, *reversed(inner)]
        return found

    return split


# What is chosen between.


def _concatenation(op: ir.Operation, values: SizeValues):
    """What makes an element of a concatenation of its place."""
    dim = dim_of(op)
    pieces = [v for v in op.operands if 0 not in v.type.shape]
    if not pieces or len(pieces) > _MOST or not all(_is_known(v) for v in pieces):
        return None
    begins: list[Int] = [0]
    for piece in pieces[:-1]:
        begins.append(begins[-1] + shape(piece)[dim])

    def choose(place: Sequence[ir.Value], low: int = 0, high: int = len(pieces)) -> ir.Value:
        if high - low == 1:
            inside = list(place)
            begin = begins[low]
            inside[dim] = _minus(place[dim], begin) if isinstance(begin, int) else arith.subi(place[dim], values.get(begin))
            return element_of(pieces[low], inside, op)
        middle = (low + high) // 2
        before = arith.cmpi(arith.CmpIPredicate.ult, place[dim], _size(begins[middle], values))
        return either(before, lambda: choose(place, low, middle), lambda: choose(place, middle, high), op.results[0].type.element_type)

    return choose


def _padding(op: ir.Operation, values: SizeValues):
    """What makes an element of a padded tensor of its place."""
    ends, source, block = known_padding(op), op.operands[0], op.regions[0].blocks[0]
    value = terminator(block).operands[0]
    constant = owner(value)
    if ends is None or constant is None or constant.name != "arith.constant" or 0 in source.type.shape or not _is_known(source):
        return None

    def choose(place: Sequence[ir.Value]) -> ir.Value:
        inside, at = None, []
        for x, before, after, size in zip(place, *ends, shape(source)):
            x = _minus(x, before) if isinstance(before, int) else arith.subi(x, values.get(before))
            at.append(x)
            if max(bounds(before)[1], bounds(after)[1]) > 0:  # (what is before the first element is a huge number without a sign)
                one = arith.cmpi(arith.CmpIPredicate.ult, x, _size(size, values))
                inside = one if inside is None else arith.andi(inside, one)
        element = op.results[0].type.element_type
        fill = arith.ConstantOp(element, constant.attributes["value"]).result
        return element_of(source, at, op) if inside is None else either(inside, lambda: element_of(source, at, op), lambda: fill, element)

    return choose


def either(condition: ir.Value, then, other, element: ir.Type) -> ir.Value:
    """A value of type ``element`` that ``then()`` makes where the condition holds, and ``other()`` where not."""
    choice = scf.IfOp(condition, [element], has_else=True)
    for block, make in ((choice.then_block, then), (choice.else_block, other)):
        with ir.InsertionPoint(block):
            scf.yield_([make()])
    return choice.results[0]


def _size(size: Int, values: SizeValues) -> ir.Value:
    return index(size) if isinstance(size, int) else values.get(size)


def _minus(place: ir.Value, number: int) -> ir.Value:
    if number == 0:
        return place
    return arith.subi(place, index(number)) if number > 0 else arith.addi(place, index(-number))


def _is_known(value: ir.Value) -> bool:
    try:
        return len(shape(value)) == value.type.rank
    except UnknownSize:
        return False


# Writes to parts of a tensor, one after the other.


def _is_last(op: ir.Operation) -> bool:
    user = only_user(op.results[0])
    return user is None or user.name != "tensor.insert_slice" or user.operands[1] != op.results[0]


def _expand_writes(last: ir.Operation) -> None:
    """Rewrite the writes that end with ``last``, if they are to something else than an argument that has their result in its place in memory."""
    writes = [last]
    while (op := owner(writes[-1].operands[1])) is not None and op.name == "tensor.insert_slice" and only_user(op.results[0]) is not None:
        writes.append(op)
    first, result = writes[-1].operands[1], last.results[0]
    kept = _is_new_value(result, first) or _stays_in_place(writes, first)
    whole = _is_known(result) and 0 not in result.type.shape and len(writes) <= _MOST
    if kept or not whole or not all(map(_is_placed, writes)) or any(map(has_windows, users(result))):
        return
    values = SizeValues(function_of(last))

    def choose(place: list[ir.Value], number: int = 0) -> ir.Value:
        element = result.type.element_type
        if number == len(writes):
            new = owner(first) is not None and owner(first).name == "tensor.empty"
            zero = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
            return arith.ConstantOp(element, zero).result if new else element_of(first, place, writes[-1])
        op = writes[number]
        at, inside = _in_part(op, place, values)
        written = lambda: element_of(op.operands[0], at, op)  # noqa: E731
        return written() if inside is None else either(inside, written, lambda: choose(place, number + 1), element)

    rank = result.type.rank
    with ir.InsertionPoint(last), last.location:
        out = tensor.EmptyOp(sizes(result, function_of(last)), result.type.element_type).result

        def fill(_: list[ir.Value]) -> list[ir.Value]:
            return [choose([linalg.IndexOp(d).result for d in range(rank)])]

        made = build([], [out], [ir.AffineMap.get_identity(rank)], [PARALLEL] * rank, fill, last.location)
    result.replace_all_uses_with(made.results[0])
    for op in writes:
        op.erase()


def _is_new_value(result: ir.Value, first: ir.Value) -> bool:
    """Whether a result is returned, and is what an argument becomes or is read by others, too, for which the choice would be between two tensors: attention
    writes a token to a cache itself.  So is what an argument is between two writes to it."""
    while (op := owner(first)) is not None and op.name == "tensor.insert_slice":
        first = op.operands[1]
    returned = [u.name == "func.return" for u in users(result)]
    return op is None and (_becomes_new(result) if is_written(first) else any(returned) and not all(returned))


def _becomes_new(value: ir.Value) -> bool:
    """Whether a value is returned, or what parts of it are written to is."""
    return any(u.name == "func.return" or (u.name == "tensor.insert_slice" and u.operands[1] == value and _becomes_new(u.results[0])) for u in users(value))


def _stays_in_place(writes: Sequence[ir.Operation], first: ir.Value) -> bool:
    """Whether small parts are written of what is in memory anyway, as a product is, and is read by nothing else, or parts that vary of what is not new."""
    op = owner(first)
    if op is not None and (op.name in ("tensor.empty", "linalg.fill") or _is_computable(op)):
        return False
    if any(map(is_dynamic, (first, *(w.operands[0] for w in writes)))):
        return True
    if op is None or only_user(first) is None:
        return False
    return prod(first.type.shape) > max(_SMALL, sum(prod(w.operands[0].type.shape) for w in writes) / _LARGE_PART)


def _is_placed(op: ir.Operation) -> bool:
    """Whether it is known what an ``insert_slice`` writes to, as numbers or expressions; not each so many elements from one that varies."""
    source, element = op.operands[0], op.results[0].type.element_type
    try:
        offsets, _, steps = slice_parts(op)
    except UnknownSize:
        return False
    numbers = all(isinstance(step, int) and (step == 1 or isinstance(offset, int)) for offset, step in zip(offsets, steps))
    return numbers and _is_known(source) and 0 not in source.type.shape and isinstance(element, (ir.FloatType, ir.IntegerType))


def _in_part(op: ir.Operation, place: Sequence[ir.Value], values: SizeValues) -> tuple[list[ir.Value], ir.Value | None]:
    """Where a place is in what is written by an ``insert_slice``, and whether it is; None where every place is."""
    at, inside, kept = [], None, kept_dimensions(op)
    for d, (x, offset, size, step, whole) in enumerate(zip(place, *slice_parts(op), shape(op.results[0]))):
        conditions = []
        if step != 1:
            conditions.append(arith.cmpi(arith.CmpIPredicate.eq, arith.remui(x, index(step)), index(offset % step)))
            x = arith.divui(x, index(step))
            offset, whole = offset // step, ceildiv(whole - offset % step, step)
        x = _minus(x, offset) if isinstance(offset, int) else arith.subi(x, values.get(offset))
        if offset != 0 or bounds(whole - size)[1] > 0:  # (what is before the first element is a huge number without a sign)
            conditions.append(arith.cmpi(arith.CmpIPredicate.ult, x, _size(size, values)))
        at += [x] if d in kept else []
        for one in conditions:
            inside = one if inside is None else arith.andi(inside, one)
    return at, inside


# An element of a piece.


def element_of(
    value: ir.Value, place: list[ir.Value], reader: ir.Operation, wanted: Callable[[ir.Operation, ir.Operation], bool] | None = None,
) -> ir.Value:
    """The element at ``place``, computed of what ``value`` is made of where ``reader`` alone wants it, or that is cheap; ``wanted`` says otherwise
    which operations' elements are computed."""
    op = owner(value)
    if op is None:
        return tensor.extract(value, place)
    if op.name == "linalg.fill":
        return op.operands[0]
    if op.name == "tensor.extract_slice" and _begins_at_numbers(op):
        return element_of(op.operands[0], _of_slice(op, place), op, wanted)
    if op.name in RESHAPES and (found := _of_units(op, place)) is not None:
        return element_of(op.operands[0], found, op, wanted)
    if op.name == "tensor.expand_shape" and wanted is not None and op.results[0].type.has_static_shape:
        return element_of(op.operands[0], flattened(op, place), op, wanted)
    if _is_computable(op) and product_of(op) is None and (wanted or _is_wanted)(op, reader):
        return element_at(op, place, lambda v, at: element_of(v, at, op, wanted))
    return tensor.extract(value, place)


def _begins_at_numbers(op: ir.Operation) -> bool:
    unknown = ir.ShapedType.get_dynamic_size()
    return all(unknown not in list(ir.DenseI64ArrayAttr(op.attributes[n])) for n in ("static_offsets", "static_strides"))


def _of_slice(op: ir.Operation, place: list[ir.Value]) -> list[ir.Value]:
    """Where a place of a slice is in what it is a slice of."""
    offsets, steps = (list(ir.DenseI64ArrayAttr(op.attributes[n])) for n in ("static_offsets", "static_strides"))
    found, own = [], dict(zip(kept_dimensions(op), place))
    for d, (offset, step) in enumerate(zip(offsets, steps)):
        if d not in own:
            found.append(index(offset))
            continue
        x = own[d]
        x = arith.muli(x, index(step)) if step != 1 else x
        found.append(_minus(x, -offset))
    return found


def _of_units(op: ir.Operation, place: list[ir.Value]) -> list[ir.Value] | None:
    """Where a place is before a reshape that only makes or drops dimensions of one element; None for any other."""
    groups, (large, small) = reassociation(op), (op.results[0], op.operands[0])
    expands = op.name == "tensor.expand_shape"
    many = (large if expands else small).type
    found: list[ir.Value] = [index(0) for _ in many.shape if not groups and not expands]
    for number, group in enumerate(groups):
        wide = [d for d in group if many.shape[d] != 1]
        if len(wide) > 1:
            return None
        if expands:
            found.append(place[wide[0]] if wide else index(0))
        else:
            found += [place[number] if d in wide else index(0) for d in group]
    return found


def flattened(op: ir.Operation, place: list[ir.Value]) -> list[ir.Value]:
    """Where a place is before dimensions were split."""
    found, sizes = [], op.results[0].type.shape
    for group in reassociation(op):
        first, *rest = group
        at = place[first]
        for d in rest:
            at = arith.addi(arith.muli(at, index(sizes[d])), place[d])
        found.append(at)
    return found


def _is_computable(op: ir.Operation) -> bool:
    """Whether what an elementwise operation makes can be computed at any place."""
    if not is_elementwise(op) or len(op.results) != 1 or not knows_sizes(op) or dims(maps(op)[-1]) is None or ended_convolution(op) is not None:
        return False
    return all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(op)[:-1] for e in m.results)


def _is_wanted(op: ir.Operation, reader: ir.Operation) -> bool:
    """Whether pieces compute it: who else would read it from memory is another piece, or none."""
    user = only_user(op.results[0])
    if user is not None and user == reader and user.name == "tensor.concat" and _ends_kernel(op, user):
        return False
    return (user is not None and user == reader) or ((is_cheap(op) or _is_shared(op)) and _repeats_little(op))


def _ends_kernel(op: ir.Operation, concat: ir.Operation) -> bool:
    """Whether it is the end of a contraction, whose kernel writes it as narrow as it is: to its place, if that lies together, or otherwise in so many bytes
    less.  (Small products of what is computed, as of a step's weights and the halves of values, are one kernel before what ends them.)"""
    dim, type_ = dim_of(concat), op.results[0].type
    if not type_.has_static_shape or ended_contraction(op) is None:
        return False
    return all(n == 1 for n in type_.shape[:dim]) or prod(type_.shape) >= _WRITTEN


def _is_shared(op: ir.Operation) -> bool:
    return use_count(op.results[0]) <= _SHARED and ended_contraction(op) is None and _is_for_pieces(op.results[0], _DEPTH)


def _repeats_little(op: ir.Operation) -> bool:
    """Whether all that read an operation's result may compute it, each for itself with all that it is then computed of."""
    most = _MOST_REPEATED // max(1, use_count(op.results[0]))
    return _reads(op, most) <= most


def _reads(op: ir.Operation, most: int) -> int:
    """How many elements are read, and choices made, for one of an operation's; of more than ``most`` some number beyond."""
    count = len(walk(op, "tensor.extract", "scf.if"))
    for value in inputs(op):
        if count > most:
            break
        reader, maker = op, owner(value)
        while maker is not None and maker.name in _VIEWS:
            reader, maker = maker, owner(maker.operands[0])
        computed = maker is not None and _is_computable(maker) and product_of(maker) is None and _is_wanted(maker, reader)
        count += _reads(maker, most - count) if computed else 1
    return count


def _is_for_pieces(value: ir.Value, depth: int) -> bool:
    """Whether all that is made of a value are pieces of concatenations, of which each point is one: two gradients of a gate side by side share a sigmoid."""
    return depth > 0 and all(
        u.name == "tensor.concat" or ((u.name in _VIEWS or _is_computable(u)) and _is_for_pieces(u.results[0], depth - 1)) for u in users(value)
    )
