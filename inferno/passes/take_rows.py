"""Gather rows before a row-wise operation instead of after it: ``log_softmax(x, -1)[rows]`` is ``log_softmax(x[rows], -1)``.

Each row of a norm or a softmax is made of that row alone.  Where no more rows are taken than there are, and nothing else reads them, one kernel reads
the taken ones in place, instead of one that writes all and another that looks them up.
"""

from dataclasses import dataclass, field

from inferno.mlir import clone_onto, ir, is_unread, owner, tensor, users, walk
from inferno.passes.contraction import is_convolution, is_sum_of_products
from inferno.passes.generics import (
    PARALLEL, body, build, dims, inputs, is_elementwise, is_generic, is_reduction, kinds, loop, loop_of, loops_of, maps, outputs,
    reads_outputs, started_like, yielded,
)
from inferno.passes.parts import type_of
from inferno.passes.programs import VIEWS

_LINE = 64  # bytes of a row, from which on rows in any order are read as fast as in memory's (``fuse_gathers.py``)
# Points of a row, and bytes that divide it, from which and below which vectors begin anywhere (``schedule/rows/rows.py``): what is looked up would be read
# element by element instead, and LayerNorm of 134000x1001 in bf16 took an H200 518 us so, 160 by vectors.
_LONG, _WHOLE = 512, 8


@dataclass(frozen=True)
class _Take:
    """An operation that takes ``rows`` of a tensor along ``axis``, at the numbers ``place`` of its body."""

    op: ir.Operation
    gather: ir.Operation
    axis: int
    place: ir.Value
    rows: int


@dataclass
class _Chain:
    """What makes a tensor, each row of one of the same row alone: operations, the last first, and the dimension in which values of theirs, or which they
    begin with, have the rows."""

    operations: list[ir.Operation] = field(default_factory=list)
    axes: dict[ir.Value, int] = field(default_factory=dict)
    begins: list[ir.Value] = field(default_factory=list)


def take_rows(module: ir.Module) -> None:
    """Rewrite every taking of whole rows of what ends a reduction of rows of the program's arguments."""
    while any(_take_first(gather) for gather in reversed(walk(module.operation, "tensor.extract"))):
        pass  # what made the rows may be gone


def _taking(gather: ir.Operation) -> _Take | None:
    """What the operation around ``gather`` takes, if that is all it does: rows of one tensor, in its order, by numbers of one loop, no more than there are."""
    op = gather.parent.operation
    if not is_elementwise(op) or len(op.results) != 1 or not maps(op)[-1] == ir.AffineMap.get_identity(len(kinds(op)), op.context):
        return None
    type_ = op.results[0].type
    if yielded(op)[0] != gather.results[0] or gather.operands[0].type.rank != type_.rank or type_.rank < 2:
        return None
    source, places = gather.operands[0], list(gather.operands)[1:]
    if not type_.has_static_shape or not source.type.has_static_shape or source in inputs(op):
        return None
    taken = [d for d, v in enumerate(places) if loop_of(v) != d]
    if len(taken) != 1 or taken[0] == type_.rank - 1 or not _is_of_loop(op, places[taken[0]], taken[0]):
        return None
    axis, sizes = taken[0], list(source.type.shape)
    whole = all(n == m for d, (n, m) in enumerate(zip(type_.shape, sizes)) if d != axis)
    return _Take(op, gather, axis, places[axis], type_.shape[axis]) if whole and type_.shape[axis] <= sizes[axis] else None


def _made_of(op: ir.Operation, value: ir.Value) -> list[ir.Operation]:
    """What ``op`` makes a number of its body of, in order."""
    found, todo = [], [value]
    while todo:
        made = owner(todo.pop())
        if made is not None and made.parent == op and made not in found:
            found.append(made)
            todo += made.operands
    return [o.operation for o in body(op).operations if o.operation in found]


def _is_of_loop(op: ir.Operation, value: ir.Value, number: int) -> bool:
    """Whether a number of the body depends on one loop alone."""
    every, arguments = _made_of(op, value), list(body(op).arguments)
    read = [arguments.index(v) for o in every for v in o.operands if v in arguments]
    alone = all(loops_of(e) <= {number} for i in read for e in maps(op)[i].results)
    return alone and all(len(o.regions) == 0 and loop_of(o.results[0]) in (None, number) for o in every)


def _chain(take: _Take) -> _Chain | None:
    """What makes the rows that are taken, of arguments; None where that reduces none of them, or something else reads what it reduces."""
    made = owner(take.gather.operands[0])
    if not is_elementwise(made):
        return None
    found, todo = _Chain(axes={take.gather.operands[0]: take.axis}), [made]
    known: set[ir.Operation] = set()
    others: set[ir.Value] = set()  # that are read anywhere
    while todo:
        op = todo.pop()
        if op in known:
            continue
        known.add(op)
        row = _row_loop(op, found.axes)
        if row is None:
            return None
        found.axes.update({r: dims(m).index(row) for r, m in zip(op.results, maps(op)[len(inputs(op)):])})
        others |= {v for inner in walk(op) if inner != op for v in inner.operands}
        for value, map_ in zip(inputs(op), maps(op)):
            at = [i for i, e in enumerate(map_.results) if row in loops_of(e)]
            if not at:
                others.add(value)
                continue
            if len(at) > 1 or not isinstance(list(map_.results)[at[0]], ir.AffineDimExpr) or found.axes.setdefault(value, at[0]) != at[0]:
                return None
            if is_generic(owner(value)):
                todo.append(owner(value))
            elif _is_given(value) and _has_lines(value, at[0]):
                found.begins += [value] if value not in found.begins else []
            else:
                return None
    found.operations = [op for op in reversed(walk(take.op.parent, "linalg.generic")) if op in known]
    return found if not others & set(found.axes) and _is_free(found, take) else None


