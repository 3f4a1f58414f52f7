"""Exchange a norm of rows and a move of its rows: a norm reads each row alone, so one kernel can read the rows where they lie and normalise them.

What makes rows of rows, and nothing else, is computed anew of moved ones.  It is rewritten where nothing but the move reads what it makes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from math import prod

from inferno.mlir import ir, linalg, owner, tensor, users, walk
from inferno.passes.generics import (
    REDUCTION, body, build, clone_body, inputs, is_elementwise, is_generic, is_reduction, keep_attributes, kinds, maps, outputs,
)


@dataclass
class _Rows:
    """``inside`` are the operations that make ``value``, in their order; ``leaves`` what they read of rows that something else makes."""

    value: ir.Value
    inside: list[ir.Operation]
    leaves: list[ir.Value]

    @property
    def count(self) -> int:
        return self.value.type.rank - 1


def compute_moved(value: ir.Value, rows: Sequence[int], move: Callable[[ir.Value], ir.Value]) -> ir.Value | None:
    """``value`` with rows of these sizes, at the insertion point, of what ``move`` makes of the tensors that it is computed of; None where it is no norm, or
    rows would be more."""
    found = _of_rows(value) if prod(rows) <= prod(value.type.shape[:-1]) else None
    if found is None:
        return None
    known = {leaf: move(leaf) for leaf in found.leaves}
    for op in found.inside:
        _rebuild(op, found.count, rows, known)
    return known[value]


def is_norm(value: ir.Value) -> bool:
    """Whether ``compute_moved`` would compute it."""
    return value.type.has_static_shape and value.type.rank > 1 and _of_rows(value) is not None


def _of_rows(value: ir.Value) -> _Rows | None:
    rows, inside, pending = list(value.type.shape[:-1]), [], [value]
    while pending:
        made = owner(pending.pop())
        if made is None or made in inside or not _is_of_rows(made, rows):
            continue
        if made.results[0] != value and not all(u in inside for u in users(made.results[0])):
            continue  # its other readers may yet be found inside, which come to it again
        inside.append(made)
        pending += [v for v in inputs(made) if _has_rows(v, rows)]
    inside.sort(key=cmp_to_key(lambda a, b: -1 if a.is_before_in_block(b) else 1))
    leaves = list(dict.fromkeys(v for op in inside for v in inputs(op) if _has_rows(v, rows) and (owner(v) is None or owner(v) not in inside)))
    whole = all(leaf.type.rank == len(rows) + 1 for leaf in leaves)
    reduces = any(is_reduction(op) for op in inside)
    return _Rows(value, inside, leaves) if inside and reduces and whole and len(leaves) == 1 else None


def _has_rows(value: ir.Value, rows: list[int]) -> bool:
    type_ = value.type
    return isinstance(type_, ir.RankedTensorType) and type_.has_static_shape and type_.rank >= len(rows) and list(type_.shape[: len(rows)]) == rows


def _is_of_rows(op: ir.Operation, rows: list[int]) -> bool:
    """Whether an operation computes each row of rows alone, by loops of rows and then of columns."""
    if not is_generic(op) or len(op.results) != 1 or walk(op, "linalg.index", "tensor.extract") or not _has_rows(op.results[0], rows):
        return False
    loops, sums = len(kinds(op)), is_reduction(op)
    if loops not in (len(rows), len(rows) + 1) or REDUCTION in kinds(op)[: len(rows)] or not (sums or is_elementwise(op)):
        return False
    if sums and (owner(outputs(op)[0]) is None or owner(outputs(op)[0]).name != "linalg.fill"):
        return False
    own = list(range(len(rows)))
    for value, map_ in zip(op.operands, maps(op)):
        read = [ir.AffineDimExpr(e).position if isinstance(e, ir.AffineDimExpr) else -1 for e in map_.results]
        if read not in (own, [*own, len(rows)], [len(rows)], []) or (read == [len(rows)] and _has_rows(value, rows)):
            return False
    return True


def _rebuild(op: ir.Operation, count: int, rows: Sequence[int], known: dict[ir.Value, ir.Value]) -> None:
    """The operation on moved rows."""
    def moved(map_: ir.AffineMap) -> ir.AffineMap:
        read = [ir.AffineDimExpr(e).position for e in map_.results]
        exprs = [ir.AffineDimExpr.get(d) for d in range(len(rows))] if 0 in read else []
        exprs += [ir.AffineDimExpr.get(len(rows))] if count in read else []
        return ir.AffineMap.get(len(rows) + len(kinds(op)) - count, 0, exprs)

    type_ = op.results[0].type
    out = tensor.EmptyOp([*rows, *type_.shape[count:]], type_.element_type).result
    start = owner(outputs(op)[0])
    out = linalg.fill(start.operands[0], outs=[out]) if start is not None and start.name == "linalg.fill" else out
    made = build(
        [known.get(v, v) for v in inputs(op)], [out], [moved(m) for m in maps(op)], [*[kinds(op)[0]] * len(rows), *kinds(op)[count:]],
        lambda arguments: clone_body(body(op), arguments), op.location,
    )
    keep_attributes(made, op)
    known[op.results[0]] = made.results[0]
