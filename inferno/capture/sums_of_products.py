"""``(x[:, :, None] * y[:, None]).sum(0)`` as the product of matrices that it is.

A sum of products of two tensors, each of which lacks dimensions that the other has, reads each element many times: a contraction, whose factors are made
once.  Without this pass an elementwise operation makes the terms of all that the factors are made of, again for each, where a reshape is in front of the sum.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture.batch_steps import trace_on
from inferno.capture.nodes import copy_before
from inferno.tf32 import takes_tf32

aten = torch.ops.aten
_LEAST = 8  # elements of the other tensor that meet each one, so that it is a product of matrices


def join_products(graph: Graph, decompositions: dict[Any, Callable]) -> None:
    """Rewrite ``graph``, of decomposed operations, in place: float32 of sizes that do not vary.  Nothing where products of matrices may be rounded to TF32,
    which a sum in eager never is."""
    if takes_tf32():
        return
    for node in [n for n in graph.nodes if n.target is aten.sum.dim_IntList]:
        product = node.args[0]
        if product.target is not aten.mul.Tensor or len(product.users) > 1 or not all(isinstance(v, Node) for v in product.args):
            continue
        values = [n.meta.get("val") for n in (*product.args, product, node)]
        if not all(isinstance(v, Tensor) and v.dtype == torch.float32 and all(type(s) is int for s in v.shape) for v in values):
            continue
        x, y, whole, result = values
        summed = {d % whole.dim() for d in node.args[1] or range(whole.dim())}
        kinds = _kinds(_aligned(x.shape, whole.dim()), _aligned(y.shape, whole.dim()), summed)
        if kinds is None or 0 in whole.shape:
            continue
        traced = trace_on(partial(_product, kinds=kinds, shape=result.shape), product.args, decompositions)
        if traced is not None:
            made = copy_before(node, traced, product.args)[traced.output_node().args[0]]
            node.replace_all_uses_with(made)
            graph.erase_node(node)
            graph.erase_node(product)


def _aligned(shape: torch.Size, dims: int) -> tuple[int, ...]:
    return (1,) * (dims - len(shape)) + tuple(shape)


def _kinds(x: tuple[int, ...], y: tuple[int, ...], summed: set[int]) -> tuple[list[int], ...] | None:
    """The dimensions that both have, those of ``x`` and of ``y`` alone, and those that are summed; None where it is no product of matrices."""
    both, left, right, along = [], [], [], []
    for d, (a, b) in enumerate(zip(x, y)):
        if d in summed and (a == 1) != (b == 1):
            return None
        kind = along if d in summed else both if a == b else left if b == 1 else right
        kind.append(d)
    sizes = [_count(x, left), _count(y, right), _count(x, along)]
    return (both, left, right, along) if min(sizes) >= _LEAST else None


def _count(shape: tuple[int, ...], dims: list[int]) -> int:
    return prod(shape[d] for d in dims)


def _product(x: Tensor, y: Tensor, kinds: tuple[list[int], ...], shape: torch.Size) -> Tensor:
    both, left, right, along = kinds
    dims = len(both) + len(left) + len(right) + len(along)
    x, y = (t.reshape(_aligned(t.shape, dims)) for t in (x, y))
    sizes = lambda t, group: [t.shape[d] for d in group]  # noqa: E731
    a = x.permute(*both, *left, *along, *right).reshape(_count(x.shape, both), _count(x.shape, left), _count(x.shape, along))
    b = y.permute(*both, *along, *right, *left).reshape(_count(x.shape, both), _count(x.shape, along), _count(y.shape, right))
    order = [*both, *left, *right]
    made = torch.bmm(a, b).reshape(*sizes(x, both), *sizes(x, left), *sizes(y, right))
    return made.permute([order.index(d) for d in sorted(order)]).reshape(shape).contiguous()
