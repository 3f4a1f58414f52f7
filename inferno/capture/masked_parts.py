"""What a mask picks, computed as a whole: ``x[m] = f(x[m], y[m])`` is a choice between f of the wholes and what there was, ``x[m].sum()`` is the sum of x with
zeros elsewhere, and ``x[m].mean()`` that by the mask's.

How many elements a mask picks depends on the data, and no kernel has such a size: what reads them runs in eager.  So it is with limiters, boundary
conditions and losses of some of the positions.  Done where functions of points are between the parts and their ends, all of one mask, and nothing else
asks for the parts, or for how many they are.  Divisions of integers are left alone: elsewhere there may be zeros.
"""

import math
import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from inferno.capture.nodes import call_beside, computes_points, is_pointwise
from inferno.capture.overlapping_writes import memory, written

aten = torch.ops.aten
# Functions of points without torch's tag.
_POINTWISE = aten.to.dtype, aten._to_copy.default, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar
_DIVISIONS = {"div", "floor_divide", "remainder", "fmod", "bitwise_left_shift", "bitwise_right_shift", "pow"}
_CHECKS = operator.ge, operator.le, operator.gt, operator.lt, operator.eq, aten._assert_scalar.default, aten.sym_constrain_range_for_size.default
_SUMS = aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim


@dataclass
class _Group:
    """Parts of one mask that are computed with each other, and what is computed of them; ``ends`` are what has whole results."""

    mask: Node
    picked: dict[Node, None] = field(default_factory=dict)
    ends: dict[Node, None] = field(default_factory=dict)
    checks: dict[Node, None] = field(default_factory=dict)


def compute_wholes(graph: Graph) -> None:
    """Rewrite torch.export's ``graph`` in place."""
    done: set[Node] = set()
    for node in list(graph.nodes):
        if node in done or (mask := _mask(node)) is None:
            continue
        group = _group(node, mask)
        if group is not None:
            done.update(group.picked)
            _replace(graph, group)


def _mask(node: Node) -> Node | None:
    """The mask by which a node picks from the first dimensions of a tensor."""
    if node.target is not aten.index.Tensor or len(node.args[1]) != 1:
        return None
    mask, x = node.args[1][0], node.args[0]
    value = mask.meta.get("val")
    known = isinstance(value, Tensor) and all(type(n) is int for n in (*value.shape, *x.meta["val"].shape))
    return mask if known and value.dtype == torch.bool and value.dim() else None


def _group(first: Node, mask: Node) -> _Group | None:
    """All that is computed with a part; None where something of it has to be there."""
    group, todo = _Group(mask), [first]
    while todo:
        node = todo.pop()
        if node in group.picked:
            continue
        if not _is_picked(node, group):
            return None
        group.picked[node] = None
        todo += [n for n in node.all_input_nodes if _is_counted(n)]
        for user in node.users:
            if user.target is aten.sym_size.int:
                if not _add_checks(user, group):
                    return None
            elif user.target is aten._assert_tensor_metadata.default:  # as of what is cast
                group.checks[user] = None
            elif _is_end(user, node, group):
                group.ends[user] = None
            else:
                todo.append(user)
    own = memory(mask)
    changed = any(memory(n) == own for each in mask.graph.nodes for n in written(each))
    return None if changed or not group.ends or not all(map(_is_changed_last, group.picked)) else group


def _is_counted(node: Node) -> bool:
    """Whether its first size depends on the data."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.dim() > 0 and isinstance(value.shape[0], torch.SymInt)


def _is_picked(node: Node, group: _Group) -> bool:
    """Whether it is a part, or of each part's element a function."""
    if node.target is aten.index.Tensor:
        mask = _mask(node)
        return mask is not None and _are_same(mask, group.mask)
    target = _functional(node)
    if target is None or not _is_counted(node):
        return False
    if target not in _POINTWISE and not computes_points(target):
        return False
    if torch.Tag.nondeterministic_seeded in target.tags:
        return False
    values = [n.meta.get("val") for n in node.all_input_nodes]
    if not all(isinstance(v, Tensor) for v in values):
        return False
    if target._schema.name.partition("::")[2] in _DIVISIONS and not any(v.is_floating_point() or v.is_complex() for v in values):
        return False
    dims = node.meta["val"].dim()
    return all(v.dim() == dims if _is_counted(n) else v.dim() < dims for n, v in zip(node.all_input_nodes, values))


