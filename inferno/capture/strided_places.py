"""``as_strided`` of what the graph itself makes, whose places in memory are numbers that are known: each element is read at its place in the flat tensor.

So are the overlapping windows of a Longformer's keys taken.  How a caller's tensor lies in memory is another thing in another call, and what is returned
stays a view of what it is a view of.
"""

import functools
import operator
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.fx import Graph, Node

from inferno.capture.nodes import call_beside
from inferno.capture.partition import is_view

aten = torch.ops.aten


def read_strided(graph: Graph) -> None:
    """Rewrite them in ``graph``, in place."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not aten.as_strided.default or node.kwargs or _is_returned(node):
            continue
        base = _made(node.args[0])
        if base is not None and is_dense(base.meta["val"]) and reaches(node.meta["val"], base.meta["val"]):
            with graph.inserting_before(node):
                node.replace_all_uses_with(_read(base, node))
            graph.erase_node(node)


def _is_returned(node: Node) -> bool:
    return any(u.op == "output" or (_is_view(u) and _is_returned(u)) for u in node.users)


def _is_view(node: Node) -> bool:
    return is_view(node.args[0] if node.target is operator.getitem else node)


def _made(node: Node) -> Node | None:
    """The operation whose new tensor ``node`` is a view of."""
    while _is_view(node):
        before = node.args[0]
        node = before.args[0] if node.target is operator.getitem else before
    value = node.meta.get("val")
    return node if node.op == "call_function" and isinstance(value, FakeTensor) else None


def memory_order(value: Tensor) -> list[int]:
    """The dimensions in their order in memory."""
    return order_of(value.shape, value.stride())


def order_of(size: Sequence[int], stride: Sequence[int]) -> list[int]:
    """The same of a tensor of this size and these strides."""
    return sorted(range(len(size)), key=lambda i: (stride[i], size[i] != 1), reverse=True)


def is_dense(value: Tensor) -> bool:
    """Whether a tensor begins its memory, and fills it without gaps in some order of its dimensions."""
    if any(not isinstance(n, int) for n in (*value.shape, *value.stride(), value.storage_offset())) or value.is_conj() or value.is_neg():
        return False
    return value.storage_offset() == 0 and value.permute(memory_order(value)).is_contiguous()


def reaches(value: Tensor, base: Tensor) -> bool:
    """Whether all elements of the view are the base's."""
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    if any(not isinstance(n, int) for n in numbers) or value.dtype != base.dtype or value.is_conj() or value.is_neg() or not value.numel():
        return False
    return value.storage_offset() + sum((n - 1) * s for n, s in zip(value.shape, value.stride())) < base.numel()


def _read(base: Node, node: Node) -> Node:
    """The elements of ``base`` that ``node`` has."""
    value, whole = node.meta["val"], base.meta["val"]
    call = functools.partial(call_beside, node)
    flat = call(aten.view.default, call(aten.permute.default, base, memory_order(whole)), [whole.numel()])
    ones, places = [1] * value.dim(), None
    for i, (count, step) in enumerate(zip(value.shape, value.stride())):
        if count > 1 and step:
            line = call(aten.arange.start_step, 0, count * step, step, dtype=torch.int64, device=whole.device, pin_memory=False)
            line = call(aten.view.default, line, [*ones[:i], count, *ones[i + 1 :]])
            places = line if places is None else call(aten.add.Tensor, places, line)
    if places is None:
        begin = call(aten.slice.Tensor, flat, 0, value.storage_offset(), value.storage_offset() + 1)
        return call(aten.expand.default, call(aten.view.default, begin, ones), list(value.shape))
    if value.storage_offset():
        places = call(aten.add.Tensor, places, value.storage_offset())
    return call(aten.expand.default, call(aten.index.Tensor, flat, [places]), list(value.shape))
