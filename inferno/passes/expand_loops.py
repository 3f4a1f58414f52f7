"""Split the batch loop of a contraction into an operand's own dimensions: torch's matmul flattens them, and copies what is no view when flattened.

Attention's queries lie as [batch, length, heads, features]; as a batch of matrices they are [batch * heads, length, features], which is no
view of them.  With a loop for the batch and one for the heads the transpose is an index map of the contraction, and so is the broadcast of a
key to several heads.  What follows on the elements of the result gets the same loops, so that the reshape ends up behind it.

So are rows of a product of few terms, to which something is added that all images have in common, as the places of patches: rows of an image then are
an own loop, and the sum is the product's epilogue (672 lists of 63x16 to 128, float32, on an H200: 22 MB are written once, and not written, read and written
again, 9.8 us).  Of many terms tiles of an image's rows alone would cost more.
"""

from collections.abc import Mapping, Sequence
from math import prod

from inferno.mlir import ir, linalg, owner, tensor, users, walk
from inferno.passes.contraction import is_contraction
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.generics import (
    REDUCTION, body, build, clone_body, dims, inputs, is_copy, is_elementwise, is_widening, kinds, knows_sizes, loop_sizes, maps, only_user, use_count,
)
from inferno.passes.name_symbols import expand
from inferno.passes.propagate_reshapes import grouping
from inferno.passes.shapes import function_of, reassociation, reassociation_attribute, shape
from inferno.passes.size_values import mixed
from inferno.symbolic import Int

Parts = Mapping[int, Sequence[Int]]
_FEW = 64  # terms of a product that waits for its results to be written, however its rows are cut (an estimate)


def expand_loops(module: ir.Module) -> None:
    """Split the batch loops of contractions where an operand is a transposed or broadcast tensor that is flattened, or for a GPU (which asks for
    ``expand-pieces``) where the result is transposed when it is no longer flat."""
    results = EXPAND in module.operation.attributes
    for op in [op for op in walk(module.operation, "linalg.generic") if is_contraction(op)]:  # what else is found may be gone by its turn
        if _can_split(op) and (parts := _batch(op) or _rows(op) or (_written(op) if results else {})):
            replace(op, parts)


def _batch(op: ir.Operation) -> dict[int, Sequence[Int]]:
    """The sizes of the dimensions that each flattened batch loop stands for."""
    read = [dims(m) for m in maps(op)]
    if any(r is None for r in read):
        return {}
    found: dict[int, Sequence[Int]] = {}
    for value, loops in zip(inputs(op), read):
        view = owner(value)
        if view is None or view.name != "tensor.collapse_shape" or not _moves(owner(view.operands[0])) or not knows_sizes(view):
            continue
        sizes = shape(view.operands[0])
        for group, loop in zip(reassociation(view), loops):
            if len(group) > 1 and all(loop in r for r in read):
                found[loop] = _finer(found.get(loop), [sizes[d] for d in group])
    return found


def _rows(op: ir.Operation) -> dict[int, Sequence[Int]]:
    """The same of a loop of rows of a product of few terms, whose result, or what is computed of its elements, is expanded for what adds a tensor of some of
    these dimensions."""
    sizes, read = loop_sizes(op), [dims(m) for m in maps(op)]
    terms = [size for size, kind in zip(sizes, kinds(op)) if kind == REDUCTION]
    if None in read or not all(isinstance(t, int) for t in terms) or prod(terms) > _FEW or (view := _expansion(op)) is None:
        return {}
    found = {
        loop: [shape(view.results[0])[d] for d in group] for group, loop in zip(reassociation(view), read[-1])
        if len(group) > 1 and loop in read[0] and loop not in read[1] and any(_is_shared(reader, view.results[0], group) for reader in users(view.results[0]))
    }
    return found if all(isinstance(n, int) for sizes in found.values() for n in sizes) else {}


