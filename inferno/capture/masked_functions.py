"""What becomes of functions of the rows that a mask picks where they are computed of all rows: which functions keep rows apart, and which reduce over them.

A part of sizes [count, ...] is computed as a whole of sizes [*mask, ...].  A function along other dimensions than the first is the same of the whole, its
dimensions counted from the last.  A reduction is that of the whole in which what is not picked is its neutral element.  Extrema are left alone: of nothing
they are errors, and how much is picked is not known before.
"""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from inferno.capture.nodes import argument, call_beside

aten = torch.ops.aten
_INF = float("inf")

SUMS = aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim
_ROWS = {
    aten.sum.dim_IntList, aten.mean.dim, aten.prod.dim_int, aten.any.dim, aten.any.dims, aten.all.dim, aten.all.dims, aten.amax.default, aten.amin.default,
    aten.argmax.default, aten.argmin.default, aten.logsumexp.default, aten.softmax.int, aten.log_softmax.int, aten.cumsum.default,
    aten.linalg_vector_norm.default, aten.var.dim, aten.var.correction, aten.std.dim, aten.std.correction, aten.cosine_similarity.default, aten.cat.default,
}
_MORE_DIMENSIONS = {aten.stack.default, aten.unsqueeze.default}
_VIEWS = {aten.select.int, aten.slice.Tensor, aten.unsqueeze.default}
NORMS = {aten.layer_norm.default, aten.rms_norm.default}
_FILLS = {  # reductions, and their neutral elements
    aten.prod.default: 1, aten.prod.dim_int: 1, aten.any.default: 0, aten.any.dim: 0, aten.any.dims: 0, aten.all.default: 1, aten.all.dim: 1, aten.all.dims: 1,
    aten.logsumexp.default: -_INF, aten.linalg_vector_norm.default: 0, aten.count_nonzero.default: 0, aten.count_nonzero.dim_IntList: 0,
}
_KEEPING = {aten.softmax.int: -_INF, aten.log_softmax.int: -_INF, aten.cumsum.default: 0}  # functions of all rows that have a row for each
_SPREADS = {  # whether the mean is a result, too; whether the first is a root
    getattr(getattr(aten, name), overload): (name.endswith("mean"), name.startswith("std"))
    for name in ("var", "std", "var_mean", "std_mean") for overload in ("default", "dim", "correction")
}
PROBABILITIES = aten.binary_cross_entropy.default  # whose first argument eager asserts to be some
_LOSSES = {  # of points
    aten.mse_loss.default, aten.l1_loss.default, aten.smooth_l1_loss.default, aten.huber_loss.default, PROBABILITIES,
    aten.binary_cross_entropy_with_logits.default, aten.kl_div.default, aten.soft_margin_loss.default,
}
_CLASSES = {aten.cross_entropy_loss.default, aten.nll_loss_nd.default, aten.nll_loss.default}
PAIRS = {aten.dot.default, *_CLASSES}  # reductions whose first two operands both have to be parts


def keeps_rows(node: Node) -> bool:
    """Whether each row of the result is of one row of each operand."""
    target = node.target
    if target in NORMS:
        return len(node.args[1]) < node.meta["val"].dim()
    if is_all(node):
        return True
    if target not in _ROWS and target not in _MORE_DIMENSIONS and target not in _VIEWS:
        return False
    dims = argument(node, "dim")
    if dims is None or dims == []:
        return False
    count = _dimensions(node)
    return all(d % count for d in ([dims] if isinstance(dims, int) else dims))


def _dimensions(node: Node) -> int:
    """How many dimensions those that it is along are counted among."""
    return node.meta["val"].dim() if node.target in _MORE_DIMENSIONS else node.all_input_nodes[0].meta["val"].dim()


def is_all(node: Node) -> bool:
    """Whether it is the slice that is everything, as ``x[:, 0]`` has it in front."""
    start, end, step = (argument(node, name) for name in ("start", "end", "step")) if node.target is aten.slice.Tensor else (1, 0, 1)
    return not argument(node, "dim") and not start and step == 1 and (end is None or (type(end) is int and end >= 2**62))


def keeps_places(node: Node) -> bool:
    """Whether it is a function along the rows that has a row for each."""
    if node.target not in _KEEPING or (_KEEPING[node.target] and not node.args[0].meta["val"].is_floating_point()):  # integers have no -inf
        return False
    return not argument(node, "dim") % node.args[0].meta["val"].dim()


def views_rows(node: Node) -> bool:
    """Whether it is a view of each row."""
    return node.target in _VIEWS


