"""``x[i]`` where a tensor of one number says the place, as a sampler reads the table of its steps (``alphas[t]``).

Eager reads the number, and takes a view.  AOTAutograd has no number to read, and torch.export's graph would read it on the host at every call.  Here the
part is taken by an index, which makes a copy; so it is where nobody can tell: nothing is written to the view, nor to what it is a view of while it is
read, and no result shares its memory.  A part that is changed and put back (``x[i] += 1``) is one of these.
"""

import operator
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves, tree_map_only

from inferno.capture.nodes import call_beside
from inferno.capture.overlapping_writes import value_key, written
from inferno.capture.scalar_places import INTEGERS, is_told

aten = torch.ops.aten
_ITEMS = aten.item.default, aten._local_scalar_dense.default


def take_at(x: Tensor, key: Any) -> Tensor:
    """``x[key]``, of which integer tensors of no dimension are taken one after the other, and then what else the key says; NotImplemented where there is
    none of these."""
    entries = list(key) if isinstance(key, tuple) else [key]
    places = [n for n, entry in enumerate(entries) if _is_place(entry)]
    if not places or any(is_told(entries[n]) for n in places) or not all(map(_is_understood, entries)):
        return NotImplemented
    counted = sum(map(_counted, entries))
    for n in reversed(places):
        before = entries[:n]
        dim = sum(x.dim() - counted if e is Ellipsis else _counted(e) for e in before)
        x = _taken(x, dim, entries.pop(n))
        counted -= 1
    return x[tuple(entries)] if entries else x


def _is_place(entry: Any) -> bool:
    return isinstance(entry, Tensor) and not entry.dim() and entry.dtype in INTEGERS


def _is_understood(entry: Any) -> bool:
    return entry is None or entry is Ellipsis or (isinstance(entry, Tensor | slice | int | torch.SymInt) and not isinstance(entry, bool))


def _counted(entry: Any) -> int:
    """Dimensions of a tensor that an entry of a key stands for."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.dim() if isinstance(entry, Tensor) and entry.dtype in (torch.bool, torch.uint8) else 1


def _taken(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """A copy that lies as one of the view would."""
    found = x[(*[slice(None)] * dim, index.reshape(1).long())].select(dim, 0)
    steps = torch.empty_like(x.select(dim, 0)).stride() if x.shape[dim] else ()
    if all(type(n) is int for n in (*steps, *found.stride())) and steps != found.stride() and steps:
        order = sorted(range(len(steps)), key=lambda d: -steps[d])
        found = found.permute(order).contiguous().permute([order.index(d) for d in range(len(order))])
    return found


def take_places(graph: Graph) -> None:
    """Of a graph that Dynamo captured, in place: reads of such places."""
    for node in graph.nodes:
        if node.op != "call_function" or node.target is not operator.getitem or not isinstance(_value(node), Tensor):
            continue
        entries = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
        if any(isinstance(e, Node) and _is_place(_value(e)) for e in entries) and (views := _copied_views(node)) is not None:
            node.target = _getitem
            for view in views:
                key = value_key(view)
                view.meta[key] = tree_map_only(Tensor, _elsewhere, view.meta[key])


def _getitem(x: Any, key: Any) -> Any:
    found = take_at(x, key)
    return x[key] if found is NotImplemented else found


def _elsewhere(value: Tensor) -> Tensor:
    with value.fake_mode, torch.no_grad():
        return torch.empty_like(value)


def take_items(graph: Graph) -> None:
    """Of torch.export's graph, in place: ``select`` at a number that is read of a tensor."""
    for node in list(graph.nodes):
        if node.target is not aten.select.int or not isinstance(item := node.args[2], Node) or item.target not in _ITEMS:
            continue
        x, dim, index = node.args[0], node.args[1] % _value(node.args[0]).dim(), item.args[0]
        if not isinstance(index, Node) or not _is_place(_value(index)) or _copied_views(node) is None:
            continue
        with graph.inserting_before(node):
            place = call_beside(node, aten.reshape.default, index, [1])
            if _value(place).dtype != torch.int64:
                place = call_beside(node, aten.to.dtype, place, torch.int64)
            parts = call_beside(node, aten.index.Tensor, x, [*[None] * dim, place])
            part = call_beside(node, aten.squeeze.dim, parts, dim)
        taken = _value(part).stride() == torch.empty_like(_value(node)).stride()
        if taken:
            node.replace_all_uses_with(part)
        for unread in (node, item) if taken else (part, parts, place, *place.all_input_nodes):
            if not unread.users and unread is not index:
                graph.erase_node(unread)


def _copied_views(node: Node) -> list[Node] | None:
    """What reads a view's memory through the view, itself first; None where a copy in its place would not do the same."""
    shared = {_memory(node.args[0]), _memory(node)}
    if None in shared:
        return None
    views, put_back, last, output = [node], set(), node, None
    for at in views:
        for user in at.users:
            last = max(last, user)
            if user.op == "output":
                output = user
                continue
            if isinstance(user.target, torch._ops.HigherOrderOperator):  # which may write to it
                return None
            if at in written(user):
                behind = user.next
                if at is not node or not _puts_back(behind, user, node):
                    return None
                put_back.add(behind)
            if user not in views and user not in put_back and _memories(user) & shared:
                views.append(user)
    for other in node.graph.nodes:
        if node < other < last and other not in put_back and any(_memory(n) in shared and n not in views for n in written(other)):
            return None
    if output is not None:
        others: list[Node] = []
        map_arg(output.args, others.append)
        held = [n for n in node.graph.nodes if n.op in ("placeholder", "get_attr")]
        if any(_memories(n) & shared for n in (*held, *others) if n not in views):
            return None
    return views


def _puts_back(node: Node, changed: Node, part: Node) -> bool:
    """Whether ``x[i] = changed`` is of the place that ``part`` was taken from."""
    if node.target is not operator.setitem or part.target is not operator.getitem:
        return False
    return node.args[0] is part.args[0] and node.args[1] == part.args[1] and node.args[2] in (changed, part)


def _value(node: Node) -> Any:
    return node.meta.get(value_key(node))


def _memory(node: Node) -> int | None:
    return next(iter(_memories(node)), None)


def _memories(node: Node) -> set[int]:
    return {v.untyped_storage()._cdata for v in tree_leaves(_value(node)) if isinstance(v, Tensor) and v.layout is torch.strided}
