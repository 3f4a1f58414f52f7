"""Programs that write to tensors of their own, as programs that make new ones.

``x.add_(y)`` on a tensor that the program made, and that is read by no other name afterwards, is ``x.add(y)``.  Everything else that
is written to (arguments, parts of tensors that are read as a whole later) needs the bookkeeping that torch does.
"""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.fx.node import map_arg

aten = torch.ops.aten


def without_updates(graph: Graph) -> Graph | None:
    """``graph``, or a copy of it that writes to no tensor; None where that takes more than making a new one."""
    updates = [n for n in graph.nodes if isinstance(n.target, OpOverload) and n.target._schema.is_mutable]
    if not updates:
        return graph
    place = {n: i for i, n in enumerate(graph.nodes)}
    names: dict[int, list[Node]] = {}  # the nodes of each memory
    for node in graph.nodes:
        if isinstance(node.meta.get("val"), Tensor):
            names.setdefault(_memory(node), []).append(node)
        elif isinstance(node.meta.get("val"), (list, tuple)) and any(isinstance(v, Tensor) for v in node.meta["val"]):
            for part in node.meta["val"]:
                if isinstance(part, Tensor):
                    names.setdefault(part.untyped_storage()._cdata, []).append(node)
    instead: dict[Node, OpOverload] = {}
    for node in updates:
        if node.target is aten.detach_.default:  # it writes no element
            instead[node] = aten.detach.default
            continue
        functional = _functional(node)
        if functional is None:
            return None
        for other in names[_memory(node)]:
            if other.op == "placeholder":
                return None
            later = any(place[user] > place[node] for user in other.users)
            if place[other] < place[node] and other is not node.args[0] and later and not _is_same(other, node.args[0]):
                return None
        instead[node] = functional
    return _rewritten(graph, instead, names, place)


def _memory(node: Node) -> int:
    return node.meta["val"].untyped_storage()._cdata


def _functional(node: Node) -> OpOverload | None:
    """The operation that makes what ``node`` writes to its first argument, if it is of the same shape and type."""
    schema, written = node.target._schema, node.args[0] if node.args else None
    writes = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
    if not isinstance(written, Node) or writes.count(True) != 1 or not writes[0] or len(schema.returns) != 1:
        return None
    if not isinstance(written.meta.get("val"), Tensor) or not isinstance(node.meta.get("val"), Tensor):
        return None
    name = node.target.overloadpacket.__name__
    packet = getattr(getattr(torch.ops, node.target.namespace), name.removesuffix("_"), None) if name.endswith("_") else None
    functional = getattr(packet, node.target._overloadname, None)
    if functional is None or functional._schema.is_mutable:
        return None
    if [a.name for a in functional._schema.arguments[1:]] != [a.name for a in schema.arguments[1:]]:
        return None
    values = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with written.meta["val"].fake_mode:
        made = functional(*values[0], **values[1])
    old = written.meta["val"]
    return functional if isinstance(made, Tensor) and made.dtype == old.dtype and made.shape == old.shape else None


def _is_same(a: Node, b: Node) -> bool:
    x, y = a.meta["val"], b.meta["val"]
    return (
        isinstance(x, Tensor) and x.shape == y.shape and x.stride() == y.stride() and x.storage_offset() == y.storage_offset()
        and x.dtype == y.dtype
    )


def _rewritten(graph: Graph, instead: dict[Node, OpOverload], names: dict[int, list[Node]], place: dict[Node, int]) -> Graph:
    copied = Graph()
    now: dict[Node, Any] = {}
    for node in graph.nodes:
        now[node] = made = copied.node_copy(node, now.__getitem__)
        made.name = node.name
        if node in instead:
            made.target = instead[node]
            for other in names[_memory(node)]:
                if place[other] < place[node] and _is_same(other, node.args[0]):
                    now[other] = made
    return copied
