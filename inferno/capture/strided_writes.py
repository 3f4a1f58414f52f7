"""``as_strided_scatter`` into what the graph itself makes, at places in memory that are numbers that are known: each element is one of the new ones where
its place is one of those, and is as it was elsewhere.

So a ``fill_diagonal_`` is captured, which takes a sample out of its own negatives in a contrastive loss.  It is elementwise: as a scatter of a few elements,
all others would be copied first.
"""

import functools
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.fx import Graph, Node

from inferno.capture.nodes import call_beside
from inferno.capture.strided_places import is_dense, memory_order, reaches

aten = torch.ops.aten


def write_strided(graph: Graph) -> None:
    """Rewrite them in ``graph``, in place."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is aten.as_strided_scatter.default and not node.kwargs and _is_known(node):
            with graph.inserting_before(node):
                node.replace_all_uses_with(_write(node))
            graph.erase_node(node)


def _is_known(node: Node) -> bool:
    into, source, *_ = node.args
    whole, new = into.meta.get("val"), source.meta.get("val")
    if into.op != "call_function" or not isinstance(whole, FakeTensor) or not isinstance(new, FakeTensor):
        return False  # a caller's tensor may lie otherwise in another call
    if not is_dense(whole) or not all(isinstance(n, int) for n in (*new.shape, *_numbers(node))):
        return False
    return reaches(_places(node, whole), whole) and new.dtype == whole.dtype and _are_distinct(_places(node, whole))


def _numbers(node: Node) -> tuple:
    _, _, size, stride, *offset = node.args
    return *size, *stride, _offset(offset)


def _offset(given: list) -> Any:
    return given[0] if given and given[0] is not None else 0


def _places(node: Node, whole: Tensor) -> Tensor:
    """A tensor without memory that lies where the new elements go."""
    _, _, size, stride, *offset = node.args
    needed = _offset(offset) + sum((n - 1) * s for n, s in zip(size, stride)) + 1
    return torch.empty(max(needed, 1), dtype=whole.dtype, device="meta").as_strided(size, stride, _offset(offset))


def _steps(places: Tensor) -> list[tuple[int, int, int]]:
    """(dimension, size, stride) of those with more than one element, the longest steps first."""
    found = [(i, n, s) for i, (n, s) in enumerate(zip(places.shape, places.stride())) if n > 1]
    return sorted(found, key=lambda step: step[2], reverse=True)


def _are_distinct(places: Tensor) -> bool:
    """Whether each step is longer than all shorter ones reach together."""
    reach = 0
    for _, size, stride in reversed(_steps(places)):
        if stride <= reach:
            return False
        reach += (size - 1) * stride
    return True


def _write(node: Node) -> Node:
    into, source, *_ = node.args
    whole = into.meta["val"]
    places, order = _places(node, whole), memory_order(whole)
    call = functools.partial(call_beside, node)
    flat = call(aten.view.default, call(aten.permute.default, into, order), [whole.numel()])
    rest = call(aten.arange.default, whole.numel(), dtype=torch.int64, device=whole.device, pin_memory=False)
    if places.storage_offset():
        rest = call(aten.sub.Tensor, rest, places.storage_offset())
    hit, indices = call(aten.ge.Scalar, rest, 0), {}
    for dimension, size, stride in _steps(places):
        along = call(aten.div.Tensor_mode, rest, stride, rounding_mode="floor") if stride > 1 else rest
        hit = call(aten.logical_and.default, hit, call(aten.lt.Scalar, along, size))
        indices[dimension] = call(aten.clamp.default, along, 0, size - 1)
        rest = call(aten.sub.Tensor, rest, call(aten.mul.Tensor, along, stride))
    hit = call(aten.logical_and.default, hit, call(aten.eq.Scalar, rest, 0))
    new = source
    for dimension in reversed([i for i, n in enumerate(places.shape) if n == 1]):
        new = call(aten.select.int, new, dimension, 0)
    kept = sorted(indices)
    new = call(aten.index.Tensor, new, [indices[i] for i in kept]) if kept else new
    result = call(aten.view.default, call(aten.where.self, hit, new, flat), [whole.shape[i] for i in order])
    return call(aten.permute.default, result, [order.index(i) for i in range(whole.dim())])
