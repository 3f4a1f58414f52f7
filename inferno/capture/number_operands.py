"""Sizes that vary in the place of tensors, as in ``torch.div(x.size(1), 4, rounding_mode="trunc")``, as tensors without dimensions.

The import knows numbers there, and sizes as integers alone.
"""

import torch
from torch.fx import Graph, Node

from inferno.capture.nodes import call_beside

aten = torch.ops.aten


def make_tensors_of_sizes(graph: Graph) -> None:
    """Rewrite ``graph`` in place, where the operation gives the same type of a tensor of int64 as of a number."""
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        places = [i for i, (a, given) in enumerate(zip(node.target._schema.arguments, node.args)) if isinstance(a.type, torch.TensorType) and _is_size(given)]
        if places and (args := _with_tensors(node, places)) is not None:
            node.args = args


def _is_size(given: object) -> bool:
    return isinstance(given, Node) and isinstance(given.meta.get("val"), torch.SymInt)


def _with_tensors(node: Node, places: list[int]) -> tuple | None:
    """The arguments of ``node`` with tensors at ``places``; None where it would give another type."""
    value = node.meta["val"]
    with node.graph.inserting_before(node):
        args = list(node.args)
        for i in places:
            args[i] = call_beside(node, aten.full.default, [], args[i], dtype=torch.int64, device=value.device)
        again = call_beside(node, node.target, *args, **node.kwargs)
    same = again.meta["val"].dtype == value.dtype
    node.graph.erase_node(again)
    return tuple(args) if same else None
