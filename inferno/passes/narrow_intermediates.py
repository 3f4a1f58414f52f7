"""Store what is computed in 16 bits and widened last in 16 bits, and let its readers widen it: half the bytes in memory.

A cast that stands at the end of what makes a tensor went there with the rest of its operation, and stays where a reshape keeps that from its readers.
"""

from inferno.mlir import arith, ir, is_read, owner, tensor, terminator, users, walk
from inferno.passes.contraction import is_sum_of_products, parse_fused
from inferno.passes.generics import (
    body, build, clone_body, clone_uncast, inputs, is_copy, is_elementwise, is_generic, kinds, knows_sizes, maps, outputs, yielded,
)
from inferno.passes.programs import VIEWS
from inferno.passes.shapes import function_of
from inferno.passes.size_values import sizes

_WIDENINGS = ("arith.extf", "arith.extsi", "arith.extui")
_LEAST = 8  # bits of what memory holds as it is


def narrow_intermediates(module: ir.Module) -> None:
    """Move the widening that ends an elementwise operation into its readers, through reshapes and slices, where each of them is a map or a reduction.
    Contractions copy whole tiles of their factors, and what is returned has the type that was asked for: what they read stays as it is."""
    for op in reversed(walk(module.operation, "linalg.generic")):  # readers first: they are made anew
        if is_elementwise(op) and len(op.results) == 1 and knows_sizes(op) and _all_widen(op.results[0]):
            _widen_last(op)
            if _widening(op) is not None:
                _move(op)


def _widen_last(op: ir.Operation) -> None:
    """Where a body ends in a choice of values that are widened each, as where a padding is widened with what is inside it, widen what is chosen."""
    last = owner(yielded(op)[0])
    cast = _widening_below(yielded(op)[0]) if last is not None and last.name == "scf.if" else None
    if cast is None or not _is_widened(last.results[0], cast):
        return
    with ir.InsertionPoint.after(last), last.location:
        wider = cast.clone()
    _ending(body(op)).operands[0] = wider.results[0]
    wider.operands[0] = _narrow(last.results[0], wider)


def _widening_below(value: ir.Value) -> ir.Operation | None:
    """The first cast that widens one of the values that choices lead to."""
    made = owner(value)
    if made is None or made.name in _WIDENINGS:
        return made
    ends = [_ending(region.blocks[0]) for region in made.regions] if made.name == "scf.if" else []
    return next((found for end in ends if (found := _widening_below(end.operands[0])) is not None), None)


def _ending(block: ir.Block) -> ir.Operation:
    return terminator(block)


def _is_widened(value: ir.Value, cast: ir.Operation) -> bool:
    """Whether all that choices lead to is widened as by ``cast``, or a number that it makes."""
    made, narrow = owner(value), cast.operands[0].type
    if made is None:
        return False
    if made.name == "scf.if":
        ends = [_ending(region.blocks[0]) for region in made.regions]
        return len(made.results) == len(list(users(value))) == 1 and all(_is_widened(end.operands[0], cast) for end in ends)
    if made.name == cast.name:
        return made.operands[0].type == narrow
    return _narrow_number(made, cast) is not None


def _narrow_number(made: ir.Operation, cast: ir.Operation) -> ir.Attribute | None:
    """A constant float in the type that ``cast`` widens, if that holds it."""
    narrow = cast.operands[0].type
    if made.name != "arith.constant" or cast.name != "arith.extf":
        return None
    number = made.attributes["value"].value
    attribute = ir.FloatAttr.get(narrow, number)
    return attribute if attribute.value == number else None


