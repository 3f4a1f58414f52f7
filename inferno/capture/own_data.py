"""``p.data *= mask``: Python reads ``p.data``, writes to it in place, and assigns it to ``p.data``, which it is already.

Dynamo's graph has the last step as ``set_``, which AOTAutograd does not take beside other changes of a parameter.  So a PixelCNN masks its kernels.
"""

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

_DATA = torch._C._autograd._get_data_attr
_SET = torch.Tensor.set_
_IN_PLACE = {
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow, operator.iand, operator.ior,
    operator.ixor,
}
# Methods that leave a tensor where it is in memory in another shape, or elsewhere.
_LIES_OTHERWISE = {
    "set_", "resize_", "resize_as_", "as_strided_", "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "requires_grad_", "detach_",
}


def drop_own_data(graph: Graph) -> None:
    """Take such steps out of ``graph``, in place."""
    for node in [n for n in graph.nodes if sets_data(n)]:
        if node.kwargs or len(node.args) != 2 or _written(node.args[1]) is not node.args[0]:
            continue
        for user in list(node.users):
            if getattr(user.target, "__name__", "") == "_lower_version_count_by_1" and not user.users:
                graph.erase_node(user)
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)


def sets_data(node: Node) -> bool:
    """Whether a tensor is given another's memory."""
    return node.op == "call_function" and node.target is _SET


def sets_as_it_lies(node: Node) -> bool:
    """Whether the tensor lies in the other memory as it did in its own; of another layout AOTAutograd loses track."""
    into, value = node.args[0], node.args[1].meta.get("example_value") if len(node.args) == 2 else None
    held = into.meta.get("grapharg")  # its fake tensor was given the memory already
    own = held.example if held is not None else None
    if not isinstance(own, torch.Tensor) or not isinstance(value, torch.Tensor):
        return False
    return (own.shape, own.stride(), own.storage_offset()) == (value.shape, value.stride(), value.storage_offset())


def _written(value: Any) -> Node | None:
    """The tensor whose ``.data`` this is, after writing into it."""
    while isinstance(value, Node) and writes(value):
        value = value.args[0]
    return value.args[0] if isinstance(value, Node) and value.op == "call_function" and value.target is _DATA else None


def writes(node: Node) -> bool:
    """Whether a method, a function or an operator of Python's writes to its first argument."""
    if node.op == "call_method":
        return writes_by_name(node.target)
    if node.op != "call_function":
        return False
    name = getattr(node.target, "__name__", "")
    # ``operator.and_`` is spelled so because ``and`` is a word of Python's.
    return node.target in _IN_PLACE or (writes_by_name(name) and getattr(operator, name, None) is not node.target)


def writes_by_name(name: str) -> bool:
    """Whether torch writes to the first argument of what has this name, and leaves it as it lies."""
    return name.endswith("_") and not name.endswith("__") and name not in _LIES_OTHERWISE
