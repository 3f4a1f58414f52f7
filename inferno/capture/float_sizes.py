"""Floats that are computed of sizes, such as a picture's scale or one over a length, as tensors without dimensions.

The import knows sizes as integers alone: what multiplies by ``h / 7``, or by ``n ** -0.5``, would be left to eager.
"""

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from inferno.capture.nodes import call_beside

aten = torch.ops.aten

# The operations on tensors that give what those on numbers give.
_AS_TENSORS = {
    operator.truediv: aten.div.Tensor, operator.mul: aten.mul.Tensor, operator.add: aten.add.Tensor, operator.sub: aten.sub.Tensor,
    operator.pow: aten.pow.Tensor_Scalar, pow: aten.pow.Tensor_Scalar, torch.sym_float: None,
}
# What multiplies a tensor by a number, and by a tensor without dimensions.
_READERS = {getattr(getattr(aten, name), kind): getattr(aten, name).Tensor for name in ("add", "sub", "mul", "div") for kind in ("Tensor", "Scalar")}
_COMPARISONS = {getattr(aten, name).Scalar: getattr(aten, name).Tensor for name in ("lt", "le", "gt", "ge", "eq", "ne")}
_WITH_TENSORS = {**_READERS, **_COMPARISONS}
# What is full of a number, and which argument that is.
_FULL = {aten.scalar_tensor.default: 0, aten.full.default: 1, aten.full_like.default: 1}
_WIDE = (torch.float32, torch.float64)  # in 16 bits the tensor would be rounded before it is used, and the number is not


def make_tensors_of_floats(graph: Graph) -> None:
    """Rewrite ``graph`` in place: arithmetic on tensors of float32 and float64 with floats of sizes is with float64 tensors that hold them, and what is
    full of such a float is made of one."""
    made: dict[Node, Node] = {}
    for node in list(graph.nodes):
        if node.target in _FULL:
            _fill(graph, node, made)
            continue
        target = _WITH_TENSORS.get(node.target)
        if target is None or len(node.args) != 2 or node.kwargs or not _is_float_of_sizes(node.args[1]) or not isinstance(node.args[0], Node):
            continue
        x, value = node.args[0], node.meta["val"]
        if not (_is_wide(x) if node.target in _COMPARISONS else _is_wide(node) and (_is_wide(x) or not x.meta["val"].is_floating_point())):
            continue
        with value.fake_mode:
            number = _tensor(graph, node.args[1], value.device, made)
        if not _is_wide(x):  # whole numbers
            with graph.inserting_before(node):
                x = call_beside(node, aten._to_copy.default, x, dtype=value.dtype)
        node.target, node.args = target, (x, number)
    if made:
        graph.eliminate_dead_code()


def _fill(graph: Graph, node: Node, made: dict[Node, Node]) -> None:
    number, value = node.args[_FULL[node.target]], node.meta["val"]
    if not _is_float_of_sizes(number) or not value.dtype.is_floating_point:
        return
    with value.fake_mode:
        found = _tensor(graph, number, value.device, made)
    with graph.inserting_before(node):
        if value.dtype != torch.float64:
            found = call_beside(node, aten._to_copy.default, found, dtype=value.dtype)
        if node.target is not aten.scalar_tensor.default:
            ones = call_beside(node, node.target, node.args[0], 1.0, **{**node.kwargs, "dtype": value.dtype})
            found = call_beside(node, aten.mul.Tensor, ones, found)
    node.replace_all_uses_with(found)
    graph.erase_node(node)


def _is_float_of_sizes(number: Any) -> bool:
    return isinstance(number, Node) and isinstance(number.meta.get("val"), torch.SymFloat) and _is_known(number)


def _is_wide(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dtype in _WIDE


def _is_known(value: Any) -> bool:
    """Whether a number is made by these operations of sizes."""
    if not isinstance(value, Node):
        return isinstance(value, (int, float))
    if isinstance(value.meta.get("val"), torch.SymInt):
        return True
    if value.target not in _AS_TENSORS or not all(map(_is_known, value.args)):
        return False
    return _AS_TENSORS[value.target] is not aten.pow.Tensor_Scalar or (isinstance(value.args[0], Node) and isinstance(value.args[1], (int, float)))


def _tensor(graph: Graph, value: Node, device: torch.device, made: dict[Node, Node]) -> Node:
    """The node of a float64 tensor that holds the number, behind the node that computes it."""
    if value not in made:
        if isinstance(value.meta["val"], torch.SymInt) or _AS_TENSORS[value.target] is None:
            size = value if isinstance(value.meta["val"], torch.SymInt) else value.args[0]
            target, args, kwargs = aten.full.default, ([], size), {"dtype": torch.float64, "device": device}
        else:
            first, second = (_tensor(graph, v, device, made) if isinstance(v, Node) else v for v in value.args)
            if not isinstance(first, Node):
                with graph.inserting_after(second):
                    whole = graph.call_function(aten.full.default, ([], first), {"dtype": torch.float64, "device": device})
                whole.meta = {"val": torch.empty((), dtype=torch.float64, device=device)}
                second.append(whole)
                first = whole
            target, args, kwargs = _AS_TENSORS[value.target], (first, second), {}
        last = max((value, *(a for a in args if isinstance(a, Node))))
        with graph.inserting_after(last):
            made[value] = graph.call_function(target, args, kwargs)
        made[value].meta = {**{k: v for k, v in value.meta.items() if k != "val"}, "val": torch.empty((), dtype=torch.float64, device=device)}
    return made[value]