def _written(op: ir.Operation) -> dict[int, Sequence[Int]]:
    """The same of batch loops of which the result, or what is computed of its elements, is expanded for what alone reads it, and writes these dimensions
    apart from each other, with the innermost one as it was: heads beside each other, as attention has them in the end."""
    read, view = [dims(m) for m in maps(op)], _expansion(op)
    reader = None if view is None else only_user(view.results[0])
    if None in read or not is_elementwise(reader) or len(reader.results) != 1:
        return {}
    where = next((dims(m) for v, m in zip(inputs(reader), maps(reader)) if v == view.results[0]), None)
    written = dims(maps(reader)[-1])
    if where is None or written is None or sorted(where) != sorted(written) or where[-1] != written[-1]:
        return {}
    found = {}
    for group, loop in zip(reassociation(view), read[-1]):
        places = [written.index(where[d]) for d in group]
        if places != list(range(places[0], places[0] + len(places))) and all(loop in r for r in read):
            found[loop] = [shape(view.results[0])[d] for d in group]
    return found


def _expansion(op: ir.Operation) -> ir.Operation | None:
    """What alone expands the result, or what is computed of its elements, where it lies as the result does."""
    view = only_user(op.results[0])
    while is_elementwise(view) and len(view.results) == 1 and _keeps_order(view):
        view = only_user(view.results[0])
    return view if view is not None and view.name == "tensor.expand_shape" and knows_sizes(view) else None


def _keeps_order(op: ir.Operation) -> bool:
    """Whether an operation's elements lie as those of all that it reads with as many dimensions."""
    last = maps(op)[-1]
    return last.is_permutation and all(m == last for m in maps(op) if len(m.results) == len(last.results))


def _is_shared(reader: ir.Operation, value: ir.Value, group: Sequence[int]) -> bool:
    """Whether an elementwise reader of ``value`` reads something else that has some of these of its dimensions, and not all."""
    if not is_elementwise(reader):
        return False
    where = next(dims(m) for v, m in zip(inputs(reader), maps(reader)) if v == value)
    if where is None:
        return False
    own = {where[d] for d in group}
    others = [set(dims(m) or own) & own for v, m in zip(inputs(reader), maps(reader)) if v != value]
    return any(0 < len(found) < len(own) for found in others)


def _moves(op: ir.Operation | None) -> bool:
    """Whether a contraction can read what the operation reads in its place."""
    return is_copy(op) or is_widening(op)


def _finer(a: Sequence[Int] | None, b: Sequence[Int]) -> Sequence[Int]:
    """The one of two ways to split a loop that splits more, if it splits the other's parts."""
    return b if a is None or (len(b) > len(a) and grouping(b, a) is not None) else a


def _can_split(op: ir.Operation) -> bool:
    plain = (ir.AffineDimExpr, ir.AffineConstantExpr)
    return knows_sizes(op) and not walk(op, "linalg.index") and all(isinstance(e, plain) for m in maps(op) for e in m.results)


def replace(op: ir.Operation, parts: Parts) -> None:
    """Put ``op`` on split loops in its place, and after it the elementwise operations that read it."""
    with ir.InsertionPoint(op), op.location:
        made = split(op, parts)
        flat = [tensor.CollapseShapeOp(old.type, new, reassociation_attribute(groups)).result for old, (new, groups) in zip(op.results, made)]
    for old, new in zip(op.results, flat):
        old.replace_all_uses_with(new)
    op.erase()
    for value, (new, groups) in zip(flat, made):
        split_readers(value, new, groups)


def split_readers(value: ir.Value, new: ir.Value, groups: list[list[int]]) -> None:
    """Let the elementwise operations that read ``value``, and those that read these, have the loops of ``new``, of which it is a flattening: each of its
    dimensions is some of the other's, the ``groups``."""
    sizes = shape(new)
    while (found := next(((u, p) for u in users(value) if (p := _follow(u, value, sizes, groups))), None)) is not None:
        replace(*found)


