"""The inverse of a triangular matrix that Python computes row by row, as blocks of products: a delta rule by chunks of 64 tokens was 200 launches a layer.

``u[i, :i] += u[i, :i] @ u[:i, :i]`` for all rows i of a strictly lower ``u`` makes ``u + u @ v`` of it, where v is what it makes: v is
``inverse(1 - u) - 1``.  That is so for matrices that are known to be zero on the diagonal and above, whatever columns the loop reads beyond.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture.batch_steps import trace_on
from inferno.capture.decompositions.triangular import inverse_of_unit_lower
from inferno.capture.known_integers import value_of
from inferno.capture.nodes import copy_before

aten = torch.ops.aten
_LEAST = 8  # rows
_MOST = 256  # rows; masks are evaluated for as many squared (no measurement chose it)
_AS_IT_IS = (aten.clone.default, aten.alias.default, aten.copy.default)
_MOST_KNOWN = 64  # operations that a mask is made of


def roll_substitutions(graph: Graph, decompositions: dict[Any, Callable]) -> None:
    """Rewrite ``graph``, of decomposed operations, in place."""
    steps = {n: step for n in graph.nodes if n.target is aten.where.self and (step := _step(n)) is not None}
    read = {step[0] for step in steps.values()}
    for last in [n for n in steps if n not in read]:
        rows, first = last.meta["val"].shape[-1], last
        expected = rows - 1
        while first in steps and steps[first][1] == expected:
            first, expected = steps[first][0], expected - 1
        if _LEAST <= rows <= _MOST and expected <= 1 and _is_strictly_lower(first):
            traced = trace_on(_substituted, [first], decompositions)
            if traced is not None:
                last.replace_all_uses_with(copy_before(last, traced, [first])[traced.output_node().args[0]])
    if steps:
        graph.eliminate_dead_code()


def _substituted(u: Tensor) -> Tensor:
    return inverse_of_unit_lower(-u) - torch.eye(u.shape[-1], dtype=u.dtype, device=u.device)


def _step(node: Node) -> tuple[Node, int] | None:
    """The matrix before and the row, where ``node`` is a matrix with one row replaced by that row and its product with the rows above."""
    condition, new, before = node.args
    shape = node.meta["val"].shape
    if not all(isinstance(size, int) for size in shape):  # to compare sizes that vary would be a condition of the whole program
        return None
    if not isinstance(before, Node) or before.meta["val"].shape != shape or len(shape) < 2 or shape[-1] != shape[-2]:
        return None
    new = _base(new, (aten.expand.default, aten.unsqueeze.default))
    if new is None or new.target is not aten.slice_scatter.default or len(new.args) != 5 or new.meta["val"].shape != shape[:-2] + shape[-1:]:
        return None
    old, row, dim, start, end = new.args
    kept, total = _read(old, before), _base(row)
    if kept is None or kept.rows.count != 0 or (dim % len(shape[1:]), start) != (len(shape) - 2, 0) or total.target is not aten.add.Tensor:
        return None
    i = kept.rows.start
    if not i <= end <= shape[-1] or len(total.args) != 2 or total.kwargs or not _is_row(condition, shape, i):
        return None
    for itself, added in (total.args, total.args[::-1]):
        columns = _read(itself, before)
        if columns is not None and columns.is_row(i) and columns.columns == _Range(0, end) and _is_product(added, before, i, end):
            return before, i
    return None


def _is_product(node: Any, before: Node, i: int, end: int) -> bool:
    """Whether this is row ``i`` times the rows above, of the first ``end`` columns; more terms than ``i`` are zeros."""
    node = _base(node)
    if node is None or node.target is not aten.sum.dim_IntList or len(node.args) != 2 or node.kwargs:
        return False
    product, axes = _base(node.args[0]), node.args[1]
    dims = before.meta["val"].dim()
    if product is None or product.target is not aten.mul.Tensor or product.meta["val"].dim() != dims or [a % dims for a in axes] != [dims - 2]:
        return False
    for left, right in (product.args, product.args[::-1]):
        row, above = _read(left, before), _read(right, before)
        if row is not None and above is not None and row.is_row(i) and row.transposed and above.rows.start == 0 and not above.transposed:
            terms = _Range(0, row.columns.count)
            if i <= terms.count and row.columns == terms and above.rows == terms and above.columns == _Range(0, end):
                return True
    return False


@dataclass(frozen=True)
class _Range:
    """``count`` places from ``start`` on; one that was selected has no dimension, and a count of 0."""

    start: int
    count: int


@dataclass(frozen=True)
class _Part:
    """Rows and columns of all matrices; ``transposed`` where the columns' dimension has one of size 1 after it."""

    rows: _Range
    columns: _Range
    transposed: bool = False

    def is_row(self, i: int) -> bool:
        return self.rows == _Range(i, 0)


