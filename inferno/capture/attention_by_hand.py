"""Attention that a program writes by hand, where it is trained: two products with a softmax between them become the operation that
``scaled_dot_product_attention`` is, which leaves neither weights nor what dropout keeps in memory.

That is done in the graph that Dynamo captures, where a dropout is still one call.  Only where nothing else reads what lies between the products, scores are
multiplied by a number and hidden by -inf at most, and nothing is written to meanwhile.  A row of which all is hidden is NaN as softmax has it, and so are
gradients of all keys that it might have seen: what hides has to be a tensor of the program's, not computed of numbers, of which kernels skip blocks.
Where the operation is not taken, the program's own calls stand.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from inferno.capture.trained_attention import trained_attention

F = torch.nn.functional

_PRODUCTS = {torch.matmul, operator.matmul, "matmul", "__matmul__"}
_SOFTMAX = {torch.softmax, F.softmax, "softmax"}
_CASTS = {"to", "type", "type_as", "float", "half", "bfloat16"}
_HIDE = {torch.masked_fill, "masked_fill"}
_TIMES, _BY = {operator.mul, torch.mul, "mul", "__mul__"}, {operator.truediv, torch.div, "div", "__truediv__"}
_COMPARES = {
    operator.getitem, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.invert, torch.logical_not,
    "eq", "ne", "logical_not", "bool", "to", "unsqueeze", "view",
}
_WRITES = {operator.setitem, *(getattr(operator, n) for n in ("iadd", "isub", "imul", "itruediv", "imatmul", "iand", "ior", "ixor", "ifloordiv", "ipow"))}


@dataclass
class _ByHand:
    """``calls`` from the last product to the first one; what they take: queries, keys with rows innermost, values, and what is hidden, if anything is."""

    calls: list[Node] = field(default_factory=list)
    dropped: float = 0.0
    scale: float = 1.0
    hidden: Node | None = None
    operands: tuple[Node, ...] = ()


def join_attention(graph: Graph) -> None:
    """Rewrite ``graph``, one that Dynamo captured, in place."""
    for last in [n for n in graph.nodes if _is(n, _PRODUCTS)]:
        found = _read(last)
        if found is not None and not _is_written_between(graph, found.calls[-1], last):
            _replace(graph, found)


def _read(last: Node) -> _ByHand | None:
    """The attention that a product is the end of."""
    pair = _pair(last)
    if pair is None:
        return None
    node, values = pair
    found = _ByHand([last])

    def take(*names: Any) -> bool:
        return len(node.users) == 1 and _is(node, {n for group in names for n in group})

    if take({F.dropout}):
        given = dict(zip(("input", "p", "training", "inplace"), node.args), **node.kwargs)
        if given.get("inplace", False) is not False or not isinstance(given.get("p", 0.5), float | int) or not isinstance(given.get("training", True), bool):
            return None
        found.dropped = float(given.get("p", 0.5)) if given.get("training", True) else 0.0
        node = _next(found, node)
    node = _uncast(found, node)
    if node is None or not take(_SOFTMAX) or not _is_of_rows(node):
        return None
    node = _uncast(found, _next(found, node))
    if node is not None and take(_HIDE):
        if len(node.args) != 3 or node.kwargs or not _is_given(node.args[1]) or node.args[2] != -math.inf:
            return None
        found.hidden = node.args[1]
        node = _next(found, node)
    if node is not None and take(_TIMES, _BY):
        factor = node.args[1] if len(node.args) == 2 and not node.kwargs else None
        if not isinstance(factor, float | int) or not 0 < factor < math.inf:
            return None
        found.scale = float(factor) if _is(node, _TIMES) else 1 / factor
        node = _next(found, node)
    pair = _pair(node) if node is not None and take(_PRODUCTS) else None
    if pair is None:
        return None
    found.calls.append(node)
    found.operands = (*pair, values, *(() if found.hidden is None else (found.hidden,)))
    tensors = [_value(n) for n in found.operands]
    inside = {*found.calls, *found.operands}
    if any(t is None or t.dim() != 4 for t in tensors[:3]) or any(n not in inside for call in found.calls for n in call.all_input_nodes):
        return None
    q, k, v = tensors[:3]
    if len({t.dtype for t in (q, k, v)}) != 1 or _value(last).dtype != q.dtype or not q.shape[:2] == k.shape[:2] == v.shape[:2]:
        return None
    return found


def _next(found: _ByHand, node: Node) -> Node | None:
    """What a call that belongs to it is computed of."""
    found.calls.append(node)
    return node.args[0] if node.args and isinstance(node.args[0], Node) else None


def _uncast(found: _ByHand, node: Node | None) -> Node | None:
    while node is not None and len(node.users) == 1 and node.op == "call_method" and node.target in _CASTS:
        source = _value(node.args[0]) if isinstance(node.args[0], Node) else None
        if source is None or source.device != _value(node).device or not _value(node).is_floating_point():
            return None
        node = _next(found, node)
    return node


def _is_of_rows(node: Node) -> bool:
    """Whether a softmax is along the last dimension, in its operand's type or float32."""
    given = dict(zip(("input", "dim", "_stacklevel" if node.target is F.softmax else "dtype"), node.args), **node.kwargs)
    return given.get("dim") in (-1, 3) and given.get("dtype") in (None, torch.float32) and len(node.args) <= 2


