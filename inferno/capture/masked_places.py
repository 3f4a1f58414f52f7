"""``x[torch.where(m)]`` is ``x[m]``: what is picked, or written, at all the places of a mask, by the mask itself.

How many places there are depends on the data, so ``nonzero`` and whatever is computed of the places would run in eager; a mask is a choice between
wholes for what is written (``decompositions/masks.py``), and for what is picked if the rest allows it (``masked_parts.py``).
"""

import operator
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture.nodes import call_beside, value_meta
from inferno.capture.overlapping_writes import memory, written

aten = torch.ops.aten
_COLUMNS = aten.where.default, aten.nonzero_numpy.default  # which give each dimension's places by themselves
_PLACES = (*_COLUMNS, aten.nonzero.default, aten.argwhere.default)
_TURNS = aten.t.default, aten.numpy_T.default, aten.mT.default  # of a matrix that argwhere gives
_PICKS = aten.index.Tensor, aten.index_select.default
_PUTS = aten.index_put_.default, aten.index_put.default
_FILLS = aten.index_fill_.int_Scalar, aten.index_fill.int_Scalar


def index_by_masks(graph: Graph) -> None:
    """Rewrite torch.export's ``graph`` in place."""
    for node in [n for n in graph.nodes if n.target in _PLACES]:
        source = node.args[0]
        value = source.meta.get("val")
        if not isinstance(value, Tensor) or not value.dim() or any(type(n) is not int for n in value.shape):
            continue
        columns, between = _columns(node, value.dim())
        users = sorted({user for column in columns for user in column.users if _masked(user, columns, value.shape) is not None})
        if users:
            mask = _mask(graph, node, users[-1])
            for user in users:
                _replace(graph, user, columns, mask)
            _count(graph, [node, *between], columns, mask)


def _columns(places: Node, rank: int) -> tuple[dict[Node, int], list[Node]]:
    """The nodes that are the places along each of a mask's dimensions, and those between ``places`` and them."""
    found, between, todo = {}, [], list(places.users)
    while todo:
        node = todo.pop()
        along = 1 if node.args[0] is places else 0  # a turned matrix has the dimensions in front
        if places.target in _COLUMNS:
            if node.target is operator.getitem:
                found[node] = node.args[1] % rank
        elif node.target is aten.select.int and node.args[1] % 2 == along:
            found[node] = node.args[2] % rank
        elif node.target is aten.unbind.int and (node.args[1] if len(node.args) > 1 else 0) % 2 == along:
            between.append(node)
            found.update((n, n.args[1]) for n in node.users)
        elif along and _turns(node):
            between.append(node)
            todo += node.users
        elif along and rank == 1 and _drops_last(node):
            found[node] = 0
    return found, between


def _turns(node: Node) -> bool:
    """Whether of a matrix it makes the transposed one."""
    if node.target is aten.transpose.int:
        return (node.args[1] - node.args[2]) % 2 == 1
    return node.target in _TURNS or (node.target is aten.permute.default and node.args[1][0] % 2 == 1)


def _drops_last(node: Node) -> bool:
    """Whether of a matrix of one column it makes a vector."""
    if node.target is aten.squeeze.dim:
        return node.args[1] in (1, -1)
    return node.target in (aten.flatten.using_ints, aten.view.default, aten.reshape.default) and node.meta["val"].dim() == 1


def _masked(user: Node, columns: dict[Node, int], shape: torch.Size) -> list[Node | None] | None:
    """The places of what a node picks or writes, up to the mask's; None where they are not all of one mask's, and no others."""
    if user.target is aten.index.Tensor or (user.target in _PUTS and not user.kwargs):
        entries = list(user.args[1])
        while entries and entries[-1] is None:
            entries.pop()
    elif user.target is aten.index_select.default or user.target in _FILLS:
        x, dim = user.args[0].meta["val"], user.args[1]
        entries = [None] * (dim % max(1, x.dim())) + [user.args[2]]
    else:
        return None
    first = next((n for n, e in enumerate(entries) if e is not None), 0)
    picked = entries[first:]
    if [columns.get(e) for e in picked] != list(range(len(shape))) or any(n in columns for n in (user.args[0], *user.args[2:3]) if user.target in _PUTS):
        return None
    sizes = user.args[0].meta["val"].shape[first:first + len(shape)]
    if any(type(n) is not int for n in sizes) or tuple(sizes) != tuple(shape):
        return None  # the tensor is larger than the mask
    if first and (user.target in _PICKS or (user.target in _PUTS and any(type(n) is not int for n in user.args[2].meta["val"].shape))):
        return None  # parts along other dimensions than the first ones are not computed as wholes
    return entries[:first]


def _mask(graph: Graph, places: Node, last: Node) -> Node:
    """The mask as it is where its places are looked for."""
    source = places.args[0]
    with graph.inserting_before(places):
        if source.meta["val"].dtype != torch.bool:
            return call_beside(source, aten.ne.Scalar, source, 0)
        node, own = places, memory(source)
        while node is not last:
            node = node.next
            if any(memory(n) == own for n in written(node)):
                return call_beside(source, aten.clone.default, source)
    return source


def _replace(graph: Graph, user: Node, columns: dict[Node, int], mask: Node) -> None:
    entries = [*_masked(user, columns, mask.meta["val"].shape), mask]
    if user.target is aten.index_select.default:
        user.target, user.args = aten.index.Tensor, (user.args[0], entries)
    elif user.target in _FILLS:
        x, value = user.args[0], user.args[3]
        with graph.inserting_before(user):
            filled = call_beside(user, aten.full.default, [], value, dtype=x.meta["val"].dtype, device=x.meta["val"].device)
        user.target, user.args = _PUTS[_FILLS.index(user.target)], (x, entries, filled)
    else:
        user.args = (user.args[0], entries, *user.args[2:])


def _count(graph: Graph, places: Sequence[Node], columns: dict[Node, int], mask: Node) -> None:
    """What else is asked of the places, if it is only how many there are, is asked of what the mask picks of itself; then they are not needed."""
    own, sizes = {*places, *columns}, []
    for user in [u for node in own for u in node.users if u not in own]:
        if user.target is not aten.sym_size.int or (user.args[1] != 0 and user.args[0] not in columns) or user.args[0] in places[1:]:
            return
        sizes.append(user)
    if sizes:
        column, first = next(iter(columns)), min(sizes)
        with graph.inserting_before(first):
            picked = graph.call_function(aten.index.Tensor, (mask, [mask]))
            picked.meta = value_meta(column, torch.empty_like(column.meta["val"], dtype=torch.bool))
            size = graph.call_function(aten.sym_size.int, (picked, 0))
            size.meta = dict(first.meta)
        for node in sizes:
            node.replace_all_uses_with(size)
            graph.erase_node(node)
    for node in sorted(own, reverse=True):
        graph.erase_node(node)
