"""Sizes that are floats of others rounded to whole numbers, as of what is resized by a factor, as integers: ``trunc(h * 1.5)`` is ``h * 3 // 2``.

The import knows sizes as integers alone.  Where the float is exact, or near enough to round down to the same number, the rest is integers.
"""

import math
import operator

import torch
from torch.fx import Graph, Node

from inferno.capture.symbols import is_exact

_ROUNDINGS = {math.trunc, math.floor, torch.sym_int}


def make_sizes_whole(graph: Graph) -> None:
    """Rewrite ``graph`` in place."""
    found = [(n, ratio) for n in graph.nodes if n.target in _ROUNDINGS and (ratio := _ratio(n.args[0])) is not None]
    for node, (size, times, by) in found:
        with graph.inserting_before(node):
            whole = _call(graph, node, operator.mul, size, times) if times != 1 else size
            whole = _call(graph, node, operator.floordiv, whole, by) if by != 1 else whole
        node.replace_all_uses_with(whole)
    if found:
        graph.eliminate_dead_code()


def _ratio(value: Node | float) -> tuple[Node, int, int] | None:
    """The size, and what it is multiplied and divided by to give a float; None for what is not known to be exact enough."""
    if not isinstance(value, Node) or value.target not in (torch.sym_float, operator.mul, operator.truediv):
        return None
    if value.target is torch.sym_float:
        return (value.args[0], 1, 1) if _is_size(value.args[0]) else None
    first, second = value.args if isinstance(value.args[0], Node) else value.args[::-1]
    if value.target is operator.truediv:
        first, times, by = value.args[0], 1, value.args[1]
    else:
        times, by = second.as_integer_ratio() if isinstance(second, (int, float)) and math.isfinite(second) else (0, 0)
    if isinstance(first, Node) and first.target is torch.sym_float:
        first = first.args[0]
    return (first, times, by) if _is_size(first) and isinstance(by, int) and is_exact(times, by) else None


def _is_size(value: Node | float) -> bool:
    """Whether it is an integer of sizes that is not negative."""
    found = value.meta.get("val") if isinstance(value, Node) else None
    return isinstance(found, torch.SymInt) and torch.fx.experimental.symbolic_shapes.statically_known_true(found >= 0)


def _call(graph: Graph, like: Node, function: object, size: Node, number: int) -> Node:
    made = graph.call_function(function, (size, number))
    made.meta = {**{k: v for k, v in like.meta.items() if k != "val"}, "val": function(size.meta["val"], number)}
    return made
