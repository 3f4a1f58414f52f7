"""Rewrite reductions of a few terms as elementwise operations, which fuse with their surroundings: distances of points in space, an image's gray, and, of small
arguments, a mean of four rows that is subtracted from each of them.

Which ones ``few_terms`` says, but for totals of a few rows of small arguments that all of their points read.

A kernel of rows cannot have totals of columns as well, and those of a handful of rows are read from caches sooner than another launch begins: on an H100
4x533 less its mean, with two softmaxes of its rows, took 4.9 us, and takes 3.4.  So do the rows of a handful of points beside totals of columns.
"""

from itertools import product
from math import prod

from inferno.mlir import ir, owner, tensor, users, walk
from inferno.passes.drop_results import drop_unread
from inferno.passes.expand_maps import reduces, split_maker
from inferno.passes.few_terms import few_terms, loops_of_few
from inferno.passes.fuse_elementwise import fuse, fuse_elementwise
from inferno.passes.generics import (
    PARALLEL, REDUCTION, body, build, clone_body, dims, inputs, is_elementwise, is_generic, kinds, loop_sizes, maps, only_user, outputs, substitute,
)
from inferno.passes.widen_arithmetic import mark_rounding

_FEW = 4  # rows
_SMALL = 1 << 14  # points of them


def unroll_sums(module: ir.Module) -> None:
    """Rewrite such reductions."""
    for op in walk(module.operation, "linalg.generic"):
        if few_terms(op) is not None:
            drop_unread(op)  # an extremum's place
    generics = walk(module.operation, "linalg.generic")
    small = {op: [loop] for op in generics if (loop := _loop(op)) is not None}
    few = {op: loops for op in generics if op not in small and (loops := loops_of_few(op)) is not None}
    totals = [_unroll(op, loops) for op, loops in small.items()]
    for op, loops in few.items():
        _unroll(op, loops)
    for value in totals:
        _compute_in_readers(value)
    if small or few:
        fuse_elementwise(module)


def _loop(op: ir.Operation) -> int | None:
    """The loop of rows of a reduction that is to be unrolled."""
    reduced = [d for d, k in enumerate(kinds(op)) if k == REDUCTION]
    sizes = loop_sizes(op)
    if len(reduced) != 1 or len(op.results) != 1 or not all(isinstance(n, int) for n in sizes) or not 1 < sizes[reduced[0]] <= _FEW:
        return None
    start, every = owner(outputs(op)[0]), [dims(m) for m in maps(op)]
    known = all(t.has_static_shape for t in (v.type for v in op.operands) if isinstance(t, ir.RankedTensorType))
    if start is None or start.name != "linalg.fill" or None in every or not known or walk(op, "linalg.index", "tensor.extract", "scf.if"):
        return None
    if not all(_is_argument(v) for v in inputs(op)) or every[-1] != sorted(every[-1]):
        return None
    made = prod(sizes) // sizes[reduced[0]]
    inner = next((read[-1] for read in every[:-1] if read), None)  # what is read at no loop at all is one number
    if inner is None or prod(sizes) > _SMALL or made == 1 or sizes[inner] == 1:
        return None
    if inner == reduced[0] and not any(_meets_others(user, op.results[0]) for user in users(op.results[0])):
        return None  # rows, whose points are neighbours, are other kernels'
    return reduced[0] if _is_spread(op.results[0], made, prod(sizes)) else None


def _is_argument(value: ir.Value) -> bool:
    """Whether it is a tensor that is given to the program, or a part of one."""
    made = owner(value)
    part = made is not None and made.name == "tensor.extract_slice" and len(made.operands) == 1
    return isinstance(value.type, ir.RankedTensorType) and (made is None or (part and _is_argument(made.operands[0])))


