"""A graph with sizes that vary, traced again for sizes that are numbers."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx


def varies(graph: GraphModule) -> bool:
    """Whether an input of the graph, or a size of one, is symbolic."""
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                return True
            if isinstance(value, torch.Tensor) and any(isinstance(s, torch.SymInt) for s in (*value.shape, *value.stride())):
                return True
    return False


def specialise(graph: GraphModule, values: Sequence[Any]) -> tuple[GraphModule, list[int]]:
    """The graph for inputs of exactly these sizes, a function of the tensors among them; and those tensors' places."""
    places = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        given = list(values)
        for i, tensor in zip(places, tensors):
            given[i] = tensor
        return Interpreter(graph).run(*given)

    with torch.no_grad(), torch.fx.traceback.preserve_node_meta():
        return make_fx(call, tracing_mode="fake")(*(values[i] for i in places)), places