def _row_loop(op: ir.Operation, axes: dict[ir.Value, int]) -> int | None:
    """The loop of an operation that goes over the rows; None where a row is made of more, or of its number, or others begin with something."""
    every = maps(op)[len(inputs(op)):]
    static = all(t.has_static_shape for t in map(type_of, op.operands) if t)
    if any(dims(m) is None for m in every) or is_sum_of_products(op) or is_convolution(op) or not static:
        return None
    at = {dims(m)[axes[r]] for r, m in zip(op.results, every) if r in axes}
    if len(at) != 1 or not all(at <= set(dims(m)) for m in every):
        return None
    row = at.pop()
    counted = any(loop_of(o.results[0]) == row for o in walk(op, "linalg.index"))
    begins = all(_beginning(v) is not None for v in outputs(op)) and (is_reduction(op) or not reads_outputs(op))
    return row if kinds(op)[row] == PARALLEL and not counted and begins else None


def _beginning(value: ir.Value) -> ir.Operation | None:
    """What makes the tensor that results are written to: nothing, or one number for all."""
    made = owner(value)
    filled = made is not None and made.name == "linalg.fill" and (inner := owner(made.operands[1])) is not None and inner.name == "tensor.empty"
    return made if filled or (made is not None and made.name == "tensor.empty") else None


def _is_given(value: ir.Value) -> bool:
    """Whether it is an argument of the program, or a view or a part of one."""
    made = owner(value)
    while made is not None and (made.name in VIEWS or (made.name == "tensor.extract_slice" and len(made.operands) == 1)):
        value = made.operands[0]
        made = owner(value)
    return made is None and isinstance(value.type, ir.RankedTensorType) and value.type.has_static_shape


def _has_lines(value: ir.Value, axis: int) -> bool:
    """Whether rows are as fast to read in any order: neighbours of one row, or one number of each."""
    sizes, bits = value.type.shape, getattr(value.type.element_type, "width", 64)
    bytes_ = sizes[-1] * bits // 8
    return len(sizes) == 1 or (axis != len(sizes) - 1 and bytes_ >= _LINE and (sizes[-1] < _LONG or bytes_ % _WHOLE == 0))


def _is_free(chain: _Chain, take: _Take) -> bool:
    """Whether rows are reduced, and nobody else reads that, or what is made of it."""
    reduced: set[ir.Value] = set()
    for op in reversed(chain.operations):  # the first one first
        if is_reduction(op) or reduced & set(inputs(op)):
            reduced |= set(op.results)
    own = {*chain.operations, take.gather}
    return bool(reduced) and all(user in own for value in reduced for user in users(value))


def _take_first(gather: ir.Operation) -> bool:
    """Make what rows are taken of of the rows that are taken, where ``gather`` takes some; whether it does."""
    take = _taking(gather)
    chain = _chain(take) if take is not None else None
    if chain is None:
        return False
    known: dict[ir.Value, ir.Value] = {}
    with ir.InsertionPoint(take.op):
        for value in chain.begins:
            known[value] = _taken(take, value, chain.axes[value])
        for op in reversed(chain.operations):
            with op.location:
                begins = {out: _begin(out, chain.axes[result], take.rows) for out, result in zip(outputs(op), op.results)}
                new = clone_onto(op, {**known, **begins})
                for old, result in zip(op.results, new.results):
                    result.set_type(_resized(result.type, chain.axes[old], take.rows))
                    known[old] = result
    take.op.results[0].replace_all_uses_with(known[take.gather.operands[0]])
    take.op.erase()
    for op in chain.operations:
        if is_unread(op):
            op.erase()
    return True


def _begin(value: ir.Value, axis: int, rows: int) -> ir.Value:
    """The tensor that results of so many rows are written to."""
    made, type_ = _beginning(value), _resized(value.type, axis, rows)
    empty = tensor.EmptyOp(list(type_.shape), type_.element_type).result
    return started_like(made, empty)


def _taken(take: _Take, value: ir.Value, axis: int) -> ir.Value:
    """The rows of a tensor that are taken."""
    op, type_ = take.op, _resized(value.type, axis, take.rows)
    made, arguments = _made_of(op, take.place), list(body(op).arguments)
    read = sorted({arguments.index(v) for o in made for v in o.operands if v in arguments})
    row, count = ir.AffineDimExpr.get(axis, op.context), type_.rank
    ins = [ir.AffineMap.get(count, 0, [row for _ in maps(op)[i].results], op.context) for i in read]

    def fill(block: list[ir.Value]) -> list[ir.Value]:
        known = {arguments[i]: v for i, v in zip(read, block)}
        for o in made:
            if loop_of(o.results[0]) is not None:
                known[o.results[0]] = loop(axis)
            else:
                clone_onto(o, known)
        places = [known.get(take.place, take.place) if d == axis else loop(d) for d in range(count)]
        return [tensor.ExtractOp(value, places).result]

    with op.location:
        empty = tensor.EmptyOp(list(type_.shape), type_.element_type).result
        identity = ir.AffineMap.get_identity(count, op.context)
        return build([inputs(op)[i] for i in read], [empty], [*ins, identity], [PARALLEL] * count, fill, op.location).results[0]


def _resized(type_: ir.RankedTensorType, axis: int, rows: int) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([rows if d == axis else n for d, n in enumerate(type_.shape)], type_.element_type)
