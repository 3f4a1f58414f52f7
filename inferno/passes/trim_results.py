"""Compute only those parts of a product, a norm or a softmax that are read, and only the parts of its operands that these need.

A classifier that reads one token of each image, ``norm(x)[:, 0]``, and a language model whose last token is asked for, ``head(x)[:, -1]``, compute the other
tokens' last layers for nothing, in eager and under ``torch.compile``.  What each operation's readers ask of its results is found from the last one to the
first: all, or parts of the dimensions, which slices say, and whatever else is computed in parts asks of its operands.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd, prod

from inferno.mlir import dim_of, func, ir, owner, tensor, users, walk
from inferno.passes.contraction import has_windows
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.generics import (
    dims, inputs, is_elementwise, is_generic, is_reduction, keep_attributes, loop_sizes, loops_of, maps,
)
from inferno.passes.movements import spread
from inferno.passes.name_symbols import reshape
from inferno.passes.parts import Part, compute_part, extract, inside, merged_part, split_part, type_of
from inferno.passes.programs import RESHAPES, operations_in, programs
from inferno.passes.shrunk_windows import can_shrink, shrink
from inferno.passes.shapes import UnknownSize, kept_dimensions, reassociation, shape, slice_parts, static
from inferno.symbolic import hint

_PART = 2  # of so many elements at most one is computed: that pays wherever these lie
_MOST = 4  # parts are computed each by itself: every one is a kernel at least
_SLICE, _CONCAT = "tensor.extract_slice", "tensor.concat"

_Parts = tuple[Part, ...]  # of a tensor's dimensions, or of an operation's loops


def trim_results(module: ir.Module, windows: str = "") -> None:
    """Rewrite the sums of whose results parts are asked for, and what is between these and slices.  ``windows``: "1" for convolutions alone, of modules for a
    GPU, however large the parts are."""
    if windows and EXPAND not in module.operation.attributes:
        return
    for program in programs(module):
        for op in _asked_in_part(program, bool(windows)):
            _rewrite(op)


@dataclass
class _Asked:
    """What its readers ask of a value: parts, or with ``whole`` all of it."""

    parts: list[_Parts] = field(default_factory=list)
    whole: bool = False

    def add(self, parts: Sequence[Part] | None) -> None:
        if parts is None:
            self.whole = True
        elif tuple(parts) not in self.parts:
            self.parts.append(tuple(parts))


def _asked_in_part(program: func.FuncOp, windows: bool) -> list[ir.Operation]:
    """The operations that are to be computed in part, the last one first."""
    asked: dict[ir.Value, _Asked] = {}
    found: list[ir.Operation] = []
    for op in reversed(operations_in(program)):
        parts = _parts_of(op, [asked.get(r, _Asked()) for r in op.results], windows)
        if parts:
            found.append(op)
        for number, operand in enumerate(op.operands):
            each = [_of_operand(op, number, p) for p in parts] or [_taken(op) if number == 0 else None]
            for one in each:
                asked.setdefault(operand, _Asked()).add(one)
        for value in (v for inner in walk(op) if inner != op for v in inner.operands if type_of(v) is not None):
            asked.setdefault(value, _Asked()).add(None)
    sums: set[ir.Operation] = set()  # and what is made of them
    for op in reversed(found):
        if (has_windows(op) if windows else is_reduction(op)) or any(owner(v) in sums for v in op.operands):
            sums.add(op)
    if windows:  # and what is elementwise of biases
        for op in found:
            if is_elementwise(op) and all(u in sums for r in op.results for u in users(r)):
                sums.add(op)
    return [op for op in found if op in sums]


def _taken(op: ir.Operation) -> _Parts | None:
    """What a slice takes of each dimension; None of anything else."""
    try:
        return tuple(zip(*slice_parts(op))) if op.name == _SLICE else None
    except UnknownSize:
        return None


def _parts_of(op: ir.Operation, wanted: Sequence[_Asked], windows: bool) -> list[_Parts]:
    """The parts of an operation's loops, or of the result of what reshapes or slices, that its readers ask for; none where it cannot be computed in these, or
    they are too much."""
    if any(w.whole for w in wanted) or not any(w.parts for w in wanted) or not all(map(_has_known_sizes, (*op.results, *op.operands))):
        return []
    if is_generic(op):
        sizes, count = loop_sizes(op), len(inputs(op))
        found = [_of_loops(m, sizes, p) for m, w in zip(maps(op)[count:], wanted) for p in w.parts]
    elif op.name in (*RESHAPES, _SLICE, _CONCAT):
        sizes, found = shape(op.results[0]), wanted[0].parts
    else:
        return []
    if None in found or None in sizes:
        return []
    found = _together(op, found)
    if is_generic(op) and any(not isinstance(n, int) for p in found for d in _asked_for(op) for n in (p[d][0], p[d][2])):
        return []
    if windows:
        return found if len(found) == 1 and found[0] != tuple((0, n, 1) for n in sizes) else []
    return found if 0 < _PART * _elements(found) <= prod(map(hint, sizes)) else []


def _has_known_sizes(value: ir.Value) -> bool:
    """Whether a value is no tensor, or one whose sizes are numbers or said by the program's symbols."""
    try:
        return type_of(value) is None or shape(value) is not None
    except UnknownSize:
        return False


