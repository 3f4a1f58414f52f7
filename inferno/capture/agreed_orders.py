"""Give the library's gradients of a convolution all operands in one memory format: channels last, where one of them is.

Of mixed formats the library copies the row-major tensors, at a third of a copy's rate.  Of one-dimensional convolutions it copies the others, and cuDNN
transposes them back: it computes these as convolutions of an image of one row, which may have channels last.
"""

import operator

import torch
from torch.fx import Graph, Node

from inferno.capture.nodes import apply
from inferno.capture.orders import inverse, pixel_order

aten = torch.ops.aten

_GRADIENTS = aten.convolution_backward.default
_ROWS = 2  # the dimension of an image of one row that a sequence does not have


@torch.no_grad()
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
    return known and not value.is_contiguous() and value.permute(pixel_order(value.dim())).is_contiguous()


def _rewrite(node: Node, read: list[Node]) -> None:
    graph, (gradient, image, weight, bias, stride, padding, dilation, transposed, rest, groups, mask) = node.graph, node.args
    rows = [1, 0, 1, 0] if weight.meta["val"].dim() == 3 else None
    how = [[first, *given] if rows else given for first, given in zip(rows or [0] * 4, (stride, padding, dilation, rest))]
    with graph.inserting_before(node):
        operands = [_with_channels_last(n) if n in read or n is weight else n for n in (gradient, image, weight)]
        if rows:
            operands = [apply(n, aten.unsqueeze.default, _ROWS) for n in operands]
        made = graph.call_function(_GRADIENTS, (*operands, bias, *how[:3], transposed, how[3], groups, mask))
        made.meta = {**node.meta, "val": _GRADIENTS(*torch.fx.map_arg(made.args, lambda n: n.meta["val"]))}
        made.meta.pop("tensor_meta", None)
        for user in list(node.users):
            result = apply(made, operator.getitem, user.args[1])
            wanted = mask[user.args[1]]
            if rows and wanted and user.args[1] < 2:
                result = apply(result, aten.squeeze.dim, _ROWS)
            if wanted and user.args[1] == 1 and weight.meta["val"].is_contiguous():
                result = apply(result, aten.clone.default, memory_format=torch.contiguous_format)
            user.replace_all_uses_with(result)
            graph.erase_node(user)
    graph.erase_node(node)


def with_pixels_outermost(node: Node) -> Node:
    """A copy with the channels as the innermost dimension."""
    return apply(apply(node, aten.permute.default, pixel_order(node.meta["val"].dim())), aten.clone.default, memory_format=torch.contiguous_format)


def _with_channels_last(node: Node) -> Node:
    """The tensor with channels last in memory."""
    order = pixel_order(node.meta["val"].dim())
    if node.meta["val"].permute(order).is_contiguous():  # as it is, as the weight of a window of one pixel, that lies either way
        return node
    return apply(with_pixels_outermost(node), aten.permute.default, inverse(order))
