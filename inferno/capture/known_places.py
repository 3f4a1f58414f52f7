"""Rows that are taken at places which are known when compiling are slices, or few slices one behind the other.

PyTorch makes a cross product of three components at ``(i + 1) % 3`` and ``(i + 2) % 3``, and models take every second row by ``torch.arange``.  A kernel would
compute the place of each element, and read it there; of slices it knows where they lie.
"""

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture.known_integers import value_of
from inferno.capture.nodes import value_meta

aten = torch.ops.aten

_MOST = 4  # slices of one tensor: a copy of more takes longer to compile than a table of places to look up


def slice_known_places(graph: Graph) -> None:
    """Rewrite ``graph`` in place."""
    known: dict[Node, Tensor] = {}
    for node in graph.nodes:
        value = value_of(node, known)
        if value is not None:
            known[node] = value
            continue
        found = _taken(node)
        if found is None or found[2] not in known:
            continue
        source, dim, places = found
        size = source.meta["val"].shape[dim]
        runs = _runs(known[places].tolist(), size) if isinstance(size, int) and not _is_looked_up(source) else None
        if runs is not None:
            node.replace_all_uses_with(_sliced(graph, node, source, dim, runs))
    graph.eliminate_dead_code()


def _is_looked_up(source: Node) -> bool:
    """Whether it is taken from a tensor at places, for a number of rows that varies: one kernel takes rows and columns, and no slice of what one has taken."""
    varies = any(not isinstance(n, int) for n in source.meta["val"].shape)
    return varies and source.target in (aten.index.Tensor, aten.index_select.default, aten.embedding.default)


def _taken(node: Node) -> tuple[Node, int, Node] | None:
    """(tensor, dimension, places) if a node takes rows at places along one dimension."""
    meta = node.meta.get("val")
    if node.op != "call_function" or not isinstance(meta, Tensor):
        return None
    if node.target is aten.index_select.default:
        source, dim, places = node.args
    elif node.target is aten.index.Tensor and sum(i is not None for i in node.args[1]) == 1:
        source, indices = node.args
        dim = next(d for d, i in enumerate(indices) if i is not None)
        places = indices[dim]
    else:
        return None
    if not isinstance(places, Node) or not isinstance(source.meta.get("val"), Tensor) or not source.meta["val"].dim():
        return None
    integers = places.meta["val"].dtype in (torch.int32, torch.int64)
    return (source, dim % source.meta["val"].dim(), places) if integers and places.meta["val"].dim() == 1 else None


def _runs(places: list[int], size: int) -> list[tuple[int, int, int]] | None:
    """(begin, end, step) of slices that are the places one after the other; None if they are many, or there is no such place."""
    places = [p + size if p < 0 else p for p in places]
    if not places or not all(0 <= p < size for p in places):
        return None
    found: list[list[int]] = []  # begin, last, step, of one place 0
    for place in places:
        run = found[-1] if found else None
        if run is not None and place > run[1] and run[2] in (0, place - run[1]):
            run[1], run[2] = place, place - run[1]
        elif len(found) == _MOST:
            return None
        else:
            found.append([place, place, 0])
    return [(begin, last + 1, max(1, step)) for begin, last, step in found]


def _sliced(graph: Graph, node: Node, source: Node, dim: int, runs: list[tuple[int, int, int]]) -> Node:
    """The slices behind one another, in front of ``node``."""
    given, made = source.meta["val"], []
    with graph.inserting_before(node):
        for begin, end, step in runs:
            part = graph.call_function(aten.slice.Tensor, (source, dim, begin, end, step))
            sizes = [len(range(begin, end, step)) if d == dim else n for d, n in enumerate(given.shape)]
            part.meta = value_meta(node, given.new_empty(sizes))
            made.append(part)
        if len(made) > 1:
            made = [graph.call_function(aten.cat.default, (made, dim))]
            made[0].meta = value_meta(node, node.meta["val"])
    return made[0]