def _asked_for(generic: ir.Operation) -> set[int]:
    """The loops whose iterations a body asks for."""
    return {dim_of(i) for i in walk(generic, "linalg.index")}


def _of_loops(map_: ir.AffineMap, sizes: Sequence[int], parts: _Parts) -> _Parts | None:
    """The part of an operation's loops that computes a part of its result."""
    order = dims(map_)
    if order is None:
        return None
    given = dict(zip(order, parts))
    return tuple(given.get(d, (0, n, 1)) for d, n in enumerate(sizes))


def _together(op: ir.Operation, found: Iterable[_Parts]) -> list[_Parts]:
    """These parts of an operation, each once; or one that all of them are in, if that is no more, or they are many.  None where operands have no such parts."""
    each = list(dict.fromkeys(found))
    around = tuple(map(_around, zip(*each)))
    choices = [[around]] if None not in around else []
    if len(each) <= _MOST:
        choices = sorted((*choices, each), key=_elements)
    operands = [n for n, v in enumerate(op.operands) if type_of(v) is not None]
    return next((c for c in choices if all(_of_operand(op, n, parts) is not None for parts in c for n in operands)), [])


def _elements(found: Sequence[_Parts]) -> int:
    return sum(prod(hint(n) for _, n, _ in parts) for parts in found)


def _around(parts: Sequence[Part]) -> Part | None:
    """The least part of a dimension that several are in; None where that is not known."""
    if len(set(parts)) == 1:
        return parts[0]
    if not all(isinstance(n, int) for part in parts for n in part):
        return None
    begin, end = min(b for b, _, _ in parts), max(b + (n - 1) * s for b, n, s in parts)
    step = gcd(*(s for _, n, s in parts if n > 1), *(b - begin for b, _, _ in parts)) or 1
    return begin, (end - begin) // step + 1, step


def _of_operand(op: ir.Operation, number: int, parts: _Parts) -> _Parts | None:
    """What is read of an operand for a part of an operation; None if that is no part of its dimensions."""
    if is_generic(op):
        return _read(op, number, parts)
    if op.name == _SLICE:
        return _inside(op, parts)
    if op.name == _CONCAT:
        sizes, dim = shape(op.operands[number]), dim_of(op)
        whole = parts[dim] == (0, shape(op.results[0])[dim], 1)
        return (*parts[:dim], (0, sizes[dim], 1), *parts[dim + 1:]) if whole else None
    if op.name == "tensor.expand_shape":
        sizes = shape(op.results[0])
        merged = [merged_part([(sizes[d], parts[d]) for d in group]) for group in reassociation(op)]
        return None if None in merged else tuple(merged)
    sizes = shape(op.operands[0])
    split = [split_part(part, [sizes[d] for d in group]) for part, group in zip(parts, reassociation(op))]
    return None if None in split else tuple(part for each in split for part in each)


