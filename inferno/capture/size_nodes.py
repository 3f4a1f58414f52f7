"""Numbers that vary, in a graph that is made of others: each is computed once, of the sizes of the graph's inputs.

All graphs of a captured program have the same symbols, so that a number is known by its expression of them, wherever it was read or computed.
"""

from typing import Any

import sympy
import torch
from torch import SymBool, SymFloat, SymInt
from torch.fx import Graph, Node, Proxy
from torch.fx.node import map_arg
from torch.fx.proxy import GraphAppendingTracer
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

VARYING = (SymInt, SymFloat, SymBool)


class UnknownSymbol(Exception):
    """A number depends on a symbol that is no size of an input."""


def is_number(value: Any) -> bool:
    """Whether a node's value is a number, which may vary."""
    return isinstance(value, (int, float, *VARYING))


class SizeNodes:
    """The nodes of ``graph`` that are numbers, while it is being made."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._sizes: dict[sympy.Symbol, tuple[Node, int]] = {}  # the input that a symbol is a size of, and which
        self._made: dict[tuple[type, sympy.Basic], Node] = {}

    def add_input(self, place: Node) -> None:
        """Take note of the symbols that are sizes of an input of the graph."""
        value = place.meta["val"]
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, SymInt) and isinstance(size.node.expr, sympy.Symbol):
                self._sizes.setdefault(size.node.expr, (place, dim))

    def number(self, node: Node) -> Any:
        """What this graph has for a number of another one: a number where it does not vary.  UnknownSymbol where no input tells it."""
        value = node.meta["val"]
        if not isinstance(value, VARYING):
            return value
        if isinstance(value, SymInt) and (known := value.node.maybe_as_int()) is not None:  # it was found to be, after the value was made
            return known
        key = type(value), value.node.expr
        if key not in self._made:
            computed = node.op == "call_function" and all(is_number(n.meta["val"]) for n in node.all_input_nodes)
            made = self._graph.node_copy(node, self.number) if computed else self._compute(value.node.expr)
            made.meta["val"] = value
            self._made[key] = made
        return self._made[key]

    def _compute(self, expression: sympy.Basic) -> Node:
        """The node of an expression, at the end of the graph."""
        last, tracer = next(iter(reversed(self._graph.nodes))), GraphAppendingTracer(self._graph)
        made = sympy_interp(PythonReferenceAnalysis, {s: Proxy(self._symbol(s), tracer) for s in expression.free_symbols}, expression).node
        while (last := last.next).op != "root":
            if "val" not in last.meta:
                last.meta["val"] = last.target(*map_arg(last.args, lambda n: n.meta["val"]), **last.kwargs)
        return made

    def _symbol(self, symbol: sympy.Symbol) -> Node:
        key = SymInt, symbol
        if key not in self._made:
            if symbol not in self._sizes:
                raise UnknownSymbol
            place, dim = self._sizes[symbol]
            self._made[key] = self._graph.call_function(torch.ops.aten.sym_size.int, (place, dim))
            self._made[key].meta["val"] = place.meta["val"].shape[dim]
        return self._made[key]
