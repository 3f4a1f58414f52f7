"""Put operations of ours in the place of ``associative_scan``, whose function of two values is the user's: running sums, products and extrema, and
recurrences h = a * h + b, which are combined as (a, b) and (c, d) to (a c, c b + d)."""

import functools
import logging
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from inferno.capture.decompositions.attention import in_order
from inferno.capture.orders import inverse
from inferno.capture.replace_operation import expand, varies
from inferno.capture.running import recurrence, running
from inferno.errors import CompileError

log = logging.getLogger(__name__)

SCAN = torch.ops.higher_order.associative_scan

aten = torch.ops.aten
# An expression: a number of what the function is given, or an operation and what it is of, in an order of their own.
Expression = int | tuple

_OPERATIONS = {
    "add": (torch.add, operator.add, aten.add.Tensor), "mul": (torch.mul, operator.mul, aten.mul.Tensor),
    "max": (torch.maximum, torch.max, aten.maximum.default), "min": (torch.minimum, torch.min, aten.minimum.default),
}
_CASTS = (aten._to_copy.default, aten.clone.default, torch.ops.prims.convert_element_type.default)
_POINTWISE = (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_KINDS = {target: kind for kind, targets in _OPERATIONS.items() for target in targets}


def expand_scans(module: GraphModule, decompositions: dict[Any, Callable]) -> bool:
    """Rewrite the graph of ``module``, of ATen operations, in place; whether anything was.  What is not understood stays, and so do sizes that vary."""
    found = False
    for node in [n for n in module.graph.nodes if n.op == "call_function" and n.target is SCAN]:
        try:
            if varies(node):
                raise CompileError("it has sizes that vary")
            expand(module, node, functools.partial(scan, orders=[_order(node, i) for i in range(len(node.args[1]))]), decompositions)
            found = True
        except Exception as error:  # of the user's function, which may do anything; what stays runs in eager
            log.info("%s stays: %s", node.target, error)
    return found


def _order(node: Node, number: int) -> list[int]:
    """The dimensions of a result, outermost first, as it is to lie in memory: as what multiplies it or sums it up reads it, if its rows lie as they do in
    memory anyway; nothing of it is written then in an order in which nobody reads it."""
    own = _in_memory(node.args[1][number].meta["val"])
    found, todo = [], [(u, list(range(len(own)))) for u in node.users if u.target is operator.getitem and u.args[1] == number]
    while todo:
        value, dims = todo.pop()
        for user in value.users:
            if user.target is aten.permute.default:
                todo.append((user, [dims[d] for d in user.args[1]]))
            elif user.target is aten.transpose.int:
                transposed, (a, b) = list(dims), user.args[1:]
                transposed[a], transposed[b] = transposed[b], transposed[a]
                todo.append((user, transposed))
            elif user.target in _CASTS:
                todo.append((user, dims))
            elif user.target is not aten.select.int or dims[user.args[1]] != 0:
                found.append((user, dims))
    read = found[0][1] if len(found) == 1 and found[0][0].op == "call_function" and found[0][0].target not in _POINTWISE else own
    return read if read[-1] == own[-1] else own


def scan(function: GraphModule, xs: list[Tensor], given: tuple | list = (), orders: Sequence[list[int]] = ()) -> tuple[Tensor, ...]:
    """What comes to each place along the first dimension; ``orders``: of its dimensions, in which each result is computed.  CompileError for a function that is
    anything else than the above."""
    if given or any(x.shape != xs[0].shape for x in xs):
        raise CompileError("its function takes more than the values, or these are of several shapes")
    results, count = _results(function), len(xs)
    orders = orders or [list(range(xs[0].dim()))] * count
    found: list[Tensor | None] = [_along(xs[i], r, orders[i]) for i, r in enumerate(_alone(results, count))]
    for i, x in enumerate(xs):
        if found[i] is None:
            a = next((j for j in range(count) if results[i] == _step(j, i, count) and _is_product(results[j], j, count)), None)
            if a is None or x.dtype not in _FLOATS or xs[a].dtype not in _FLOATS:
                raise CompileError("its function is no sum, product or extreme, and no step of a recurrence")
            found[i] = _ordered(lambda p, q, d: recurrence(p.to(torch.float32), q.to(torch.float32), d), orders[i], x, xs[a]).to(x.dtype)
    return tuple(found)


def _along(x: Tensor, kind: str, order: list[int]) -> Tensor | None:
    if not kind:
        return None
    if kind == "add":
        return _ordered(lambda q, d: q.cumsum(d, dtype=x.dtype), order, x)
    if kind == "mul" and x.is_floating_point():
        return _ordered(lambda q, d: q.cumprod(d), order, x)
    return _ordered(lambda q, d: running(q, d, kind), order, x)


def _ordered(compute: Callable[..., Tensor], order: list[int], x: Tensor, *before: Tensor) -> Tensor:
    """Of tensors with dimensions in ``order``, of which the first is the last argument; in memory as ``x`` is, as what a scan gives is."""
    return in_order(compute(*(t.permute(order) for t in (*before, x)), order.index(0)).permute(inverse(order)), _in_memory(x))


def _in_memory(x: Tensor) -> list[int]:
    """The dimensions of a tensor like this one, outermost first."""
    strides = torch.empty_strided(x.shape, x.stride(), device="meta").clone().stride()
    return sorted(range(len(strides)), key=lambda d: (-strides[d], d))


def _alone(results: list[Expression], count: int) -> list[str]:
    """Of each result the operation that it is of its own two values, or nothing."""
    return [r[0] if isinstance(r, tuple) and r[1:] == (i, i + count) else "" for i, r in enumerate(results)]


def _is_product(result: Expression, i: int, count: int) -> bool:
    return result == ("mul", i, i + count)


def _step(a: int, b: int, count: int) -> Expression:
    """The later value of b, and the later a of the earlier b."""
    return _made("add", (_made("mul", (a + count, b)), b + count))


def _made(kind: str, of: tuple) -> Expression:
    return (kind, *sorted(of, key=repr))


def _results(function: GraphModule) -> list[Expression]:
    """What the function gives, as expressions of what it is given.  CompileError for other operations."""
    known: dict[Node, Expression] = {}
    for node in function.graph.nodes:
        if node.op == "placeholder":
            known[node] = len(known)
        elif node.op == "output":
            return [_known(known, v) for v in torch.utils._pytree.tree_leaves(node.args[0])]
        elif node.op == "call_function" and node.target in _KINDS and len(node.args) == 2 and not node.kwargs:
            known[node] = _made(_KINDS[node.target], tuple(_known(known, v) for v in node.args))
        else:
            raise CompileError(f"its function has {node.target}")
    raise CompileError("its function gives nothing")


def _known(known: dict[Node, Expression], value: Any) -> Expression:
    if not isinstance(value, Node):
        raise CompileError("its function has a number in it")
    return known[value]
