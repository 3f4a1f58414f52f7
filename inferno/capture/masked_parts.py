"""What a mask picks, computed as a whole: ``x[m] = f(x[m], y[m])`` is a choice between f of the wholes and what there was, ``x[m].sum()`` is the sum of x with
zeros elsewhere, and ``x[m].mean()`` that by the mask's.

How many elements a mask picks depends on the data, and no kernel has such a size: what reads them runs in eager.  So it is with limiters, boundary
conditions and losses of some of the positions.  Done where functions of points and of rows (``masked_functions.py``) are between the parts and their
ends, all of one mask, and nothing else asks for the parts; how many rows they have may scale a float.  Divisions of integers are left alone: elsewhere
there may be zeros.
"""

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture import masked_functions
from inferno.capture.masked_functions import Whole
from inferno.capture.nodes import computes_points, is_pointwise
from inferno.capture.overlapping_writes import memory, written
from inferno.capture.partition import is_view

aten = torch.ops.aten
# Functions of points without torch's tag.
_POINTWISE = aten.to.dtype, aten._to_copy.default, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar
_PICKS = aten.index.Tensor, aten.masked_select.default
_DIVISIONS = {"div", "floor_divide", "remainder", "fmod", "bitwise_left_shift", "bitwise_right_shift", "pow"}
_CHECKS = operator.ge, operator.le, operator.gt, operator.lt, operator.eq, aten._assert_scalar.default, aten.sym_constrain_range_for_size.default
_COUNTS = torch.sym_max, operator.mul  # of a number of rows and an integer
_SCALES = aten.div.Tensor, aten.mul.Tensor


@dataclass
class _Group:
    """Parts of one mask that are computed with each other, and what is computed of them; ``ends`` are what has whole results."""

    mask: Node
    picked: dict[Node, None] = field(default_factory=dict)
    ends: dict[Node, None] = field(default_factory=dict)
    checks: dict[Node, None] = field(default_factory=dict)
    counts: dict[Node, None] = field(default_factory=dict)  # numbers of rows, and what is computed of them
    scaled: dict[Node, None] = field(default_factory=dict)  # what is divided or multiplied by them


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
    if node.target not in _PICKS or (node.target is aten.index.Tensor and len(node.args[1]) != 1):
        return None
    mask, x = node.args[1][0] if node.target is aten.index.Tensor else node.args[1], node.args[0]
    value = mask.meta.get("val")
    if node.target is aten.masked_select.default and value.shape != x.meta["val"].shape:
        return None
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
        todo += [n for n in _operands(node) if _is_counted(n)]
        for user in node.users:
            if user.target is aten.sym_size.int:
                if not _add_count(user, group):
                    return None
            elif user.target is aten._assert_tensor_metadata.default:  # as of what is cast
                group.checks[user] = None
            elif user.target is aten.broadcast_tensors.default:
                group.checks[user] = None
                todo += user.users
            elif _is_end(user, node, group):
                group.ends[user] = None
                todo += [n for n in user.all_input_nodes if _is_counted(n)]
            else:
                todo.append(user)
    own, begin = memory(mask), min(group.picked)
    changed = any(memory(n) == own for each in mask.graph.nodes if each > begin for n in written(each))
    if any(map(masked_functions.views_rows, group.picked)) and any(any(True for _ in written(n)) for n in group.picked):
        return None
    return None if changed or not all(map(_is_changed_last, group.picked)) else group


def _operands(node: Node) -> list[Node]:
    """What a part is computed of: one of several that are broadcast to each other, of those."""
    source = node.args[0] if node.target is operator.getitem else node
    return source.all_input_nodes if source.target is aten.broadcast_tensors.default else node.all_input_nodes


def _is_counted(node: Node) -> bool:
    """Whether its first size depends on the data."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.dim() > 0 and isinstance(value.shape[0], torch.SymInt)


def _is_picked(node: Node, group: _Group) -> bool:
    """Whether it is a part, or of each part's element a function."""
    if node.target in _PICKS:
        mask = _mask(node)
        return mask is not None and _are_same(mask, group.mask)
    target, operands = _functional(node), _operands(node)
    if not _is_counted(node) or not all(isinstance(n.meta.get("val"), Tensor) for n in operands):
        return False
    if operands != node.all_input_nodes:
        return all(_is_counted(n) and n.meta["val"].dim() == node.meta["val"].dim() for n in operands)
    if target is None:
        return False
    if masked_functions.keeps_rows(node) or masked_functions.keeps_places(node):
        return all(map(_is_counted, operands)) or node.target in masked_functions.NORMS
    if masked_functions.loss_of(node) != 0 and target not in _POINTWISE and not computes_points(target):
        return False
    if torch.Tag.nondeterministic_seeded in target.tags or target is masked_functions.PROBABILITIES:
        return False
    values = [n.meta["val"] for n in operands]
    if target._schema.name.partition("::")[2] in _DIVISIONS and not any(v.is_floating_point() or v.is_complex() for v in values):
        return False
    dims = node.meta["val"].dim()
    return all(v.dim() == dims if _is_counted(n) else v.dim() < dims for n, v in zip(operands, values))


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
    if user.op == "output" or (isinstance(user.meta.get("val"), tuple) and any(u.target is not operator.getitem for u in user.users)):
        return False
    operands = [n for n in user.all_input_nodes if _is_counted(n)]
    if not isinstance(user.target, torch._ops.OpOverload) or not masked_functions.reduces_rows(user):
        return False
    if user.target in (aten.mean.default, aten.mean.dim) and not user.meta["val"].is_floating_point():
        return False
    if user.target in masked_functions.PAIRS:
        return all(isinstance(n, Node) and _is_counted(n) for n in user.args[:2])
    if masked_functions.loss_of(user) and any(n.meta["val"].dim() >= value.dim() for n in user.all_input_nodes if not _is_counted(n)):
        return False
    return all(n.meta["val"].dim() == value.dim() for n in operands)


