"""Graphs that an operation calls, as ``torch.cond`` its branches and ``scan`` its step: the operation runs in eager, and what it calls is a region."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from inferno.capture.capture import copy_graph
from inferno.runtime.region.region import Region

_CALLERS = {torch.ops.higher_order.cond, torch.ops.higher_order.while_loop, torch.ops.higher_order.scan}


def called_graphs(graph: GraphModule) -> dict[str, GraphModule]:
    """By the names of their attributes, the graphs that operations of ``graph`` call, of tensors whose sizes and strides are known."""
    names = {n.target for node in graph.graph.nodes if node.target in _CALLERS for n in node.all_input_nodes if n.op == "get_attr"}
    modules = {name: getattr(graph, name, None) for name in names}
    return {name: m for name, m in modules.items() if isinstance(m, GraphModule) and all(map(_is_known, m.graph.find_nodes(op="placeholder")))}


def compile_called(graph: GraphModule, compile_: Callable[[GraphModule], Region]) -> Callable:
    """The function that ``graph`` is, by its region; tensors that lie otherwise than the graph's are copied."""
    examples = [n.meta["val"] for n in graph.graph.find_nodes(op="placeholder")]
    results = graph.graph.output_node().args[0]
    given = [(tuple(e.shape), tuple(e.stride())) for e in examples]
    whole = graph
    if isinstance(results, Node):  # a region's are a list
        whole = GraphModule(graph, copy_graph(graph.graph))
        whole.graph.output_node().args = ([whole.graph.output_node().args[0]],)
    region = compile_(whole)

    def call(*values: Tensor) -> Any:
        made = region.run([_as_given(value, *wanted) for value, wanted in zip(values, given)])
        return made[0] if isinstance(results, Node) else type(results)(made)

    return call


def _is_known(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.layout is torch.strided and all(type(n) is int for n in (*value.shape, *value.stride()))


def _as_given(value: Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    if value.stride() == strides:
        return value.detach()
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device).copy_(value)
