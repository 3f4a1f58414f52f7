"""What a training step keeps, and hands to torch's library, lies as convolutions have it: with channels last.

Kernels have a convolution's image and result with channels last, and what is elementwise between two of them.  Autograd traces them row-major, so the forward
would transpose what it keeps, and the backward transpose it back, or read it uncoalesced beside gradients that have channels last.  Only those two see it: the
forward keeps it as it is computed.  Nor does torch's library, for weights' gradients, want it row-major: its kernels for tensor cores turn that first.
"""

import operator
from collections.abc import Iterable, Iterator
from math import prod

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from inferno.capture.agreed_orders import agree_orders, takes_channels_last, with_pixels_outermost
from inferno.capture.nodes import apply, is_pointwise
from inferno.capture.orders import inverse, pixel_order
from inferno.capture.refusal import refusal

aten, prims = torch.ops.aten, torch.ops.prims

# Bytes of what is transposed in less than another launch takes.
_LEAST_BYTES = 1 << 20
_STEPS = 4  # elementwise operations until a batch norm's backward multiplies what was kept with a gradient
# What reads any order, beside what is elementwise; a view does not.
_READERS = {aten.convolution.default, aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.constant_pad_nd.default}
_IN_ORDER = {aten.view.default, aten.as_strided.default}  # an operation alone between two of the library's runs in eager, and follows its operand
_GRADIENTS = aten.convolution_backward.default


def keep_orders(forward: GraphModule, backward: GraphModule, count: int) -> None:
    """Rewrite both graphs, of which the first has ``count`` results of the program, and then those that the second gets by their names."""
    for module in (forward, backward):
        _drop_aliases(module.graph)
    kept = {n.name: n for n in backward.graph.find_nodes(op="placeholder")}
    (output,) = forward.graph.find_nodes(op="output")
    results, last = list(output.args[0]), channels_last(forward.graph)
    for i, node in enumerate(results[count:], count):
        if node in last and node not in results[:count] and _is_large(node) and node.name in kept and _may_turn(kept[node.name]):
            with forward.graph.inserting_before(output):
                results[i] = with_pixels_outermost(node)
            _transpose_back(backward.graph, kept[node.name])
    output.args = (tuple(results),) if isinstance(output.args[0], tuple) else (results,)
    for module in (forward, backward):
        _lay(module.graph)
        agree_orders(module.graph)
        module.graph.lint()
        module.recompile()


def _drop_aliases(graph: Graph) -> None:
    """Nothing in a graph writes to what it has made, so another name for it is none."""
    (output,) = graph.find_nodes(op="output")
    for node in graph.find_nodes(op="call_function", target=aten.alias.default):
        if node not in output.all_input_nodes:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def channels_last(graph: Graph) -> set[Node]:
    """The images that kernels have with channels last: of convolutions whose features are of several channels, and what elementwise operations connect
    with these.  Those between depthwise convolutions alone may be row-major."""
    parents: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while (above := parents.setdefault(node, node)) is not node:
            node = above
        return node

    for node in graph.nodes:
        for other in _connected(node):
            parents[root(other)] = root(node)
    wanted = {root(n) for n in graph.find_nodes(op="call_function", target=aten.convolution.default) if _is_dense(n) and _pixels(n) > 1}
    library = (n for n in graph.find_nodes(op="call_function", target=_GRADIENTS) if _is_dense(n))
    wanted |= {root(image) for n in library for image in n.args[:2]}
    return {n for n in parents if n.op == "call_function" and root(n) in wanted}


def _connected(node: Node) -> Iterator[Node]:
    """Operands that have the order of an operation's result."""
    if node.op != "call_function" or not _is_image(node):
        return
    if node.target is aten.convolution.default:
        yield from (n for n in node.args[:1] if _pixels(node) > 1)
    elif node.target is aten.cat.default:
        yield from node.all_input_nodes
    elif is_pointwise(node):
        yield from (n for n in node.all_input_nodes if _is_image(n) and n.meta["val"].shape == node.meta["val"].shape)


