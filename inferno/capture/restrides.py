"""``as_strided`` that only says how dimensions of size 1 lie in memory, as a reshape.

torch's own decompositions make such calls: a pooling to one element gives its dimensions of size 1 the strides of its input's
layout, and a group norm flattens what has one dimension.  Every other ``as_strided`` sees how its argument lies in memory.
"""

import torch
from torch import Tensor
from torch.fx import Graph, Node

aten = torch.ops.aten


def replace_restrides(graph: Graph) -> None:
    """Rewrite them in ``graph``, in place."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target is aten.as_strided.default and _only_reshapes(node):
            source = node.args[0]
            with graph.inserting_before(node):
                view = graph.call_function(aten.view.default, (source, list(node.meta["val"].shape)))
            view.meta = {**{k: v for k, v in node.meta.items() if k != "tensor_meta"}, "val": source.meta["val"].view(node.meta["val"].shape)}
            node.replace_all_uses_with(view)
            graph.erase_node(node)


def _only_reshapes(node: Node) -> bool:
    source = node.args[0]
    if source.op != "call_function" or getattr(source.target, "is_view", True):
        return False  # a caller's tensor may lie in memory in another way
    old, new = source.meta["val"], node.meta["val"]
    if any(not isinstance(s, int) for t in (old, new) for s in (*t.shape, *t.stride())) or old.numel() != new.numel() or not old.numel():
        return False
    if new.storage_offset() != old.storage_offset():
        return False
    if _large(old) != _large(new):
        return False
    # Of one dimension there is but one dense order; of more, the same shape with other strides of its ones is torch's own idiom.
    return len(_large(old)) <= 1 or (old.shape == new.shape and old.stride() != new.stride())


def _large(value: Tensor) -> list[tuple[int, int]]:
    """Sizes and strides of the dimensions that are not of size 1."""
    return [(n, s) for n, s in zip(value.shape, value.stride()) if n != 1]