def _follow(user: ir.Operation, value: ir.Value, sizes: Sequence[Int], groups: list[list[int]]) -> Parts:
    """How the loops of an elementwise reader of ``value`` are split as its dimensions are."""
    if not is_elementwise(user) or not _can_split(user):
        return {}
    read = maps(user)[next(i for i, v in enumerate(inputs(user)) if v == value)].results
    return {
        ir.AffineDimExpr(e).position: [sizes[d] for d in group]
        for e, group in zip(read, groups) if len(group) > 1 and isinstance(e, ir.AffineDimExpr)
    }


def split(op: ir.Operation, parts: Parts) -> list[tuple[ir.Value, list[list[int]]]]:
    """The operation's results on more loops, and which of their dimensions were one before; its maps read whole loops and constants, and its body the number
    of no loop that is split in parts of unknown sizes."""
    loops: list[list[int]] = []
    for d in range(len(kinds(op))):
        first = loops[-1][-1] + 1 if loops else 0
        loops.append(list(range(first, first + len(parts.get(d, [1])))))
    count = loops[-1][-1] + 1
    operands, indexing, regrouped = [], [], []
    for value, map_ in zip(op.operands, maps(op)):
        exprs, sizes, groups = [], [], []
        for e, size in zip(map_.results, shape(value)):
            loop = ir.AffineDimExpr(e).position if isinstance(e, ir.AffineDimExpr) else None
            new = [e] if loop is None else [ir.AffineDimExpr.get(n) for n in loops[loop]]
            groups.append(list(range(len(exprs), len(exprs) + len(new))))
            exprs += new
            sizes += parts.get(loop, [size])
        operands.append(value if len(exprs) == len(groups) else _expanded(value, sizes, groups, op))
        indexing.append(ir.AffineMap.get(count, 0, exprs))
        regrouped.append(groups)
    number, counted = len(inputs(op)), [_counted(group, parts.get(d, [1])) for d, group in enumerate(loops)] if walk(op, "linalg.index") else None
    made = build(
        operands[:number], operands[number:], indexing, [kinds(op)[d] for d, group in enumerate(loops) for _ in group],
        lambda arguments: clone_body(body(op), arguments, counted), op.location,
    )
    return list(zip(made.results, regrouped[number:]))


def _counted(loops: list[int], sizes: Sequence[Int]) -> ir.AffineExpr:
    """The number of an iteration of a loop that is split."""
    found = ir.AffineDimExpr.get(loops[0])
    for d, size in zip(loops[1:], sizes[1:]):
        found = found * size + ir.AffineDimExpr.get(d)
    return found


def _expanded(value: ir.Value, sizes: Sequence[Int], groups: list[list[int]], op: ir.Operation) -> ir.Value:
    """``value`` with more dimensions: what it was flattened from, if it was, with a copy's loops split as well."""
    made = owner(value)
    if made is not None and made.name == "tensor.empty":
        return tensor.EmptyOp(mixed(sizes, function_of(op)), value.type.element_type).result
    if made is not None and made.name == "linalg.fill":
        return linalg.fill(made.operands[0], outs=[_expanded(made.operands[1], sizes, groups, op)])
    if made is not None and made.name == "tensor.collapse_shape" and knows_sizes(made):
        source = made.operands[0]
        within = grouping(sizes, shape(source))
        if within is not None and all(len(g) == 1 for g in within):
            return source
        copy = owner(source)
        if within is not None and _moves(copy) and _can_split(copy) and use_count(source) == 1:
            return _split_as(copy, sizes, within)
        if within is not None:
            return expand(source, sizes, within, op)
    if is_widening(made) and _can_split(made) and use_count(value) == 1:
        return _split_as(made, sizes, groups)
    return expand(value, sizes, groups, op)


def _split_as(op: ir.Operation, sizes: Sequence[Int], groups: list[list[int]]) -> ir.Value:
    """The one result with dimensions of these sizes, of which ``groups`` were one before."""
    written = dims(maps(op)[-1])
    return split(op, {written[d]: [sizes[i] for i in g] for d, g in enumerate(groups) if len(g) > 1})[0][0]
