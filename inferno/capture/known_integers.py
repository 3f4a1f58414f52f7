"""Constant folding of small tensors of integers that depend on no input.

Transformers finds out from positions, which it has just counted itself, which of several sequences in a row a token belongs to: differences, a
running sum and two gathers, of which nothing but zeros comes, and a mask of which only that remains which the numbers of queries and keys tell.
"""

from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from inferno.capture.dimensions import as_dimension
from inferno.capture.nodes import value_meta

aten = torch.ops.aten

# Elements: the positions of 64 sequences of 4096 tokens.  A mask of all pairs of these is not computed.
_MOST = 1 << 18
_MADE = {
    aten.full.default, aten.zeros.default, aten.ones.default, aten.scalar_tensor.default, aten.arange.default, aten.arange.start,
    aten.arange.start_step,
}
_VIEWS = {aten.view.default, aten.reshape.default, aten.unsqueeze.default, aten.expand.default, aten.squeeze.dim, aten.clone.default}
_KINDS = (torch.bool, torch.int32, torch.int64)


def say_known_integers(graph: Graph) -> None:
    """Rewrite ``graph`` in place: what is one number everywhere, or counts along one dimension, is made so, without what it was computed of."""
    known: dict[Node, Tensor] = {}
    plain: set[Node] = set()  # made and spread: there is nothing shorter to say
    for node in graph.nodes:
        value = value_of(node, known)
        if value is not None:
            known[node] = value
            if node.target in _MADE or (node.target in _VIEWS and all(n in plain for n in node.all_input_nodes)):
                plain.add(node)
    said: set[Node] = set()
    for node, value in reversed(known.items()):
        readers = [user for user in node.users if user.op != "output"]
        if node not in plain and not all(user in said for user in readers) and _say(graph, node, value):
            said.add(node)
    graph.eliminate_dead_code()


def value_of(node: Node, known: dict[Node, Tensor]) -> Tensor | None:
    """What a node computes, if that is few integers and depends on nothing but what is ``known``."""
    meta = node.meta.get("val")
    if node.op != "call_function" or not isinstance(meta, Tensor) or meta.dtype not in _KINDS or any(not isinstance(s, int) for s in meta.shape):
        return None
    schema = getattr(node.target, "_schema", None)
    if not 0 < meta.numel() <= _MOST or schema is None or schema.is_mutable or node.target.namespace != "aten":
        return None
    if torch.Tag.nondeterministic_seeded in node.target.tags or any(n not in known for n in node.all_input_nodes) or _is_empty(node):
        return None

    def given(values: Any) -> Any:
        return map_arg(values, known.__getitem__)

    kwargs = {name: torch.device("cpu") if isinstance(v, torch.device) else v for name, v in node.kwargs.items()}
    try:
        found = node.target(*given(node.args), **given(kwargs))
    except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
        return None
    fits = isinstance(found, Tensor) and found.device.type == "cpu" and found.dtype == meta.dtype and found.shape == meta.shape
    return found if fits else None


def _is_empty(node: Node) -> bool:
    """Whether it makes memory of which nobody knows what is in there."""
    return "empty" in node.target.name()


def _say(graph: Graph, node: Node, value: Tensor) -> bool:
    """Put what the value is in the place of the node; whether there is a short way to say it."""
    first = value.flatten()[0]
    counted = next((d for d in range(value.dim()) if value.dtype != torch.bool and value.shape[d] > 1 and _counts(value, d)), None)
    with graph.inserting_before(node):
        if bool((value == first).all()):
            new = _call(graph, node, aten.full.default, (list(value.shape), first.item()), value)
        elif counted is not None:
            begin, size = int(first), value.shape[counted]
            row = value.select(counted, 0)
            new = _call(graph, node, aten.arange.start_step, (begin, begin + size, 1), torch.arange(size, dtype=value.dtype, device=value.device))
            ones = [size if d == counted else 1 for d in range(value.dim())]
            new = _call(graph, node, aten.view.default, (new, ones), value.new_empty(ones))
            if row.numel() > 1:
                new = _call(graph, node, aten.expand.default, (new, list(value.shape)), value)
        else:
            return False
    new.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(new, delete_user_cb=lambda user: user.op != "output")
    return True


def _counts(value: Tensor, dim: int) -> bool:
    """Whether it is the number along one dimension, and a constant."""
    wanted = as_dimension(torch.arange(value.shape[dim], dtype=value.dtype, device=value.device), dim, value.dim())
    return bool((value == value.flatten()[0] + wanted).all())


def _call(graph: Graph, node: Node, target: Any, args: tuple, value: Tensor) -> Node:
    made = graph.call_function(target, args, {"dtype": value.dtype, "device": torch.device("cpu")} if target in _MADE else {})
    made.meta = value_meta(node, node.meta["val"].new_empty(value.shape, dtype=value.dtype))
    return made
