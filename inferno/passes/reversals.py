"""Remove flips that make no difference: a sum of flipped elements is the sum of them, and reductions of rows may read the rows from the end.

``x.flip(-1).sum(-1)`` reads ``x`` as it lies, and so do the sums of a norm of ``x.flip(-1)`` that is a piece of a concatenation, which gathers from ``x``.
Of ``F.normalize(x + y).flip(-1)`` the sum of squares is taken of ``(x + y).flip(-1)``, so that the only kernel that goes over the rows reads ``x`` and ``y``
from the end, once, and nothing is written for another one to gather from.
"""

from inferno.mlir import arith, dim_of, ir, is_read, owner, tensor, users, walk
from inferno.passes.generics import (
    PARALLEL, REDUCTION, body, build, dims, element_at, index, inputs, is_elementwise, is_generic, kinds, loop, loop_sizes, loops_of, maps, yielded,
)
from inferno.passes.places import place_of
from inferno.passes.selected_products import product_of

_UNORDERED = {"arith.addf", "arith.addi", "arith.mulf", "arith.muli", "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"}


def straighten_sums(op: ir.Operation) -> bool:
    """Let a reduction count the loops that it reduces from their beginning, where all that depends on one counts from its end; whether there was one."""
    changed = False
    for along in [d for d, kind in enumerate(kinds(op)) if kind == REDUCTION]:
        used = [m for a, m in zip(body(op).arguments, maps(op)) if is_read(a)]
        counts = [o for o in walk(op, "linalg.index") if dim_of(o) == along]
        uses = [u.owner.operation for o in counts for u in o.results[0].uses]
        if any(along in _loops(m) for m in used) or not uses or not all(_from_end(u, loop_sizes(op)[along]) for u in uses) or not _is_unordered(op):
            continue
        for use in uses:
            use.results[0].replace_all_uses_with(use.operands[1])
            use.erase()
        changed = True
    return changed


def straighten_readers(flip: ir.Operation) -> bool:
    """Let reductions read what is flipped and not the flip, where nothing else reads that; whether it was so, and the flip is gone."""
    result, gathers = flip.results[0], walk(flip, "tensor.extract")
    if len(gathers) != 1 or yielded(flip) != [gathers[0].results[0]] or not result.type.has_static_shape or gathers[0].operands[0].type != result.type:
        return False
    loops = [p and p[0] for p in map(place_of, list(gathers[0].operands)[1:])]
    flipped, readers = flipped_dimensions(gathers[0], loop_sizes(flip)), list(users(result))
    if not flipped or loops != dims(maps(flip)[-1]) or not readers or not all(_reduces_all(u, result, flipped) for u in readers):
        return False
    result.replace_all_uses_with(gathers[0].operands[0])
    flip.erase()
    return True


def reverse_producer(producer: ir.Operation) -> ir.Operation | None:
    """Make what an elementwise operation makes in the order in which its only flip reads it, of rows, where all other readers reduce these: the new operation;
    None, and nothing changed, where that is not so."""
    result = producer.results[0]
    made = list(users(result))
    gathers = [u for u in made if u.name == "tensor.extract"]
    if len(gathers) != 1 or product_of(producer) is not None or not result.type.has_static_shape:
        return None
    gather, shape = gathers[0], result.type.shape
    around = gather.parent.operation
    sizes = loop_sizes(around) if is_generic(around) else []
    flipped = flipped_dimensions(gather, sizes)
    others = [u for u in made if u != gather and u != around]
    if flipped != {len(shape) - 1} or not others or result in inputs(around) or not all(_reduces_all(u, result, flipped) for u in others):
        return None
    order = dims(maps(producer)[-1])
    # The first reader is behind all that the body reads.
    with ir.InsertionPoint(producer), producer.location:
        empty = tensor.EmptyOp(list(shape), result.type.element_type).result

        def fill(_: list[ir.Value]) -> list[ir.Value]:
            places = [loop(d) if d not in flipped else arith.subi(index(shape[d] - 1), loop(d)) for d in range(len(shape))]
            return [element_at(producer, places, tensor.extract)]

        new = build([], [empty], [ir.AffineMap.get_identity(len(order))], [PARALLEL] * len(order), fill, producer.location)
    for user in others:
        user.replace_uses_of_with(result, new.results[0])
    with ir.InsertionPoint(gather), gather.location:
        places = [arith.subi(index(n - 1), v) if d in flipped else v for d, (v, n) in enumerate(zip(list(gather.operands)[1:], shape))]
        gather.results[0].replace_all_uses_with(tensor.extract(new.results[0], places))
    gather.erase()
    producer.erase()
    return new


def _loops(map_: ir.AffineMap) -> set[int]:
    return set().union(*map(loops_of, map_.results))


def _from_end(op: ir.Operation, size: int | None) -> bool:
    """Whether it counts from the end of a loop of so many iterations."""
    found = place_of(op.results[0]) if op.name == "arith.subi" else None
    return found is not None and found[1:] == (-1, (size or 0) - 1)


def _is_unordered(op: ir.Operation) -> bool:
    """Whether terms may be reduced in any order: each result is made by one operation of what it was and a term."""
    block, count = body(op), len(inputs(op))
    for old, value in zip(list(block.arguments)[count:], yielded(op)):
        made, reads = owner(value), [u.owner.operation for u in old.uses]
        if made is not None and made.name == "arith.truncf":
            made = owner(made.operands[0])
        if len(reads) == 1 and reads[0].name == "arith.extf":
            reads = [u.owner.operation for u in reads[0].results[0].uses]
        if made is None or made.name not in _UNORDERED or reads != [made]:
            return False
    return True


def flipped_dimensions(gather: ir.Operation, sizes: list[int | None]) -> set[int]:
    """The dimensions of a tensor that is gathered whole, each along a loop of its own, that are gathered from the end; none where it is not so."""
    shape, found = gather.operands[0].type.shape, [place_of(v) for v in list(gather.operands)[1:]]
    if any(p is None or p[0] is None or p[0] >= len(sizes) or sizes[p[0]] != n for p, n in zip(found, shape)) or len({p[0] for p in found}) != len(found):
        return set()
    if any(p[1:] not in ((1, 0), (-1, n - 1)) for p, n in zip(found, shape)):
        return set()
    return {d for d, p in enumerate(found) if p[1] == -1}


def _reduces_all(op: ir.Operation, value: ir.Value, dimensions: set[int]) -> bool:
    """Whether an operation reduces what it reads of a value along these dimensions, in any order, beside nothing else that depends on them."""
    if not is_generic(op) or is_elementwise(op) or walk(op, "linalg.index", "tensor.extract") or not _is_unordered(op):
        return False
    read = [dims(m) for v, m in zip(inputs(op), maps(op)) if v == value]
    others = [m for v, m in zip([*inputs(op), *op.results], maps(op)) if v != value]
    if not read or any(r is None or r != read[0] for r in read) or value in list(op.operands)[len(inputs(op)):]:
        return False
    along = {read[0][d] for d in dimensions}
    return all(kinds(op)[d] == REDUCTION for d in along) and not any(along & _loops(m) for m in others)
