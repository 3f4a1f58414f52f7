"""A concatenation as an operation on points: each is read from the piece that it lies in.

Which piece that is depends on one coordinate.  ``scf.if`` chooses it, so that a piece is read by whole vectors where none of them lies across two.
"""

from math import gcd

from inferno.mlir import arith, ir, linalg, owner, scf, tensor, users, walk
from inferno.passes.generics import PARALLEL, build
from inferno.passes.programs import root_of


def expand_concat(kernel: ir.Operation) -> int:
    """Rewrite a kernel that only concatenates arguments, or parts of them, of static shapes.  What divides where each piece begins and ends in
    memory, in elements of the innermost dimension; 0 where nothing was rewritten."""
    concats = walk(kernel, "tensor.concat")
    copy = next(iter(users(concats[0].results[0])), None) if len(concats) == 1 else None
    if copy is None or copy.name != "linalg.copy" or any(not v.type.has_static_shape for v in concats[0].operands):
        return 0
    concat = concats[0]
    sources = [_source(v) for v in concat.operands]
    if None in sources:
        return 0
    dim, shape = ir.IntegerAttr(concat.attributes["dim"]).value, concat.results[0].type.shape
    sizes = [v.type.shape[dim] for v in concat.operands]
    factor = shape[-1]
    for (argument, offsets, steps), value in zip(sources, concat.operands):
        across = [offsets[-1], value.type.shape[-1], argument.type.shape[-1]] if steps[-1] == 1 else [1]
        factor = gcd(factor, *across)

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        place = [linalg.IndexOp(d).result for d in range(len(shape))]
        return [_piece(sources, sizes, dim, place, arguments[0].type)]

    with ir.InsertionPoint(copy), copy.location:
        identity = ir.AffineMap.get_identity(len(shape))
        new = build([], [copy.operands[1]], [identity], [PARALLEL] * len(shape), fill, copy.location)
    copy.results[0].replace_all_uses_with(new.results[0])
    copy.erase()
    concat.erase()
    for part in reversed(walk(kernel, "tensor.extract_slice")):
        part.erase()
    return factor


def _source(value: ir.Value) -> tuple[ir.Value, list[int], list[int]] | None:
    """The argument that a piece is read from, and where a part of it begins and what its steps are."""
    rank, op = value.type.rank, owner(value)
    if op is not None and op.name == "tensor.extract_slice" and op.operands[0].type.rank == rank and len(op.operands) == 1:
        inner = _source(op.operands[0])
        if inner is None:
            return None
        begin, steps = (list(ir.DenseI64ArrayAttr(op.attributes[name])) for name in ("static_offsets", "static_strides"))
        argument, offsets, strides = inner
        return argument, [o + s * b for o, s, b in zip(offsets, strides, begin)], [s * t for s, t in zip(strides, steps)]
    return (value, [0] * rank, [1] * rank) if isinstance(value, ir.BlockArgument) and root_of(value) == value else None


def _piece(sources: list, sizes: list[int], dim: int, place: list[ir.Value], element: ir.Type) -> ir.Value:
    """The element at ``place``, counted from where the first of these pieces begins."""
    if len(sources) == 1:
        argument, offsets, steps = sources[0]
        return tensor.extract(argument, [_shift(p, o, s) for p, o, s in zip(place, offsets, steps)])
    index = ir.IndexType.get()
    inside = arith.cmpi(arith.CmpIPredicate.ult, place[dim], arith.constant(index, sizes[0]))
    choice = scf.IfOp(inside, [element], has_else=True)
    with ir.InsertionPoint(choice.then_block):
        scf.yield_([_piece(sources[:1], sizes[:1], dim, place, element)])
    with ir.InsertionPoint(choice.else_block):
        rest = list(place)
        rest[dim] = arith.subi(place[dim], arith.constant(index, sizes[0]))
        scf.yield_([_piece(sources[1:], sizes[1:], dim, rest, element)])
    return choice.results[0]


def _shift(place: ir.Value, offset: int, step: int) -> ir.Value:
    index = place.type
    scaled = place if step == 1 else arith.muli(place, arith.constant(index, step))
    return scaled if offset == 0 else arith.addi(scaled, arith.constant(index, offset))
