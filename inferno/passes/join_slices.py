"""Compose slices of slices: ``x[64:128, :512]`` is imported as two slices, each of which could become a copy."""

from inferno.mlir import dim_of, ir, is_read, owner, tensor, users, walk
from inferno.passes.movements import reshape
from inferno.passes.parts import inside, taken_by
from inferno.passes.programs import RESHAPES

_FREE = ("tensor.extract_slice", *RESHAPES)


def join_slices(module: ir.Module) -> None:
    """Let slices of slices, of known sizes, read what those are slices of, dimensions of one element between them or not."""
    for op in walk(module.operation, "tensor.extract_slice"):
        outer = owner(_without_views(op.operands[0]))
        if outer is None or outer.name != "tensor.extract_slice" or len(op.operands) != 1 or len(outer.operands) != 1:
            continue
        whole = taken_by(outer, drops=True)
        wide, inner = [d for d, (_, size, _) in enumerate(whole) if size != 1], list(zip(op.operands[0].type.shape, taken_by(op, drops=True)))
        same = op.operands[0] == outer.results[0]
        if any(size != 1 for n, (_, size, _) in inner if n == 1) or (not same and 0 in op.results[0].type.shape):
            continue
        joined = inside(whole, wide, [part for n, part in inner if n != 1])
        shape, element = op.results[0].type.shape, op.results[0].type.element_type
        kept = shape if same else [size for _, size, _ in joined if size != 1]
        with ir.InsertionPoint(op), op.location:
            new = tensor.ExtractSliceOp(ir.RankedTensorType.get(kept, element), outer.operands[0], [], [], [], *map(list, zip(*joined))).result
            new = new if same else reshape(new, shape)
        op.results[0].replace_all_uses_with(new)
        views = op.operands[0]
        op.erase()
        _erase_unread(views)


def join_equal(value: ir.Value) -> None:
    """Let equal slices of a tensor be one."""
    found: dict[tuple, ir.Operation] = {}
    for cut in [u for u in users(value) if taken_by(u, drops=True) is not None]:
        said = cut.results[0].type, *(cut.attributes[f"static_{name}"] for name in ("offsets", "sizes", "strides"))
        other = found.setdefault(said, cut)
        if other != cut and other.block == cut.block:
            found[said], later = (other, cut) if other.is_before_in_block(cut) else (cut, other)
            later.results[0].replace_all_uses_with(found[said].results[0])
            later.erase()


def read_pieces(op: ir.Operation) -> bool:
    """Where slices that lie in one piece each are all that reads a concatenation, let them be slices of the pieces; whether that was done."""
    dim, begins = dim_of(op), [0]
    cuts = [(user, taken_by(user, drops=True)) for user in users(op.results[0])]
    if not cuts or not op.results[0].type.has_static_shape or any(taken is None or 0 in cut.results[0].type.shape for cut, taken in cuts):
        return False
    for piece in op.operands:
        begins.append(begins[-1] + piece.type.shape[dim])
    found = []
    for cut, taken in cuts:
        begin, count, step = taken[dim]
        number = next(n for n, end in enumerate(begins[1:]) if begin < end)
        if begin + (count - 1) * step >= begins[number + 1]:
            return False
        found.append((cut, op.operands[number], [*taken[:dim], (begin - begins[number], count, step), *taken[dim + 1:]]))
    for cut, piece, parts in found:
        with ir.InsertionPoint(cut), cut.location:
            cut.results[0].replace_all_uses_with(tensor.ExtractSliceOp(cut.results[0].type, piece, [], [], [], *map(list, zip(*parts))).result)
        cut.erase()
    op.erase()
    return True


def _without_views(value: ir.Value) -> ir.Value:
    """What it is but for dimensions of one element."""
    while (op := owner(value)) is not None and op.name in RESHAPES and _wide(op.operands[0]) == _wide(value):
        value = op.operands[0]
    return value


def _wide(value: ir.Value) -> list[int]:
    return [n for n in value.type.shape if n != 1]


def _erase_unread(value: ir.Value) -> None:
    """A slice that nothing reads any more, and its views."""
    while (op := owner(value)) is not None and op.name in _FREE and not is_read(value):
        value = op.operands[0]
        op.erase()
