"""Compose several moves of the same rows into one gather: shifted windows are rolled along two dimensions, reshaped and transposed.

A roll and what follows it is an operation on points that reads one element at a computed place, and so is what moves the result of another.  Reshapes between
them are arithmetic on places, by numbers that are known.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from inferno.mlir import arith, dim_of, ir, is_read, linalg, owner, tensor, users, walk
from inferno.passes.expand_pieces import EXPAND, collapsed, flattened
from inferno.passes.generics import PARALLEL, body, build, clone_body, dims, element_at, index, inputs, is_copy, is_elementwise, maps, only_user, yielded
from inferno.passes.moved_norms import compute_moved, is_norm
from inferno.passes.programs import RESHAPES
from inferno.passes.shapes import reassociation

_LINE = 64  # bytes of a row, from which on rows in any order are read as fast as in memory's
_PLACING = {"linalg.index", "linalg.yield", "tensor.extract", "arith.constant", "arith.select",
            *(f"arith.{name}" for name in ("addi", "subi", "muli", "cmpi", "remui", "divui"))}


def compose_moves(module: ir.Module) -> None:
    """Rewrite rolls, and transpositions of what is moved already, that leave rows whole.  Only modules for a GPU (``inferno.expand_pieces``) are changed, and
    sizes that vary stay."""
    if EXPAND not in module.operation.attributes:
        return
    for op in walk(module.operation, "tensor.concat", "linalg.generic"):
        if op.parent is None or op.parent.name != "func.func" or not op.results[0].type.has_static_shape or not _has_lines(op.results[0].type):
            continue
        if (roll := _rolled(op)) is not None:
            _replace(op, roll.value, _chain(roll.value, roll.slices), roll.slices, roll.source)
        elif is_copy(op) and _moves_rows(op):
            chain = _chain(inputs(op)[0])
            if any(o.name == "linalg.generic" for o in chain) or _is_of_norm(op, chain):
                _replace(op, op.results[0], [op, *chain])


def _is_of_norm(op: ir.Operation, chain: Sequence[ir.Operation]) -> bool:
    """Whether what is moved, by reshapes alone in front of it, is a norm of rows that nothing else reads."""
    value = chain[-1].operands[0] if chain else inputs(op)[0]
    moved = prod(op.results[0].type.shape) <= prod(value.type.shape)  # and not repeated
    return moved and owner(value) is not None and only_user(value) is not None and is_norm(value)


@dataclass(frozen=True)
class _Roll:
    """``value`` is moved along ``dim``: its last ``count`` elements come first.  ``slices`` make its two parts."""

    value: ir.Value
    dim: int
    count: int
    slices: tuple[ir.Operation, ...]

    def source(self, place: Sequence[ir.Value]) -> list[ir.Value]:
        size, at = self.value.type.shape[self.dim], place[self.dim]
        first = arith.cmpi(arith.CmpIPredicate.ult, at, index(self.count))
        at = arith.select(first, arith.addi(at, index(size - self.count)), arith.subi(at, index(self.count)))
        return [*place[: self.dim], at, *place[self.dim + 1 :]]


def _rolled(op: ir.Operation) -> _Roll | None:
    """What a concatenation of a tensor's end and its beginning rolls, along another dimension than the last."""
    if op.name != "tensor.concat" or len(op.operands) != 2:
        return None
    dim, type_, made = dim_of(op), op.results[0].type, [owner(v) for v in op.operands]
    # A part of one element is a slice without the dimension, which gets it again.
    slices = [owner(m.operands[0]) if m is not None and m.name == "tensor.expand_shape" else m for m in made]
    if dim == type_.rank - 1 or any(s is None or s.name != "tensor.extract_slice" or len(s.operands) != 1 for s in slices):
        return None
    value, count = slices[0].operands[0], op.operands[0].type.shape[dim]
    if value != slices[1].operands[0] or value.type != type_:
        return None
    for part, first, length in zip(slices, (type_.shape[dim] - count, 0), (count, type_.shape[dim] - count)):
        offsets, sizes, steps = (list(ir.DenseI64ArrayAttr(part.attributes[f"static_{n}"])) for n in ("offsets", "sizes", "strides"))
        whole = [n if d != dim else length for d, n in enumerate(type_.shape)]
        if offsets != [first if d == dim else 0 for d in range(type_.rank)] or sizes != whole or any(n != 1 for n in steps):
            return None
    return _Roll(value, dim, count, (*(m for m in made if m not in slices), *slices))


def _has_lines(type_: ir.RankedTensorType) -> bool:
    return type_.rank > 1 and type_.shape[-1] * getattr(type_.element_type, "width", 64) >= 8 * _LINE


