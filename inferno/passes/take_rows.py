"""Gather rows before a row-wise operation instead of after it: ``log_softmax(x, -1)[rows]`` is ``log_softmax(x[rows], -1)``.

Each row of a norm or a softmax is made of that row alone.  Where no more rows are taken than there are, and nothing else reads them, one kernel reads
the taken ones in place, instead of one that writes all and another that looks them up.
"""

from dataclasses import dataclass, field

from inferno.mlir import clone_onto, ir, is_unread, owner, users, walk
from inferno.passes.contraction import is_convolution, is_sum_of_products
from inferno.passes.generics import (
    PARALLEL, dims, inputs, is_elementwise, is_generic, is_reduction, kinds, loop_of, loops_of, maps, outputs, reads_outputs,
)
from inferno.passes.parts import type_of
from inferno.passes.programs import VIEWS
from inferno.passes.takings import Taking, begin, beginning, resized, take, taking

_LINE = 64  # bytes of a row, from which on rows in any order are read as fast as in memory's (``fuse_gathers.py``)
# Points of a row, and bytes that divide it, from which and below which vectors begin anywhere (``schedule/rows/rows.py``): what is looked up would be read
# element by element instead, and LayerNorm of 134000x1001 in bf16 took an H200 518 us so, 160 by vectors.
_LONG, _WHOLE = 512, 8


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


def _rows(gather: ir.Operation) -> Taking | None:
    """What the operation around ``gather`` takes: whole rows of one tensor by numbers of one loop, no more than there are."""
    made = taking(gather)
    if made is None or len(made.counts) != 1 or made.axis == made.source.type.rank - 1:
        return None
    return made if made.counts[0] <= made.source.type.shape[made.axis] else None


def _chain(rows: Taking) -> _Chain | None:
    """What makes the rows that are taken, of arguments; None where that reduces none of them, or something else reads what it reduces."""
    made = owner(rows.source)
    if not is_elementwise(made):
        return None
    found, todo = _Chain(axes={rows.source: rows.axis}), [made]
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
    found.operations = [op for op in reversed(walk(rows.op.parent, "linalg.generic")) if op in known]
    return found if not others & set(found.axes) and _is_free(found, rows) else None


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
    begins = all(beginning(v) is not None for v in outputs(op)) and (is_reduction(op) or not reads_outputs(op))
    return row if kinds(op)[row] == PARALLEL and not counted and begins else None


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


def _is_free(chain: _Chain, rows: Taking) -> bool:
    """Whether rows are reduced, and nobody else reads that, or what is made of it."""
    reduced: set[ir.Value] = set()
    for op in reversed(chain.operations):  # the first one first
        if is_reduction(op) or reduced & set(inputs(op)):
            reduced |= set(op.results)
    own = {*chain.operations, rows.gather}
    return bool(reduced) and all(user in own for value in reduced for user in users(value))


def _take_first(gather: ir.Operation) -> bool:
    """Make what rows are taken of of the rows that are taken, where ``gather`` takes some; whether it does."""
    rows = _rows(gather)
    chain = _chain(rows) if rows is not None else None
    if chain is None:
        return False
    known: dict[ir.Value, ir.Value] = {}
    with ir.InsertionPoint(rows.op):
        for value in chain.begins:
            known[value] = take(rows, value, chain.axes[value])
        for op in reversed(chain.operations):
            with op.location:
                begins = {out: begin(out, chain.axes[result], rows.counts) for out, result in zip(outputs(op), op.results)}
                new = clone_onto(op, {**known, **begins})
                for old, result in zip(op.results, new.results):
                    result.set_type(resized(result.type, chain.axes[old], rows.counts))
                    known[old] = result
    rows.op.results[0].replace_all_uses_with(known[rows.source])
    rows.op.erase()
    for op in chain.operations:
        if is_unread(op):
            op.erase()
    return True