def _narrow(value: ir.Value, cast: ir.Operation) -> ir.Value:
    """What is widened last, as it is before; a number is made at the insertion point."""
    made, narrow = owner(value), cast.operands[0].type
    if made.name == cast.name:
        return made.operands[0]
    if made.name == "arith.constant":
        return arith.ConstantOp(narrow, _narrow_number(made, cast)).result
    value.set_type(narrow)
    for end in [_ending(region.blocks[0]) for region in made.regions]:
        old = owner(end.operands[0])
        with ir.InsertionPoint(end), end.location:
            end.operands[0] = _narrow(old.results[0], cast)
        if old.name == cast.name and not is_read(old.results[0]):
            old.erase()
    return value


def _widening(op: ir.Operation) -> ir.Operation | None:
    """The cast that ends a body, if one does."""
    last = owner(yielded(op)[0])
    if last is None or last.name not in _WIDENINGS or last.parent.operation != op:
        return None
    type_ = last.operands[0].type
    return last if isinstance(type_, (ir.IntegerType, ir.FloatType)) and type_.width >= _LEAST else None


def _all_widen(value: ir.Value) -> bool:
    """Whether every reader of a value that has some, as it is or reshaped, can widen what it reads."""
    found = list(users(value))
    return bool(found) and all(_all_widen(u.results[0]) if _is_view(u) else _widens(u, value) for u in found)


def _is_view(op: ir.Operation) -> bool:
    """Whether it takes its elements from a tensor as they are: a reshape, or a slice of known sizes."""
    return op.name in VIEWS or (op.name == "tensor.extract_slice" and len(op.operands) == 1)


def _widens(reader: ir.Operation, value: ir.Value) -> bool:
    if not is_generic(reader) or value in outputs(reader) or is_copy(reader) or not knows_sizes(reader):
        return False
    return not is_sum_of_products(reader) and _is_one_factor(reader)


def _is_one_factor(reader: ir.Operation) -> bool:
    """Whether it is no contraction; a sum of squares is a reduction like any other."""
    found = parse_fused(reader)
    return found is None or (found.value is None and found.lhs == found.rhs)


def _move(op: ir.Operation) -> None:
    cast, value = _widening(op), op.results[0]
    narrow = cast.operands[0].type
    if len(inputs(op)) == 1 and cast.operands[0] == body(op).arguments[0] and maps(op)[0] == maps(op)[1]:
        stored = inputs(op)[0]  # nothing but the cast: its readers read what it does
    else:
        with ir.InsertionPoint(op), op.location:
            empty = tensor.EmptyOp(sizes(value, function_of(op)), narrow).result
            stored = build(inputs(op), [empty], maps(op), kinds(op), lambda arguments: clone_uncast(body(op), arguments), op.location).results[0]
    _read(value, stored, cast)
    op.erase()


def _read(wide: ir.Value, stored: ir.Value, cast: ir.Operation) -> None:
    """Have the readers of ``wide``, as it is or reshaped, read ``stored`` instead; what is then unread is erased."""
    while (user := next(users(wide), None)) is not None:  # looked up each time: who reads a view as well has been made anew for that
        with ir.InsertionPoint(user), user.location:
            if not _is_view(user):
                made = _widened(user, wide, stored, cast)
                for old, new in zip(user.results, made.results):
                    old.replace_all_uses_with(new)
            else:
                view = user.clone()
                view.operands[0] = stored
                type_ = ir.RankedTensorType(user.results[0].type)
                view.results[0].set_type(ir.RankedTensorType.get(type_.shape, stored.type.element_type, type_.encoding))
                _read(user.results[0], view.results[0], cast)
        user.erase()


def _widened(reader: ir.Operation, wide: ir.Value, stored: ir.Value, cast: ir.Operation) -> ir.Operation:
    """A reader of ``wide`` as one of ``stored``."""
    read = inputs(reader)

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        values = list(arguments)
        for place, value in enumerate(read):
            if value == wide:
                wider = cast.clone()
                wider.operands[0] = arguments[place]
                values[place] = wider.results[0]
        return clone_body(body(reader), values)

    return build([stored if v == wide else v for v in read], outputs(reader), maps(reader), kinds(reader), fill, reader.location)