def _pair(node: Node) -> tuple[Node, Node] | None:
    """The factors of a product."""
    whole = len(node.args) == 2 and not node.kwargs and all(isinstance(a, Node) for a in node.args)
    return tuple(node.args) if whole and _value(node) is not None else None


def _is(node: Node, targets: set) -> bool:
    return isinstance(node, Node) and node.op in ("call_function", "call_method") and node.target in targets


def _value(node: Node) -> torch.Tensor | None:
    value = node.meta.get("example_value")
    return value if isinstance(value, torch.Tensor) else None


def _is_written_between(graph: Graph, first: Node, last: Node) -> bool:
    """Whether anything between may write to a tensor."""
    nodes = list(graph.nodes)
    for node in nodes[nodes.index(first):nodes.index(last)]:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if node.op not in ("call_function", "call_method", "placeholder", "get_attr") or node.target in _WRITES or "out" in node.kwargs:
            return True
        if (name.endswith("_") and not name.endswith("__")) or node.kwargs.get("inplace", False) is not False:
            return True
    return False


def _is_given(node: Any) -> bool:
    """Whether bools are a tensor of the program's, or are read or compared of one."""
    if not isinstance(node, Node) or _value(node) is None or _value(node).dtype != torch.bool:
        return False
    while _is(node, _COMPARES) and node.all_input_nodes == [node.args[0]]:
        node = node.args[0]
    return node.op in ("placeholder", "get_attr")


def _replace(graph: Graph, found: _ByHand) -> None:
    last = found.calls[0]
    with graph.inserting_before(last):
        new = graph.call_function(_function(found), found.operands)
    new.meta = dict(last.meta)
    last.replace_all_uses_with(new)
    for call in found.calls:
        graph.erase_node(call)


def _function(found: _ByHand) -> Callable:
    """Of the operands: the operation, or the program's own calls where it is not taken."""
    own = Graph()
    known = {n: own.placeholder(f"operand{i}") for i, n in enumerate(found.operands)}
    for call in reversed(found.calls):
        known[call] = own.node_copy(call, known.__getitem__)
    own.output(known[found.calls[0]])
    calls, dropped, scale = GraphModule(torch.nn.Module(), own), found.dropped, found.scale

    def attention_by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *hidden: torch.Tensor) -> torch.Tensor:
        mask = ~hidden[0] if hidden else None
        made = trained_attention(q, k.transpose(-2, -1), v, mask, dropped, scale=scale, empty=False)
        return calls(q, k, v, *hidden) if made is NotImplemented else made

    return attention_by_hand
