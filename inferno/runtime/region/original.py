"""A graph as torch runs it: what stands in where the compiler failed on the graph, or one of its operations needs all others beside it.

The operations that a graph is compiled from are decomposed: a batch norm is a dozen of them, and one by one in eager they take ten times as long as what
they were made of.  So what was captured is kept as it was before anything was put in its place.
"""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from inferno.capture.capture import copy_graph
from inferno.capture.nodes import user_line
from inferno.runtime import stats
from inferno.runtime.region.region import Fallback, Region

log = logging.getLogger(__name__)

_CALLS = ("call_function", "call_method", "call_module")
_TEXT = """def region(inputs):
    given = list(inputs)
    inputs.clear()
    results = operations(*given)
    return results
"""
_STARTS = (3, 4)  # the line of the call, and the one behind it


class Original:
    """The operations of a graph, and of those that they call, as they are now, whatever is put in their place later."""

    def __init__(self, graph: GraphModule) -> None:
        self._graph = graph
        self._operations = {m: copy_graph(m.graph) for m in graph.modules() if isinstance(m, GraphModule)}

    def module(self) -> GraphModule:
        """The graph with these operations; what it holds is the graph's own."""
        return self._restored(self._graph)

    def fallback(self, reason: str) -> Fallback:
        return graph_fallback(self._operations[self._graph], reason)

    def _restored(self, graph: GraphModule) -> GraphModule:
        made = GraphModule(graph, self._operations[graph])
        for name, part in list(made.named_children()):
            if part in self._operations:
                setattr(made, name, self._restored(part))
        return made


class Regions(list):
    """The regions of one graph by kind, which are among the ``shared`` ones of several graphs, too."""

    def __init__(self, shared: list[tuple[str, Region]]) -> None:
        super().__init__()
        self._shared = shared

    def append(self, region: tuple[str, Region]) -> None:
        super().append(region)
        self._shared.append(region)

    def clear(self) -> None:
        own = set(map(id, self))
        self._shared[:] = [r for r in self._shared if id(r) not in own]
        super().clear()


def graph_fallback(graph: Graph, reason: str) -> Fallback:
    """All operations of a graph in eager for one ``reason``."""
    nodes = [n for n in graph.nodes if n.op in _CALLS]
    where = next((line for n in nodes if (line := user_line(n))), None)
    name = f"a graph of {len(nodes)} operation{'s' if len(nodes) != 1 else ''}"
    return Fallback(name, name, f"{where[0]}:{where[1]}" if where else "", reason)


def eager_region(operations: Callable, fallback: Fallback, device: torch.device) -> Region:
    """What ``operations`` compute of the list of a region's inputs, in eager: one step.  (A graph's ``forward``: its call would print each error.)"""
    scope: dict[str, Any] = {"operations": operations}
    exec(compile(_TEXT, "<inferno region>", "exec"), scope)
    return Region(scope["region"], _TEXT, (), (fallback,), 0.0, device, (fallback,), _STARTS)


def count_eager(region: Region, level: int) -> Region:
    """The same region, of a graph that runs in eager, counted and said."""
    for fallback in region.fallbacks:
        log.log(level, "%s", fallback)
    stats.add(graphs=1, fallbacks=len(region.fallbacks))
    return region
