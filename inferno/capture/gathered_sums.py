"""``torch.where(torch.arange(n) == index, x, 0).sum(dim)`` is ``x``, where ``index`` is one of the n.

The gradient of a logarithm of softmax needs the sum of each row's gradient, of which cross entropy, and what ``gather`` takes, leave one element that is not
0: adding up zeros takes as many comparisons as the pass over the logits has.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture.batch_steps import trace_on
from inferno.capture.nodes import copy_before

aten = torch.ops.aten
_SAME = {torch.ops.prims.convert_element_type.default, aten._to_copy.default, aten.alias.default}
_ZEROS = {aten.zeros.default, aten.zeros_like.default}
_FILLED = {aten.full.default: 1, aten.full_like.default: 1, aten.scalar_tensor.default: 0}  # the number of the argument that it is full of


def sum_gathered(graph: Graph, decompositions: dict[Any, Callable]) -> None:
    """Rewrite ``graph``, of decomposed operations, in place, where no size varies."""
    for node in [n for n in graph.nodes if n.target is aten.sum.dim_IntList and len(n.args[1] or ()) == 1]:
        found = _gathered(node.args[0])
        result = node.meta.get("val")
        if found is None or not isinstance(result, Tensor):
            continue
        places, index, gathered, count, types = found
        whole = node.args[0].meta["val"].shape
        dim = node.args[1][0] % len(whole)
        if not all(type(n) is int for n in whole) or _dim(places, (index, gathered), len(whole)) != dim:
            continue
        kept = [1 if d == dim else n for d, n in enumerate(whole)]
        traced = trace_on(partial(_sum, count=count, types=types, kept=kept, like=result), (index, gathered), decompositions)
        if traced is not None:
            made = copy_before(node, traced, (index, gathered))[traced.output_node().args[0]]
            node.replace_all_uses_with(made)
            graph.erase_node(node)


def _sum(index: Tensor, gathered: Tensor, *, count: int, types: list[torch.dtype], kept: list[int], like: Tensor) -> Tensor:
    inside = torch.logical_and(index >= 0, index < count)
    for dtype in (*types, like.dtype):
        gathered = gathered.to(dtype)
    found = torch.where(inside, gathered, torch.zeros((), dtype=like.dtype, device=like.device))
    return found.expand(kept).reshape(like.shape)


def _gathered(node: Any) -> tuple[Node, Node, Node, int, list[torch.dtype]] | None:
    """The numbered places, the index, what is gathered, and out of how many, of a ``where`` or a conversion of one, maybe added to zeros, and what it is
    converted to."""
    types: list[torch.dtype] = []
    while isinstance(node, Node):
        if node.target in _SAME:
            types.insert(0, node.meta["val"].dtype)
            node = node.args[0]
        elif node.target is aten.add.Tensor and not node.kwargs and any(map(_is_zero, node.args)):
            node = next(v for v in node.args if not _is_zero(v)) if not all(map(_is_zero, node.args)) else None
        else:
            break
    if not isinstance(node, Node) or node.target is not aten.where.self or not _is_zero(node.args[2]):
        return None
    condition, gathered, _ = node.args
    if condition.target is not aten.eq.Tensor or not all(isinstance(v, Node) for v in (*condition.args, gathered)):
        return None
    for places, index in (condition.args, condition.args[::-1]):
        if (count := _count(places)) is not None and not index.meta["val"].is_floating_point():
            return places, index, gathered, count, types
    return None


def _count(node: Node) -> int | None:
    """How many numbers from 0 on are along a tensor's only dimension."""
    while node.target in (aten.view.default, aten.unsqueeze.default):
        node = node.args[0]
    starts = node.target is aten.arange.start_step and node.args[0] == 0 and node.args[2:3] in ((), (1,))
    return node.args[1] if starts and type(node.args[1]) is int else None


def _dim(places: Node, beside: tuple[Node, ...], rank: int) -> int | None:
    """The dimension along which places are numbered, if nothing that is compared or gathered varies there, of a tensor of ``rank`` dimensions."""
    shape = places.meta["val"].shape
    along = [d - len(shape) for d, n in enumerate(shape) if n != 1]
    if len(along) != 1:
        return None
    shapes = [v.meta["val"].shape for v in beside]
    return None if any(len(s) >= -along[0] and s[along[0]] != 1 for s in shapes) else rank + along[0]


def _is_zero(value: Any) -> bool:
    """Whether a tensor is full of zeros."""
    if not isinstance(value, Node):
        return False
    number = value.args[_FILLED[value.target]] if value.target in _FILLED else None
    return value.target in _ZEROS or (isinstance(number, (int, float)) and number == 0)