def _may_turn(node: Node) -> bool:
    """Whether what reads an input of the backward may have it in any order, and reads no gradient of a result beside it, which comes row-major: of both
    orders one is uncoalesced."""
    if not all(map(_reads_any, node.users)):
        return False
    near = {node}
    for _ in range(_STEPS):
        near = {u for n in near for u in n.users if is_pointwise(u)}
        if any(_is_large(n) and _is_given(n) for u in near for n in u.all_input_nodes):
            return False
    return True


def _is_given(node: Node) -> bool:
    """Whether it is the gradient of a result, maybe widened."""
    while node.target in (prims.convert_element_type.default, aten._to_copy.default):
        (node,) = node.all_input_nodes
    return node.op == "placeholder" and node.name.startswith("tangents")


def _is_image(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and 3 <= value.dim() <= 5 and all(isinstance(n, int) for n in value.shape)


def _pixels(node: Node) -> int:
    return prod(node.meta["val"].shape[2:]) if _is_image(node) else 0


def _is_dense(node: Node) -> bool:
    """Whether a convolution has features of several channels each, as has that of which the library's gradients are."""
    return takes_channels_last(node) if node.target is _GRADIENTS else node.args[1].meta["val"].shape[1] > 1 or node.args[8] == 1


def _is_large(node: Node) -> bool:
    """Whether transposing it takes a while, and it lies row-major."""
    if not _is_image(node):
        return False
    value = node.meta["val"]
    return value.is_contiguous() and value.shape[1] > 1 and _pixels(node) > 1 and value.numel() * value.element_size() >= _LEAST_BYTES


def _reads_any(user: Node) -> bool:
    """Whether what an operation makes does not depend on how its operands lie."""
    if user.target is _GRADIENTS:
        return _is_dense(user)
    known = user.op == "call_function" and (user.target in _READERS or (is_pointwise(user) and not any(u.target in _IN_ORDER for u in user.users)))
    return known and refusal(user) is None


def _transpose_back(graph: Graph, node: Node) -> None:
    """Let a graph get a tensor with its dimensions in the other order."""
    value = node.meta["val"]
    order = pixel_order(value.dim())
    (*_, last) = graph.find_nodes(op="placeholder")
    node.meta = {**node.meta, "val": value.permute(order).contiguous()}
    node.meta.pop("tensor_meta", None)
    with graph.inserting_after(last):
        view = apply(node, aten.permute.default, inverse(order))
    node.replace_all_uses_with(view, delete_user_cb=lambda user: user is not view)
    _learn(u for u in view.users if u.target is _GRADIENTS)


def _lay(graph: Graph) -> None:
    """Let what kernels have with channels last lie so between what is compiled and what the library does."""
    (output,) = graph.find_nodes(op="output")
    returned, laid = set(output.all_input_nodes), set()
    for node in channels_last(graph) - returned:
        made = node.target in (aten.convolution.default, aten.cat.default) or is_pointwise(node)
        if made and _is_large(node) and refusal(node) is None and all(map(_reads_any, node.users)):
            value = node.meta["val"]
            order = pixel_order(value.dim())
            node.meta["val"] = value.permute(order).contiguous().permute(inverse(order))
            node.meta.pop("tensor_meta", None)
            laid.add(node)
    _learn(n for n in graph.find_nodes(op="call_function", target=_GRADIENTS) if not laid.isdisjoint(n.args[:2]))


def _learn(nodes: Iterable[Node]) -> None:
    """How what the library makes lies in memory."""
    for node in list(nodes):
        with torch.no_grad():
            node.meta["val"] = node.target(*map_arg(node.args, lambda n: n.meta["val"]), **node.kwargs)
        for user in node.users:
            if user.target is operator.getitem:
                user.meta["val"] = node.meta["val"][user.args[1]]