def _is_spread(value: ir.Value, made: int, points: int) -> bool:
    """Whether maps of all points read it, or a map that they read, in whatever shape; so do reductions that have taken such a map in."""
    found = list(users(value))
    for user in found:
        if user.name == "tensor.expand_shape":
            if not _is_spread(user.results[0], made, points):
                return False
            continue
        if not (is_elementwise(user) or reduces(user)) or any(not isinstance(n, int) for n in loop_sizes(user)):
            return False
        size = prod(loop_sizes(user))
        if size < points and not (is_elementwise(user) and size == made and len(user.results) == 1 and _is_spread(user.results[0], made, points)):
            return False
    return bool(found)


def _meets_others(user: ir.Operation, value: ir.Value) -> bool:
    """Whether a map reads totals of one dimension beside totals of another: its kernel goes over the rows of one of them."""
    if not is_elementwise(user):
        return False
    of_rows = {d for v, m in zip(inputs(user), maps(user)) if v == value for d in dims(m) or ()}
    others = [dims(m) for v, m in zip(inputs(user), maps(user)) if v != value and (made := owner(v)) is not None and REDUCTION in _kinds(made)]
    return any(d and not of_rows & set(d) for d in others)


def _kinds(op: ir.Operation) -> list[str]:
    return kinds(op) if is_generic(op) else []


def _unroll(op: ir.Operation, loops: list[int]) -> ir.Value:
    """What takes the place of a reduction's result."""
    left = [d for d in range(len(kinds(op))) if d not in loops]
    terms = [dict(zip(loops, numbers)) for numbers in product(*(range(loop_sizes(op)[d]) for d in loops))]
    names = [ir.AffineDimExpr.get(left.index(d) if d in left else 0, op.context) for d in range(len(kinds(op)))]
    start = owner(outputs(op)[0]).operands[0]
    with ir.InsertionPoint(op), op.location:
        parts = [[_part(v, {dims(m).index(d): n for d, n in term.items() if d in dims(m)}) for v, m in zip(inputs(op), maps(op))] for term in terms]
        read = [substitute(_without(m, loops), names, len(left)) for m in maps(op)]
        own = len(inputs(op))

        def fill(arguments: list[ir.Value]) -> list[ir.Value]:
            total = start
            for n in range(len(terms)):
                total = clone_body(body(op), [*arguments[n * own:(n + 1) * own], total])[0]
            return [total]

        empty = tensor.EmptyOp(op.results[0].type.shape, op.results[0].type.element_type).result
        made = build([v for part in parts for v in part], [empty], [*read[:own] * len(terms), read[own]], [PARALLEL] * len(left), fill, op.location)
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()
    return made.results[0]


def _compute_in_readers(value: ir.Value) -> None:
    """Let reductions that read such a total, and the maps beside them, compute it, in the shape that they read: it is cheap, and their kernel then waits for
    no other."""
    view = only_user(value)
    if view is not None and view.name == "tensor.expand_shape" and (split := split_maker(view)) is not None:
        value = split
    if not any(map(reduces, users(value))):
        return
    mark_rounding(owner(value))  # which all of them read
    for reader in dict.fromkeys(users(value)):
        while value in inputs(reader):
            new = fuse(owner(value), reader, inputs(reader).index(value))
            if new is None:
                break
            for old, result in zip(reader.results, new.results):
                old.replace_all_uses_with(result)
            reader.erase()
            reader = new.operation if isinstance(new, ir.OpView) else new


def _without(map_: ir.AffineMap, loops: list[int]) -> ir.AffineMap:
    return ir.AffineMap.get(map_.n_dims, 0, [e for e in map_.results if ir.AffineDimExpr(e).position not in loops])


def _part(value: ir.Value, at: dict[int, int]) -> ir.Value:
    """A part of one element along each of the dimensions, without these; of no dimension the tensor itself, or a number."""
    if not at:
        return value
    shape = list(value.type.shape)
    begins, sizes = [at.get(d, 0) for d in range(len(shape))], [1 if d in at else n for d, n in enumerate(shape)]
    type_ = ir.RankedTensorType.get([n for d, n in enumerate(shape) if d not in at], value.type.element_type)
    return tensor.ExtractSliceOp(type_, value, [], [], [], begins, sizes, [1] * len(shape)).result
