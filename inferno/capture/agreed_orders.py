"""Let a convolution's gradients of torch's library have their operands in one order, with channels last where one of them is.

Of a mixture the library copies what is row-major, at a third of a copy's rate.  Of a sequence it copies what is not, and cuDNN then turns that
back: it takes its gradients as those of an image of one row, which may have channels last.
"""

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from inferno.capture.orders import inverse

aten = torch.ops.aten

_GRADIENTS = aten.convolution_backward.default
_ROWS = 2  # the dimension of an image of one row that a sequence does not have


def agree_orders(graph: Graph) -> None:
    """Rewrite the calls of a backward whose sizes are known."""
    for node in list(graph.find_nodes(op="call_function", target=_GRADIENTS)):
        if list(node.args[-1]) == [True, False, False]:
            _join(node)
    for node in list(graph.find_nodes(op="call_function", target=_GRADIENTS)):
        gradient, image, *_, mask = node.args
        read = [gradient, image] if mask[1] else [gradient]  # of the image the input's gradient alone asks the sizes
        if takes_channels_last(node) and any(map(_has_channels_last, read)) and all(user.target is operator.getitem for user in node.users):
            _rewrite(node, read)


def _join(node: Node) -> None:
    """Ask the call that gives the weight's gradient for the input's as well, where they lie so: cuDNN's gets its operand in the order of its image, and one
    that only has its sizes (``split_gradients``) has none, so that the operand would be copied twice."""
    gradient, _, weight, *how = node.args
    for other in gradient.users:
        if other.target is _GRADIENTS and other is not node and other.args[0] is gradient and other.args[2] is weight and other.args[4:-1] == tuple(how[1:-1]):
            if not other.args[-1][0] and any(map(_has_channels_last, other.args[:2])) and other < node:
                other.args = (*other.args[:-1], [True, *other.args[-1][1:]])
                other.meta["val"] = (node.meta["val"][0], *other.meta["val"][1:])
                for user in list(node.users):
                    user.replace_input_with(node, other)
                node.graph.erase_node(node)
                return


def takes_channels_last(node: Node) -> bool:
    """Whether the library's gradients are of a convolution without groups of several channels."""
    return node.args[9] == 1 and node.args[1].meta["val"].shape[1] > 1


def _has_channels_last(node: Node) -> bool:
    value = node.meta["val"]
    known = value.dim() >= 3 and all(isinstance(n, int) for n in value.shape)
    return known and not value.is_contiguous() and value.permute(_last(value.dim())).is_contiguous()


def _last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def _rewrite(node: Node, read: list[Node]) -> None:
    graph, (gradient, image, weight, bias, stride, padding, dilation, transposed, rest, groups, mask) = node.graph, node.args
    rows = [1, 0, 1, 0] if weight.meta["val"].dim() == 3 else None
    how = [[first, *given] if rows else given for first, given in zip(rows or [0] * 4, (stride, padding, dilation, rest))]
    with graph.inserting_before(node):
        operands = [_turned(n) if n in read or n is weight else n for n in (gradient, image, weight)]
        if rows:
            operands = [_call(n, aten.unsqueeze.default, n, _ROWS) for n in operands]
        made = graph.call_function(_GRADIENTS, (*operands, bias, *how[:3], transposed, how[3], groups, mask))
        with torch.no_grad():
            value = _GRADIENTS(*torch.fx.map_arg(made.args, lambda n: n.meta["val"]))
        made.meta = {**_plain(node), "val": value}
        for user in list(node.users):
            result = _call(node, operator.getitem, made, user.args[1])
            wanted = mask[user.args[1]]
            if rows and wanted and user.args[1] < 2:
                result = _call(node, aten.squeeze.dim, result, _ROWS)
            if wanted and user.args[1] == 1 and weight.meta["val"].is_contiguous():
                result = _call(node, aten.clone.default, result, memory_format=torch.contiguous_format)
            user.replace_all_uses_with(result)
            graph.erase_node(user)
    graph.erase_node(node)


def _turned(node: Node) -> Node:
    """The tensor with channels last in memory."""
    rank = node.meta["val"].dim()
    if node.meta["val"].permute(_last(rank)).is_contiguous():  # as it is, as the weight of a window of one pixel, that lies either way
        return node
    turned = _call(node, aten.permute.default, node, _last(rank))
    turned = _call(node, aten.clone.default, turned, memory_format=torch.contiguous_format)
    return _call(node, aten.permute.default, turned, list(inverse(_last(rank))))


def _call(like: Node, target: Any, source: Node, *more: Any, **kwargs: Any) -> Node:
    made = like.graph.call_function(target, (source, *more), kwargs)
    with torch.no_grad():
        made.meta = {**_plain(like), "val": target(source.meta["val"], *more, **kwargs)}
    return made


def _plain(node: Node) -> dict[str, Any]:
    return {k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")}
