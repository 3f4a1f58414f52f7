"""Writes to elements that share memory, as those of ``x.expand(3, 4)`` do, and writes beside reads of the same memory (``x[1:].add_(x[:-1])``).

Eager refuses most of them, and others it does one element after the other.  Functionalization knows of neither: it writes to a copy, and adds up what
elements that are one have got.
"""

import inspect
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from inferno.capture.nodes import argument
from inferno.capture.own_data import writes

_SETITEM = "setitem", "__setitem__", "put_at", "put_item"


def overlapping_write(graph: Graph) -> tuple[Node, str] | None:
    """The first such write of a graph of Dynamo's or torch.export's, and what is wrong with it; None where there is none."""
    for node in graph.nodes:
        for target in written(node):
            if _shares_elements(target):
                return node, "elements of what it writes to share memory"
            if any(_overlap(_part(node, target), v.meta[value_key(v)]) for v in node.all_input_nodes if v is not target and memory(v) is not None):
                return node, "it reads what it writes to in another place"
    return None


def overlaps(value: Any) -> bool:
    """Whether elements of a tensor may share memory, as those of ``unfold`` do; of sizes that vary, in the example."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided or (lies := _as_it_lies(value)) is None or 0 in lies[0]:
        return False
    end = 0
    for stride, size in sorted((s, n) for n, s in zip(*lies[:2]) if n > 1):
        if stride <= end:
            return True
        end += stride * (size - 1)
    return False


def written(node: Node) -> Iterator[Node]:
    """The tensors that a node of a graph of Dynamo's or torch.export's writes to."""
    if node.op not in ("call_function", "call_method"):
        return
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        found = [argument(node, a.name) for a in target._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    else:
        name = target if node.op == "call_method" else getattr(target, "__name__", "")
        found = [node.kwargs.get("out")]
        if node.args and (writes(node) or name in _SETITEM or _is_in_place(node)):
            found.append(node.args[0])
    nodes: list[Node] = []
    map_arg(found, nodes.append)
    yield from (n for n in nodes if memory(n) is not None)


def _is_in_place(node: Node) -> bool:
    """Whether a function is called with ``inplace=True``."""
    code = getattr(node.target, "__code__", None)
    if code is None or "inplace" not in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]:
        return False
    with_names = inspect.signature(node.target)
    return with_names.bind_partial(*node.args, **node.kwargs).arguments.get("inplace") is True


def _shares_elements(node: Node) -> bool:
    """Whether elements of a tensor share memory, or of one that it is a view of."""
    own, todo, seen = memory(node), [node], set()
    while todo:
        at = todo.pop()
        if overlaps(at.meta[value_key(at)]):
            return True
        seen.add(at)
        todo += [n for n in at.all_input_nodes if n not in seen and memory(n) == own]
    return False


def _part(node: Node, target: Node) -> Tensor:
    """What of ``target`` a node writes to, as far as that is known."""
    value = target.meta[value_key(target)]
    if getattr(node.target, "__name__", node.target) in _SETITEM and len(node.args) == 3:
        places = []
        map_arg(node.args[1], places.append)
        if not places and value.fake_mode is not None:
            with torch.no_grad(), value.fake_mode:
                return value[node.args[1]]
    return value


def _overlap(new: Tensor, read: Tensor) -> bool:
    """Whether eager finds two tensors of which each is one block of one memory to have some of it in common, but not element by element."""
    lies = [_as_it_lies(t) for t in (new, read)]
    if None in lies or lies[0] == lies[1] or new.untyped_storage()._cdata != read.untyped_storage()._cdata or overlaps(new) or overlaps(read):
        return False
    counts = [math.prod(shape) for shape, _, _ in lies]
    lengths = [1 + sum((n - 1) * s for n, s in zip(shape, strides)) for shape, strides, _ in lies]
    if 0 in counts or counts != lengths:
        return False
    begins = [offset * t.itemsize for (*_, offset), t in zip(lies, (new, read))]
    ends = [b + n * t.itemsize for b, n, t in zip(begins, counts, (new, read))]
    return max(begins) < min(ends)


def _as_it_lies(value: Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    """Shape, strides and offset, those that vary as in the example; None where there is none."""
    known = lambda n: n if type(n) is int else n.node.hint  # noqa: E731
    shape, strides, offset = tuple(map(known, value.shape)), tuple(map(known, value.stride())), known(value.storage_offset())
    return None if None in (*shape, *strides, offset) else (shape, strides, offset)


def value_key(node: Node) -> str:
    """The name under which a node's metadata has its value: Dynamo's own, or another's."""
    return "example_value" if "example_value" in node.meta else "val"


def memory(node: Node) -> int | None:
    """What tensors that share their elements have in common; None of what has no memory in a trace."""
    value = node.meta.get(value_key(node))
    if not isinstance(value, torch._subclasses.FakeTensor) or value.layout is not torch.strided:
        return None
    return value.untyped_storage()._cdata