def loss_of(node: Node) -> int | None:
    """How a loss is reduced: 0, of each point; 1, their mean; 2, their sum."""
    return argument(node, "reduction") if node.target in _LOSSES else None


def reduces_rows(node: Node) -> bool:
    """Whether it is a reduction over rows, and maybe other dimensions, that is known to be one of the whole."""
    x = node.args[0].meta["val"] if isinstance(node.args[0], Node) else None
    if x is None:
        return False
    if node.target in _CLASSES:
        targets = node.args[1].meta["val"]
        return x.dim() == 2 and targets.dim() == 1 and not targets.is_floating_point() and argument(node, "reduction") in (1, 2)
    if node.target is aten.dot.default or loss_of(node):
        return True
    if node.target is aten.linalg_vector_norm.default and not 0 < argument(node, "ord") < _INF:
        return False
    if (node.target in _SPREADS and x.is_complex()) or (node.target is aten.logsumexp.default and not x.is_floating_point()):
        return False
    return (node.target in SUMS or node.target in _FILLS or node.target in _SPREADS) and 0 in _dims(node)


def _dims(node: Node) -> list[int]:
    """The dimensions that a reduction is over."""
    count, dims = node.args[0].meta["val"].dim(), argument(node, "dim")
    dims = [dims] if isinstance(dims, int) else dims
    return [d % count for d in dims] if dims else list(range(count))


