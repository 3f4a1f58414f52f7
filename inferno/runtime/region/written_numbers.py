"""What a model writes to a float64 tensor of one element, as a running count's mean is, under Dynamo.

To Dynamo such a tensor of the host may be a float of the graph.  Where AOTAutograd finds that no operation takes it for one it asks Dynamo to start again with
the float as a number, and in torch 2.13 Dynamo then leaves out what is written to the tensor and not read later.  The first graph is right: it is kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._dynamo.source import CallMethodItemSource
from torch._dynamo.symbolic_convert import TensorifyState
from torch.fx import GraphModule
from torch.utils._sympy.symbol import SymT, symbol_is_type


@contextmanager
def kept_writes(graph: GraphModule) -> Iterator[None]:
    """While AOTAutograd compiles ``graph``: the floats that only tensors are asked for, and nothing in the graph asks, count as numbers already."""
    context = torch._guards.TracingContext.try_get()
    shapes = context.fake_mode.shape_env if context is not None and context.fake_mode is not None else None
    items = [node.meta.get("example_value") for node in graph.graph.nodes if node.target == "item"]
    asked = {symbol for item in items if isinstance(item, torch.SymFloat) for symbol in item.node.expr.free_symbols}
    names = set() if shapes is None else {
        str(symbol) for symbol, sources in shapes.var_to_sources.items()
        if symbol_is_type(symbol, SymT.FLOAT) and symbol not in asked and all(isinstance(source, CallMethodItemSource) for source in sources)
    }
    names -= TensorifyState.force_specializations
    TensorifyState.force_specializations.update(names)
    try:
        yield
    finally:
        TensorifyState.force_specializations.difference_update(names)