def _read(op: ir.Operation, number: int, parts: _Parts) -> _Parts | None:
    value, sizes, found = op.operands[number], loop_sizes(op), []
    for expression, size in zip(maps(op)[number].results, shape(value) if type_of(value) is not None else ()):
        loops = loops_of(expression)
        if isinstance(expression, ir.AffineDimExpr):
            found.append(parts[next(iter(loops))])
        elif all(parts[d] == (0, sizes[d], 1) for d in loops) or (has_windows(op) and can_shrink(op, number, len(found), parts)):
            found.append((0, size, 1))
        else:
            return None
    return tuple(found)


def _inside(cut: ir.Operation, parts: _Parts) -> _Parts | None:
    """A part of what a slice takes."""
    if (own := _taken(cut)) is None:
        return None
    return tuple(inside(own, kept_dimensions(cut), parts))


def _rewrite(op: ir.Operation) -> None:
    """Compute what slices take of an operation's results."""
    cuts = _cuts(op)
    wanted = _together(op, (parts for _, _, parts in cuts))
    with ir.InsertionPoint(op), op.location:
        made = {parts: list(_computed(op, parts)) for parts in wanted}
        for number, cut, parts in cuts:
            around = parts if parts in made else wanted[0]
            value = made[around][number]
            if parts != around:
                order = dims(maps(op)[len(inputs(op)) + number]) if is_generic(op) else range(len(parts))
                own = [_within(parts[d], around[d]) for d in order if around[d][1] != 1]
                value = extract(value, own, [n != 1 for _, n, _ in own])
            cut.results[0].replace_all_uses_with(_with_ones(value, cut.results[0].type.shape, op))
            cut.erase()
    op.erase()


def _within(part: Part, around: Part) -> Part:
    """What a part is of one that it is in."""
    return (part[0] - around[0]) // around[2], part[1], part[2] // around[2] if part[1] != 1 else 1


def _with_ones(value: ir.Value, wanted: Sequence[int], op: ir.Operation) -> ir.Value:
    """A tensor with the dimensions of one element that it is wanted to have; ``op`` is an operation of the function."""
    own = iter(range(value.type.rank))
    places = [None if n == 1 else next(own) for n in wanted]
    return value if None not in places else spread(value, places, op)


def _cuts(op: ir.Operation) -> list[tuple[int, ir.Operation, _Parts]]:
    """The slices of an operation's results, with the result's number and the part of the operation that they ask for."""
    found = []
    for result in op.results:
        for cut in list(users(result)):
            parts = tuple(_taken(cut))
            if is_generic(op):
                parts = _of_loops(maps(op)[len(inputs(op)) + result.result_number], loop_sizes(op), parts)
            found.append((result.result_number, cut, parts))
    return found


def _computed(op: ir.Operation, parts: _Parts) -> Iterator[ir.Value]:
    """Parts of an operation's results, without dimensions of one element."""
    if is_generic(op):
        if has_windows(op):
            shrink(op, parts)
        new = compute_part(op, parts, {d for d, (_, n, _) in enumerate(parts) if n != 1})
        keep_attributes(new, op)
        yield from new.results
        return
    found, dim = [], dim_of(op) if op.name == _CONCAT else None
    for number in range(len(op.operands) if dim is not None else 1):
        taken = _of_operand(op, number, parts)
        found.append(extract(op.operands[number], taken, [n != 1 or d == dim for d, (_, n, _) in enumerate(taken)]))
    kept = [d for d, (_, n, _) in enumerate(parts) if n != 1 or d == dim]
    sizes = [parts[d][1] for d in kept]
    if dim is not None:
        yield tensor.ConcatOp(ir.RankedTensorType.get(static(sizes), op.results[0].type.element_type), kept.index(dim), found).result
    else:
        yield reshape(found[0], sizes, op)