def _chain(value: ir.Value, readers: Sequence[ir.Operation] = ()) -> list[ir.Operation]:
    """The operations that made ``value`` of another tensor by moving whole rows, the last one first, as far as nothing else reads what they make."""
    found: list[ir.Operation] = []
    while (op := owner(value)) is not None and op.results[0].type.has_static_shape:
        if not (all(u in readers for u in users(value)) if readers else only_user(value) is not None):
            break
        if op.name in RESHAPES:
            if len(reassociation(op) or [[]]) < 2 or len(reassociation(op)[-1]) != 1:
                break
            value = op.operands[0]
        elif _moves_rows(op):
            value = inputs(op)[0] if inputs(op) else _extract(op).operands[0]
        else:
            break
        found.append(op)
        readers = ()
    return found


def _moves_rows(op: ir.Operation) -> bool:
    """Whether an operation only reads elements of a tensor elsewhere, at places that are computed of numbers of loops, and neighbours where they are."""
    if not is_elementwise(op) or len(op.results) != 1:
        return False
    last = dims(maps(op)[-1])[-1]
    if is_copy(op):
        read, type_ = list(maps(op)[0].results), inputs(op)[0].type
        kept = bool(read) and isinstance(read[-1], ir.AffineDimExpr) and ir.AffineDimExpr(read[-1]).position == last
        plain = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for e in read)
        return kept and plain and type_.has_static_shape and type_.shape[-1] == op.results[0].type.shape[-1]
    gather = _extract(op) if not inputs(op) else None
    if gather is None or any(o.operation.name not in _PLACING for o in body(op).operations) or len(walk(op, "tensor.extract")) != 1:
        return False
    at, table = owner(gather.operands[len(gather.operands) - 1]), gather.operands[0].type
    same = at is not None and at.name == "linalg.index" and dim_of(at) == last
    return same and table.has_static_shape and table.shape[-1] == op.results[0].type.shape[-1]


def _extract(op: ir.Operation) -> ir.Operation | None:
    """What gathers the element that a body yields."""
    found = owner(yielded(op)[0])
    return found if found is not None and found.name == "tensor.extract" else None


def _replace(
    op: ir.Operation, value: ir.Value, chain: Sequence[ir.Operation], slices: Sequence[ir.Operation] = (), before: Callable[[list], list] = list,
) -> None:
    """Put an operation in the place of ``op`` that reads what the ``chain`` begins with, where it has what ``value`` has at the place that ``before`` says."""
    def fill(_: list[ir.Value]) -> list[ir.Value]:
        return [_element(value, before([linalg.IndexOp(d).result for d in range(op.results[0].type.rank)]), chain)]

    with ir.InsertionPoint(op), op.location:
        made = _points(op.results[0].type, fill)
    op.results[0].replace_all_uses_with(made.results[0])
    for gone in (op, *slices, *(o for o in chain if o != op)):  # how many readers there are says what may be computed elsewhere
        if not is_read(gone.results[0]):
            gone.erase()
    table = _extract(made).operands[0]
    if only_user(table) is not None and owner(table) is not None:
        with ir.InsertionPoint(made), made.location:
            norm = compute_moved(table, made.results[0].type.shape[:-1], lambda other: _moved_alike(made, other))
        if norm is not None:
            made.results[0].replace_all_uses_with(norm)
            made.erase()


def _points(type_: ir.RankedTensorType, fill: Callable[[list[ir.Value]], list[ir.Value]]) -> ir.Operation:
    """An operation without inputs."""
    out = tensor.EmptyOp(list(type_.shape), type_.element_type).result
    return build([], [out], [ir.AffineMap.get_identity(type_.rank)], [PARALLEL] * type_.rank, fill, ir.Location.current)


def _moved_alike(op: ir.Operation, other: ir.Value) -> ir.Value:
    """What reads ``other``, which has the same rows, at the places that an operation reads."""
    shape = op.results[0].type.shape
    loops = [ir.AffineDimExpr.get(d) for d in range(len(shape))]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        gather = owner(clone_body(body(op), arguments, loops)[0])
        place = list(gather.operands)[1:]
        gather.erase()
        return [tensor.extract(other, place)]

    return _points(ir.RankedTensorType.get([*shape[:-1], other.type.shape[-1]], other.type.element_type), fill).results[0]


def _element(value: ir.Value, place: list[ir.Value], chain: Sequence[ir.Operation]) -> ir.Value:
    for op in chain:
        if op.name == "tensor.expand_shape":
            value, place = op.operands[0], flattened(op, place)
        elif op.name == "tensor.collapse_shape":
            value, place = op.operands[0], collapsed(op)(place)
        else:
            gather = owner(element_at(op, place, tensor.extract))
            value, *place = gather.operands
            gather.erase()
    return tensor.extract(value, place)
