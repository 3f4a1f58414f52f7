"""Take a convolution's gradients apart: that of the weight first, then that of the input.

One call of torch's library gives both, one after the other, and so its input and the input's gradient are in memory at the same time, though only
the weight's gradient needs the one and only the other makes the other.  (Where they lie with channels last ``agreed_orders`` asks one call for both again.)
"""

import operator

import torch
from torch.fx import Graph, Node

from inferno.capture.nodes import apply
from inferno.capture.orders import example_bytes

aten = torch.ops.aten

# Another call takes the host 60 to 90 us, as long as an H200 takes for both gradients of so large an input: a CNN's step of 2.46 ms took 2.64 with two calls
# for inputs of 16 MiB, for a peak of 95 MiB instead of 105.
_LEAST_BYTES = 32 << 20


def split_convolution_gradients(graph: Graph) -> None:
    """Each call that gives the gradients of a large input and of a weight becomes two, the weight's (and bias') first."""
    for node in list(graph.find_nodes(op="call_function", target=aten.convolution_backward.default)):
        if _pays(node):
            _split(node)
    graph.lint()


def _pays(node: Node) -> bool:
    gradient, source, _, _, *_, mask = node.args
    tensors = [n.meta["val"] for n in (gradient, source)]
    if not mask[0] or not (mask[1] or mask[2]) or any(u.target is not operator.getitem for u in node.users):
        return False
    if any(not isinstance(s, int) for t in tensors for s in t.shape) or not tensors[0].numel():
        return False
    return tensors[1].is_contiguous() and tensors[0].dtype == tensors[1].dtype == node.args[2].meta["val"].dtype and example_bytes(tensors[1]) >= _LEAST_BYTES


def _split(node: Node) -> None:
    graph, value = node.graph, node.meta["val"]
    gradient, source, weight, bias, *how, mask = node.args
    with graph.inserting_before(node):
        # Of the input the other gradient only asks the shape.  (A view of the gradient would ask how that lies.)
        stand_in = weight
        for _ in weight.meta["val"].shape:
            stand_in = apply(stand_in, aten.select.int, 0, 0)
        stand_in = apply(stand_in, aten.expand.default, list(source.meta["val"].shape))
        for wanted in ([False, mask[1], mask[2]], [True, False, False]):
            call = graph.call_function(
                node.target, (gradient, stand_in if wanted[0] else source, weight, bias, *how, wanted))
            call.meta = {**node.meta, "val": tuple(v if w else None for v, w in zip(value, wanted))}
            for user in [u for u in node.users if wanted[u.args[1]]]:
                user.replace_input_with(node, call)
                call.append(user)
    for user in list(node.users):  # what is not asked for is None
        user.replace_all_uses_with(None)
        graph.erase_node(user)
    graph.erase_node(node)
