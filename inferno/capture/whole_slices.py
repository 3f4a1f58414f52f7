"""Slices that are all of a tensor, and writes of what is there already, where sizes vary.

For known sizes torch writes down no slice ``x[:]``, and the compiler sees that a slice of what was just written there is what was written.  With sizes
that vary ``x[:, 1:] += y`` is a dozen slices and writes, which are compared here: where the sizes' expressions are equal, sizes are.
"""

from typing import Any

import torch
from torch.fx import Graph, Node

from inferno.capture.nodes import argument
from inferno.capture.orders import expression

aten = torch.ops.aten

_END = 2**63 - 1  # what torch says for "to the end"
_PARTS = {aten.slice_scatter.default: aten.slice.Tensor, aten.select_scatter.default: aten.select.int}


def fold_whole_slices(graph: Graph) -> None:
    """Rewrite ``graph`` in place."""
    folded = False
    for node in list(graph.nodes):
        if node.op == "call_function" and not node.kwargs and _varies(node) and (same := _same(node)) is not None:
            node.replace_all_uses_with(same)
            folded = True
    if folded:
        graph.eliminate_dead_code()


def _varies(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not all(isinstance(n, int) for source in (value, *_tensors(node)) for n in source.shape)


def _tensors(node: Node) -> list[torch.Tensor]:
    return [n.meta["val"] for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]


def _same(node: Node) -> Node | None:
    """The value in front of ``node`` that it gives again; None where there is none."""
    if node.target is aten.copy.default:
        return node.args[1] if _is_like(node.args[1], node) else None
    if node.target is aten.slice.Tensor and _is_like(node.args[0], node) and _place(node)[3] == 1:
        return node.args[0]
    if node.target in (aten.slice.Tensor, aten.select.int):
        written = node.args[0]
        again = _PARTS.get(written.target) is node.target and not written.kwargs and _place(written) == _place(node)
        return written.args[1] if again and _is_like(written.args[1], node) else None
    if node.target not in _PARTS:
        return None
    into, new = node.args[:2]
    if node.target is aten.slice_scatter.default and _is_like(new, node) and _place(node)[3] == 1:
        return new
    read = new.target is _PARTS[node.target] and new.args[0] is into  # what is there already
    written = into.target is node.target and not into.kwargs and into.args[1] is new
    return into if (read or written) and not new.kwargs and _place(new if read else into) == _place(node) else None


def _place(node: Node) -> tuple[Any, ...]:
    """Where a slice is, or a write to one: dimension, begin, end and step; the dimension and the number of one that is selected."""
    write = node.target in _PARTS
    dim = argument(node, "dim") % node.args[0].meta["val"].dim()
    if (_PARTS[node.target] if write else node.target) is aten.select.int:
        return dim, _number(argument(node, "index"))
    begin, end = argument(node, "start"), argument(node, "end")
    return dim, 0 if begin is None else _number(begin), _END if end is None else _number(end), _number(argument(node, "step"))


def _number(given: int | Node) -> Any:
    return given if isinstance(given, int) else expression(given.meta["val"])


def _is_like(one: Node, other: Node) -> bool:
    """Whether two nodes are tensors of one type and one shape."""
    a, b = (n.meta.get("val") for n in (one, other))
    known = isinstance(a, torch.Tensor) and a.dtype == b.dtype and a.device == b.device
    return known and [*map(expression, a.shape)] == [*map(expression, b.shape)]