class Whole:
    """Makes the whole of a node whose operands' wholes are known: in the graph in front of it, of the rows that ``mask`` picks."""

    def __init__(self, node: Node, mask: Node, wholes: dict[Node, Node]) -> None:
        self.node, self.mask, self.wholes, self.more = node, mask, wholes, mask.meta["val"].dim() - 1

    def call(self, target: Callable, *args: Any, **kwargs: Any) -> Node:
        made = call_beside(self.node, target, *args, **kwargs)
        made.meta.pop("unbacked_bindings", None)  # of a part
        return made

    def given(self) -> tuple[tuple, dict[str, Any]]:
        return torch.fx.node.map_arg((self.node.args, self.node.kwargs), lambda n: self.wholes.get(n, n))

    def where(self, x: Node, other: Any) -> Node:
        """``x`` where the mask is true; ``other`` is a number or a node."""
        value, mask = x.meta["val"], self.mask.meta["val"]
        if not isinstance(other, Node):
            other = self.call(aten.scalar_tensor.default, other, dtype=value.dtype, device=value.device)
        rest = value.dim() - mask.dim()
        shaped = self.call(aten.reshape.default, self.mask, [*mask.shape, *[1] * rest]) if rest else self.mask
        return self.call(aten.where.self, shaped, x, other)

    def flat(self, x: Node) -> Node:
        """All rows in one dimension, as those that are picked are."""
        shape = x.meta["val"].shape
        return self.call(aten.reshape.default, x, [math.prod(shape[:self.more + 1]), *shape[self.more + 1:]]) if self.more else x

    def unflat(self, x: Node) -> Node:
        """Rows of one dimension in the mask's shape."""
        return self.call(aten.reshape.default, x, [*self.mask.meta["val"].shape, *x.meta["val"].shape[1:]]) if self.more else x

    def rows(self) -> Node:
        """The whole of what keeps rows apart."""
        args, kwargs = self.given()
        if is_all(self.node):
            return args[0]
        if self.node.target in NORMS:
            return self.call(self.node.target, *args, **kwargs)
        dims = argument(self.node, "dim")
        count = _dimensions(self.node)
        dims = dims % count - count if isinstance(dims, int) else [d % count - count for d in dims]
        return self._with(args, kwargs, dim=dims)

    def places(self) -> Node:
        """The whole of a function along the rows."""
        args, kwargs = self.given()
        x = self.flat(self.where(args[0], _KEEPING[self.node.target]))
        return self.unflat(self.call(self.node.target, x, 0, *args[2:], **{k: v for k, v in kwargs.items() if k != "dim"}))

    def losses(self) -> Node:
        """The whole of a loss of points before it is reduced."""
        args, kwargs = self.given()
        if self.node.target is PROBABILITIES and self.node.args[0] in self.wholes:
            args = (self.where(args[0], 0), *args[1:])
        return self._with(args, kwargs, reduction=0)

    def reduction(self) -> Node | tuple[Node, Node]:
        """The result of a reduction over rows."""
        node = self.node
        args, kwargs = self.given()
        if node.target in _CLASSES:
            targets = self.where(args[1], argument(node, "ignore_index"))
            return self.call(node.target, self.flat(args[0]), self.flat(targets), *args[2:], **kwargs)
        if node.target is aten.dot.default:
            return self.sum(self.call(aten.mul.Tensor, *args), [0], mean=False)
        if reduced := loss_of(node):
            x = self.losses()
            return self.sum(x, range(x.meta["val"].dim() - self.more), mean=reduced == 1)
        if node.target in _SPREADS:
            return self.spread(args[0])
        if node.target in SUMS:
            return self.sum(args[0], _dims(node), mean=node.target in (aten.mean.default, aten.mean.dim))
        return self.call(node.target, self.flat(self.where(args[0], _FILLS[node.target])), *args[1:], **kwargs)

    def sum(self, x: Node, dims: Sequence[int], mean: bool) -> Node:
        """The sum or the mean of what is picked over a part's ``dims``, of the node's shape and type."""
        value, result = x.meta["val"], self.node.meta["val"]
        wide = torch.promote_types(result.dtype, torch.float32) if mean else result.dtype
        options = {"dtype": wide} if wide != value.dtype else {}
        found = self.call(aten.sum.dim_IntList, self.where(x, 0), self._whole_dims(dims), False, **options)
        found = self._shaped(self.call(aten.div.Tensor, found, self._number(x, dims, wide)) if mean else found, result)
        return found if wide == result.dtype else self.call(aten._to_copy.default, found, dtype=result.dtype)

    def spread(self, x: Node) -> Node | tuple[Node, Node]:
        """The variance of what is picked, or its root, and its mean where the operation gives it."""
        node, value = self.node, x.meta["val"]
        with_mean, is_root = _SPREADS[node.target]
        result = node.meta["val"][0] if with_mean else node.meta["val"]
        unbiased, correction = argument(node, "unbiased"), argument(node, "correction")
        correction = (1 if correction is None else correction) if unbiased is None else int(unbiased)
        dims = self._whole_dims(_dims(node))
        wide = torch.promote_types(value.dtype, torch.float32)
        x = x if wide == value.dtype else self.call(aten._to_copy.default, x, dtype=wide)
        number = self._number(x, _dims(node), wide)
        mean = self.call(aten.div.Tensor, self.call(aten.sum.dim_IntList, self.where(x, 0), dims, True), number)
        square = self.call(aten.square.default, self.call(aten.sub.Tensor, x, mean))
        found = self.call(aten.sum.dim_IntList, self.where(square, 0), dims, False)
        found = self.call(aten.div.Tensor, found, self.call(aten.clamp_min.default, self.call(aten.sub.Tensor, number, correction), 0))
        found = self.call(aten.sqrt.default, found) if is_root else found
        found, mean = (self._shaped(v, result) for v in (found, mean))
        if wide != result.dtype:
            found, mean = (self.call(aten._to_copy.default, v, dtype=result.dtype) for v in (found, mean))
        return (found, mean) if with_mean else found

    def count(self) -> Node:
        """How many rows are picked."""
        return self.call(aten.sum.default, self.mask)

    def _whole_dims(self, dims: Sequence[int]) -> list[int]:
        return [d + self.more if d else e for d in dims for e in (range(self.more + 1) if d == 0 else (0,))]

    def _number(self, x: Node, dims: Sequence[int], dtype: torch.dtype) -> Node:
        """How many elements of a whole are picked for each sum over a part's ``dims``."""
        others = math.prod(x.meta["val"].shape[d + self.more] for d in dims if d)
        return self.call(aten._to_copy.default, self.call(aten.mul.Tensor, self.count(), others), dtype=dtype)

    def _shaped(self, x: Node, result: Tensor) -> Node:
        return x if x.meta["val"].shape == result.shape else self.call(aten.reshape.default, x, list(result.shape))

    def _with(self, args: tuple, kwargs: dict[str, Any], **changed: Any) -> Node:
        """The node's operation with other arguments for those of these names."""
        args, kwargs = list(args), dict(kwargs)
        for i, each in enumerate(self.node.target._schema.arguments):
            if each.name in changed and not each.kwarg_only:
                args += [e.default_value for e in self.node.target._schema.arguments[len(args):i + 1]]
                args[i] = changed[each.name]
                kwargs.pop(each.name, None)
        return self.call(self.node.target, *args, **kwargs)


def results(node: Node) -> dict[int, Node]:
    """The nodes of an operation's several results, by their numbers."""
    return {u.args[1]: u for u in node.users if u.target is operator.getitem}