def _add_count(size: Node, group: _Group) -> bool:
    """Add what is computed of a part's number of rows, if that is only checked, or scales floats."""
    if size.args[1] != 0:
        return False
    todo = [size]
    while todo:
        node = todo.pop()
        group.counts[node] = None
        for user in node.users:
            if user.target in _CHECKS:
                group.checks[user] = None
                if any(u.target not in _CHECKS for u in user.users):
                    return False
                group.checks.update(dict.fromkeys(user.users))
            elif user.target in _COUNTS and all(type(a) is int or a in group.counts for a in user.args):
                todo.append(user)
            elif user.target in _SCALES and not user.kwargs and user.args[1] is node and _is_float(user.args[0]):
                group.scaled[user] = None
            else:
                return False
    return True


def _is_float(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.is_floating_point() and all(type(n) is int for n in value.shape)


def _are_same(a: Node, b: Node) -> bool:
    """Whether two masks are one, or the same function of the same tensors, to which nothing is written between."""
    if a is b:
        return True
    if a.op != "call_function" or a.target is not b.target or not (is_pointwise(a) or is_view(a)) or a.kwargs != b.kwargs or len(a.args) != len(b.args):
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


def _replace(graph: Graph, group: _Group) -> None:
    wholes: dict[Node, Node] = {}
    numbers: dict[Node, Node] = {}
    for node in sorted((*group.picked, *group.ends, *group.counts, *group.scaled)):
        make = Whole(node, group.mask, wholes)
        with graph.inserting_before(node):
            if node.target in _PICKS:
                wholes[node] = make.call(aten.clone.default, node.args[0])  # what it reads may be written to
            elif node in group.picked:
                wholes[node] = _whole(node, make)
            elif node in group.counts:
                continue
            elif node in group.scaled:
                node.replace_all_uses_with(_scaled(node, make, numbers))
            elif node.target in (aten.index_put_.default, aten.index_put.default):
                chosen = make.where(wholes[node.args[2]], node.args[0])
                if node.target is aten.index_put_.default:
                    chosen = make.call(aten.copy_.default, node.args[0], chosen)
                node.replace_all_uses_with(chosen)
            else:
                found = make.reduction()
                for place, result in masked_functions.results(node).items() if isinstance(found, tuple) else ():
                    result.replace_all_uses_with(found[place])
                    group.checks[result] = None
                if not isinstance(found, tuple):
                    node.replace_all_uses_with(found)
    for node in sorted((*group.picked, *group.ends, *group.checks, *group.counts, *group.scaled), reverse=True):
        graph.erase_node(node)


def _whole(node: Node, make: Whole) -> Node:
    """The whole of a part that is computed of others."""
    if (operands := _operands(node)) != node.all_input_nodes:
        shape = torch.broadcast_shapes(*(make.wholes[n].meta["val"].shape for n in operands))
        return make.call(aten.expand.default, make.wholes[node.args[0].args[0][node.args[1]]], list(shape))
    if masked_functions.keeps_rows(node):
        return make.rows()
    if masked_functions.keeps_places(node):
        return make.places()
    args, kwargs = make.given()
    return make.call(_functional(node), *args, **kwargs)


def _scaled(node: Node, make: Whole, numbers: dict[Node, Node]) -> Node:
    """A float divided or multiplied by what is computed of the number of rows: in float32 at least, since that does not fit in few bits."""
    x, count = node.args
    dtype = x.meta["val"].dtype
    wide = torch.promote_types(dtype, torch.float32)
    x = x if wide == dtype else make.call(aten._to_copy.default, x, dtype=wide)
    found = make.call(node.target, x, make.call(aten._to_copy.default, _number(count, make, numbers), dtype=wide))
    return found if wide == dtype else make.call(aten._to_copy.default, found, dtype=dtype)


def _number(node: Any, make: Whole, numbers: dict[Node, Node]) -> Any:
    if not isinstance(node, Node):
        return node
    if node not in numbers:
        if node.target is aten.sym_size.int:
            numbers[node] = make.count()
        else:
            a, b = sorted((_number(a, make, numbers) for a in node.args), key=lambda a: not isinstance(a, Node))
            larger = aten.maximum.default if isinstance(b, Node) else aten.clamp_min.default
            numbers[node] = make.call(aten.mul.Tensor if node.target is operator.mul else larger, a, b)
    return numbers[node]