def _read(node: Any, matrices: Node) -> _Part | None:
    """Which part of ``matrices`` a node is; None where that is not plain."""
    if node is matrices:
        rows, columns = matrices.meta["val"].shape[-2:]
        return _Part(_Range(0, rows), _Range(0, columns))
    if not isinstance(node, Node) or node.op != "call_function" or not node.args:
        return None
    if node.target in _AS_IT_IS:
        return _read(node.args[-1 if node.target is aten.copy.default else 0], matrices)
    if node.target not in (aten.select.int, aten.slice.Tensor, aten.unsqueeze.default):
        return None
    source = node.args[0]
    part = _read(source, matrices)
    if part is None or part.transposed:
        return None
    dims = source.meta["val"].dim()
    selected = part.rows.count == 0
    if node.target is aten.unsqueeze.default:
        return _Part(part.rows, part.columns, True) if selected and node.args[1] % (dims + 1) == dims else None
    dim = node.args[1] % dims
    if node.target is aten.select.int:
        return _Part(_Range(part.rows.start + node.args[2], 0), part.columns) if not selected and dim == dims - 2 and node.args[2] >= 0 else None
    start, end, step = (*node.args[2:], *(None, None, 1)[len(node.args) - 2 :])
    start, end = start or 0, min(source.meta["val"].shape[dim], source.meta["val"].shape[dim] if end is None else end)
    if step != 1 or start < 0 or end <= start:
        return None
    if dim == dims - 1:
        return _Part(part.rows, _Range(part.columns.start + start, end - start))
    return _Part(_Range(part.rows.start + start, end - start), part.columns) if not selected and dim == dims - 2 else None


def _base(node: Any, also: tuple = ()) -> Node | None:
    """What is copied, or views of ``also``."""
    while isinstance(node, Node) and node.target in (*_AS_IT_IS, *also):
        node = node.args[1 if node.target is aten.copy.default else 0]
    return node if isinstance(node, Node) else None


def _is_row(condition: Any, shape: torch.Size, row: int) -> bool:
    """Whether this is true in row ``row`` of all matrices, and nowhere else."""
    known = _known(condition)
    if known is None or known.dtype != torch.bool or known.dim() < 2 or known.shape[-2] != shape[-2] or known.numel() > _MOST * _MOST:
        return False
    known = known.reshape(-1, *known.shape[-2:])
    return known.shape[0] == 1 and bool((known == (torch.arange(shape[-2]) == row).unsqueeze(-1)).all())


def _is_strictly_lower(node: Node) -> bool:
    """Whether the matrices are known to be zero on the diagonal and above."""
    node = _base(node, (aten.neg.default,))
    if node is None or node.target is not aten.where.self:
        return False
    shape, (condition, one, other) = node.meta["val"].shape, node.args
    known = _known(condition)
    if known is None or known.dtype != torch.bool:
        return False
    upper = torch.ones(shape[-2:], dtype=torch.bool).triu()
    kept = known if _is_zero(other) else ~known if _is_zero(one) else None
    return kept is not None and not bool((kept & upper).any())


def _is_zero(node: Any) -> bool:
    node = _base(node, (aten.expand.default, aten.view.default))
    made = node is not None and node.target in (aten.scalar_tensor.default, aten.full.default, aten.full_like.default)
    return made and type(value := node.args[0 if node.target is aten.scalar_tensor.default else 1]) in (int, float, bool) and value == 0


def _known(node: Any) -> Tensor | None:
    """The value of a node that is few integers, computed of constants alone."""
    known: dict[Node, Tensor] = {}
    seen: set[Node] = set()

    def find(each: Node) -> None:
        seen.add(each)
        for given in each.all_input_nodes:
            if given not in seen and len(seen) < _MOST_KNOWN:
                find(given)
        value = _filled(each) if each.target is aten.full_like.default else value_of(each, known)
        if value is not None:
            known[each] = value

    if isinstance(node, Node) and isinstance(node.meta.get("val"), Tensor) and node.meta["val"].dtype == torch.bool:
        find(node)
    return known.get(node)


def _filled(node: Node) -> Tensor | None:
    """A tensor of one number, like one of which memory holds anything."""
    value, number = node.meta["val"], node.args[1]
    small = type(number) in (int, float, bool) and all(type(s) is int for s in value.shape) and value.numel() <= _MOST * _MOST
    return torch.full(value.shape, number, dtype=value.dtype) if small else None
