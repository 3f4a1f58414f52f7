"""Sizes that are numbers, said as numbers.

torch keeps ``(n + -n % 4) // ((n + -n % 4) // 4)`` as the size that ``view(n // 4, 4)`` has after a padding to whole windows.  It is 4, which the import has to
know: a dimension that another one is merged with, or that a sum goes over, is then known, and so are the kernels'.
"""

from typing import Any

import torch
from torch.fx import Graph
from torch.fx.node import map_arg

from inferno.capture.symbols import SymbolTable
from inferno.errors import UnsupportedOperation


def say_known_sizes(graph: Graph) -> None:
    """Rewrite ``graph`` in place: a size that is one number whatever the symbols are is that number, in tensors' shapes and for who reads it."""
    table = SymbolTable()
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op not in ("call_function", "placeholder"):
            continue
        if isinstance(value, torch.SymInt) and isinstance(size := _size(table, value), int):
            for user in list(node.users):
                user.args, user.kwargs = map_arg((user.args, user.kwargs), lambda n, known=node, size=size: size if n is known else n)
        elif isinstance(value, torch.Tensor) and any(isinstance(s, torch.SymInt) for s in value.shape):
            sizes = [_size(table, s) for s in value.shape]
            shape = [known if isinstance(known, int) else s for known, s in zip(sizes, value.shape)]
            if any(isinstance(s, int) and not isinstance(before, int) for s, before in zip(shape, value.shape)):
                with value.fake_mode:
                    others = {k: v for k, v in node.meta.items() if k != "tensor_meta"}  # which the importer would take before "val"
                    node.meta = {**others, "val": torch.empty(shape, dtype=value.dtype, device=value.device)}


def _size(table: SymbolTable, value: Any) -> Any:
    try:
        return table.size(value)
    except UnsupportedOperation:
        return value