def _functional(node: Node) -> Any:
    """The operation, or that which gives a result in place of writing to its first argument."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    packet, _, overload = target._schema.name.partition("::")[2], None, target._overloadname
    if not packet.endswith("_") or packet.endswith("__"):
        return target
    return getattr(getattr(aten, packet[:-1], None), overload, None)


def _is_end(user: Node, node: Node, group: _Group) -> bool:
    value, mask = node.meta["val"], group.mask.meta["val"]
    if user.target in (aten.index_put_.default, aten.index_put.default):
        x, places, values, *accumulate = user.args
        if values is not node or node in (x, *places) or len(places) != 1 or any(accumulate) or user.kwargs or not isinstance(places[0], Node):
            return False
        whole = x.meta["val"]
        return _are_same(places[0], group.mask) and tuple(whole.shape) == (*mask.shape, *value.shape[1:]) and whole.dtype == value.dtype
    if user.target not in _SUMS:
        return False
    keeps = (len(user.args) > 2 and user.args[2]) or user.kwargs.get("keepdim")
    return not keeps and not user.kwargs.get("dtype") and 0 in _dims(user) and (value.is_floating_point() or "sum" in str(user.target))


def _dims(node: Node) -> list[int]:
    """The dimensions that a sum or a mean is over."""
    count = node.args[0].meta["val"].dim()
    dims = node.args[1] if len(node.args) > 1 else None
    return [d % count for d in dims] if dims else list(range(count))


def _add_checks(size: Node, group: _Group) -> bool:
    """Add what is computed of a part's number of elements, if that is only checked."""
    if size.args[1] != 0:
        return False
    todo = [size]
    while todo:
        node = todo.pop()
        group.checks[node] = None
        if any(u.target not in _CHECKS for u in node.users):
            return False
        todo += [u for u in node.users if u not in group.checks]
    return True


def _are_same(a: Node, b: Node) -> bool:
    """Whether two masks are one, or the same function of the same tensors, to which nothing is written between."""
    if a is b:
        return True
    if a.op != "call_function" or a.target is not b.target or not is_pointwise(a) or a.kwargs != b.kwargs or len(a.args) != len(b.args):
        return False
    for x, y in zip(a.args, b.args):
        if isinstance(x, Node) and isinstance(y, Node):
            if not _are_same(x, y):
                return False
        elif isinstance(x, Node) or isinstance(y, Node) or type(x) is not type(y) or x != y:
            return False
    read = {memory(n) for m in (a, b) for n in m.all_input_nodes}
    first, last = sorted((a, b))
    node = first.next
    while node is not last:
        if any(memory(n) in read for n in written(node)):
            return False
        node = node.next
    return True


def _is_changed_last(node: Node) -> bool:
    """Whether nobody reads a part behind what writes to it."""
    return all(node not in written(u) or all(other <= u for other in node.users) for u in node.users)


def _call(node: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
    made = call_beside(node, target, *args, **kwargs)
    made.meta.pop("unbacked_bindings", None)  # of a part
    return made


def _replace(graph: Graph, group: _Group) -> None:
    more = group.mask.meta["val"].dim() - 1
    wholes: dict[Node, Node] = {}
    for node in sorted((*group.picked, *group.ends)):
        with graph.inserting_before(node):
            if node.target is aten.index.Tensor:
                wholes[node] = _call(node, aten.clone.default, node.args[0])  # what it reads may be written to
            elif node in group.picked:
                args, kwargs = map_arg((node.args, node.kwargs), lambda n: wholes.get(n, n))
                wholes[node] = _call(node, _functional(node), *args, **kwargs)
            elif node.target in _SUMS:
                node.replace_all_uses_with(_sum(node, wholes[node.args[0]], group, more))
            else:
                chosen = _where(node, group, wholes[node.args[2]], node.args[0])
                if node.target is aten.index_put_.default:
                    chosen = _call(node, aten.copy_.default, node.args[0], chosen)
                node.replace_all_uses_with(chosen)
    for node in sorted((*group.picked, *group.ends, *group.checks), reverse=True):
        graph.erase_node(node)


def _where(node: Node, group: _Group, x: Node, other: Node) -> Node:
    """``x`` where the mask is true."""
    mask, rest = group.mask.meta["val"], x.meta["val"].dim() - group.mask.meta["val"].dim()
    shaped = _call(node, aten.reshape.default, group.mask, [*mask.shape, *[1] * rest]) if rest else group.mask
    return _call(node, aten.where.self, shaped, x, other)


def _sum(node: Node, x: Node, group: _Group, more: int) -> Node:
    value, result = x.meta["val"], node.meta["val"]
    zero = _call(node, aten.scalar_tensor.default, 0, dtype=value.dtype, device=value.device)
    dims = [d + more if d else e for d in _dims(node) for e in (range(more + 1) if d == 0 else (0,))]
    is_mean = node.target in (aten.mean.default, aten.mean.dim)
    wide = torch.promote_types(value.dtype, torch.float32) if is_mean else result.dtype
    options = {"dtype": wide} if is_mean and wide != value.dtype else {}
    found = _call(node, aten.sum.dim_IntList, _where(node, group, x, zero), dims, False, **options)
    if not is_mean:
        return found
    others = math.prod(value.shape[d] for d in dims if d > more)
    count = _call(node, aten.mul.Tensor, _call(node, aten.sum.default, group.mask), others)
    found = _call(node, aten.div.Tensor, found, _call(node, aten._to_copy.default, count, dtype=wide))
    return found if wide == result.dtype else _call(node, aten._to_copy.default, found, dtype=result.dtype)
