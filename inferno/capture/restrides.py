"""``as_strided`` that only says how dimensions of size 1 lie in memory, or that counts all elements in another shape, as a reshape.

torch's own decompositions make such calls: a pooling to one element gives its dimensions of size 1 the strides of its input's
layout, and a group norm flattens what has one dimension.  The gradient of such a call, as of a pooling to one element of an image in channels last, is a
flat tensor that ``as_strided_scatter`` fills.  Every other ``as_strided`` sees how its argument lies in memory.
"""

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture.nodes import value_meta
from inferno.capture.orders import expression

aten = torch.ops.aten


def replace_restrides(graph: Graph) -> None:
    """Rewrite them in ``graph``, in place."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.kwargs:
            continue
        if node.target is aten.as_strided.default and _only_restrides(node):
            node.replace_all_uses_with(node.args[0])
            node.graph.erase_node(node)
        elif node.target is aten.as_strided.default and (_only_reshapes(node) or _counts_all(node)):
            _replace(node, node.args[0])
        elif node.target is aten.as_strided_scatter.default and _fills_all(node):
            _replace(node, node.args[1])


def _replace(node: Node, source: Node) -> None:
    shape = list(node.meta["val"].shape)
    with node.graph.inserting_before(node):
        view = node.graph.call_function(aten.view.default, (source, shape))
    view.meta = value_meta(node, source.meta["val"].view(shape))
    node.replace_all_uses_with(view)
    node.graph.erase_node(node)


def _counts_all(node: Node) -> bool:
    """Whether both are all elements of a new tensor in their order in memory."""
    return _is_whole(node.args[0]) and _is_in_order(node.args[0].meta["val"], node.meta["val"])


def _fills_all(node: Node) -> bool:
    """Whether what is written takes the place of a whole new tensor, in its order in memory."""
    into, source, size, stride, *offset = node.args
    if not _is_whole(into) or any(offset[:1]) or not isinstance(source, Node):
        return False
    value, given = into.meta["val"], source.meta["val"]
    if any(not isinstance(s, int) for s in (*size, *stride)) or not _is_static(given) or given.dtype != value.dtype or not given.is_contiguous():
        return False
    return list(given.shape) == list(size) and _is_in_order(value, torch.empty_strided(size, stride, device="meta"))


def _is_in_order(old: Tensor, new: Tensor) -> bool:
    return _is_static(new) and new.is_contiguous() and new.storage_offset() == old.storage_offset() and new.numel() == old.numel()


def _is_static(value: Tensor) -> bool:
    return all(isinstance(s, int) for s in (*value.shape, *value.stride()))


def _is_whole(node: Node) -> bool:
    """Whether the value is all of a tensor that the graph makes, in one dimension: of more, the order in memory may be that of a caller's tensor."""
    value = node.meta["val"]
    if not isinstance(value, Tensor) or not _is_static(value) or len(_large(value)) > 1:
        return False
    while node.op == "call_function" and getattr(node.target, "is_view", False) and node.target is not aten.as_strided.default:
        node = node.args[0]
    if not _is_new(node):
        return False
    base = node.meta["val"]
    return all(
        isinstance(t, Tensor) and _is_static(t) and t.is_contiguous() and t.numel() == base.numel() > 0 and t.storage_offset() == 0 for t in (value, base)
    )


def _only_restrides(node: Node) -> bool:
    """Whether a new tensor, of which sizes vary, keeps them all, and the strides of all that are not 1."""
    old, new = node.args[0].meta["val"], node.meta["val"]
    if not _is_new(node.args[0]) or _is_static(old) or old.dim() != new.dim():
        return False
    numbers = [(*t.shape, *(s for _, s in _large(t)), t.storage_offset()) for t in (old, new)]
    return [*map(expression, numbers[0])] == [*map(expression, numbers[1])]


def _is_new(source: Node) -> bool:
    """Whether the graph makes it: a caller's tensor may lie in memory in another way."""
    return source.op == "call_function" and not getattr(source.target, "is_view", True)


def _only_reshapes(node: Node) -> bool:
    source = node.args[0]
    if not _is_new(source):
        return False
    old, new = source.meta["val"], node.meta["val"]
    if not _is_static(old) or not _is_static(new) or old.numel() != new.numel() or not old.numel():
        return False
    if new.storage_offset() != old.storage_offset():
        return False
    if _large(old) != _large(new):
        return False
    # Of one dimension there is but one dense order; of more, the same shape with other strides of its ones is torch's own idiom.
    return len(_large(old)) <= 1 or (old.shape == new.shape and old.stride() != new.stride())


def _large(value: Tensor) -> list[tuple[int, int]]:
    """Sizes and strides of the dimensions that are not of size 1."""
    return [(n, s) for n, s in zip(value.shape, value.stride()) if not isinstance(n, int) or n != 1]
