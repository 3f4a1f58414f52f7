"""Writes to one place along a dimension, ``x[:, 3] = y``, as the writes to slices that they are.

torch decomposes a ``select_scatter`` into a choice by an ``arange``, of all elements.  Of a tensor of the program's own that is what is computed anyway; an
argument that the program changes stays where it is, and what is written to a part of a part of it (``x[3, 1:] += y``) is one write.
"""

from collections.abc import Collection

import torch
from torch.fx import Graph, Node

from inferno.capture.nodes import call_beside
from inferno.capture.partition import is_view

aten = torch.ops.aten


def write_selects(graph: Graph, written: Collection[int]) -> None:
    """Rewrite ``graph`` in place; ``written``: the numbers of the inputs that a call writes to."""
    places = graph.find_nodes(op="placeholder")
    changed = {places[n] for n in written}
    for node in graph.find_nodes(op="call_function", target=aten.where.self) if changed else ():
        pick = read_select(node)
        if pick is None or _base(node.args[2]) not in changed or not all(isinstance(n, int) for n in node.meta["val"].shape):
            continue
        place, dim, value = pick
        if not isinstance(place, int) or not 0 <= place < node.meta["val"].shape[dim]:
            continue
        with graph.inserting_before(node):
            slice_ = call_beside(node, aten.unsqueeze.default, value, dim)
            node.replace_all_uses_with(call_beside(node, aten.slice_scatter.default, node.args[2], slice_, dim, place, place + 1))
        graph.erase_node(node)


def _base(node: Node) -> Node:
    """What a value is a part of, or is with other values in parts."""
    while node.op == "call_function":
        if is_view(node) or node.target is aten.slice_scatter.default:
            node = node.args[0]
        elif node.target is aten.where.self and read_select(node) is not None:
            node = node.args[2]
        else:
            break
    return node


def read_select(node: Node) -> tuple[int, int, Node] | None:
    """(place, dimension, what is written) of a choice that is a ``select_scatter``."""
    condition, value, old = node.args
    if not all(isinstance(n, Node) for n in node.args) or condition.target is not aten.eq.Scalar:
        return None
    numbers, shape = condition.args[0], node.meta["val"].shape
    while isinstance(numbers, Node) and numbers.target in (aten.view.default, aten.unsqueeze.default):
        numbers = numbers.args[0]
    if not isinstance(numbers, Node) or numbers.target is not aten.arange.start_step or numbers.args[0] != 0 or numbers.args[2:] not in ((), (1,)):
        return None
    given = condition.meta["val"].shape
    dims = [d - len(given) + len(shape) for d, n in enumerate(given) if n != 1]
    if len(dims) != 1 or numbers.meta["val"].shape[0] != shape[dims[0]] or old.meta["val"].shape != shape:
        return None
    (dim,) = dims
    if value.target is aten.expand.default:
        value = value.args[0]
    if not isinstance(value, Node) or value.target is not aten.unsqueeze.default or value.args[1] % len(shape) != dim:
        return None
    value = value.args[0]
    if value.target is aten.copy.default and len(value.args) == 2:  # in the form of what was there
        value = value.args[1]
    fits = isinstance(value, Node) and value.meta["val"].shape == (*shape[:dim], *shape[dim + 1:]) and value.meta["val"].dtype == node.meta["val"].dtype
    return (condition.args[1], dim, value) if fits else None
