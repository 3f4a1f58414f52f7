"""Batch a computation that a program repeats for one slice of its tensors after the other: it is done once, for all slices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from inferno.capture.nodes import copy_before
from inferno.capture.replace_operation import trace

aten, prims = torch.ops.aten, torch.ops.prims
_MOST = 48  # operations of a step


@dataclass
class Steps:
    """``nodes`` are made alike, the one of number i of element ``first`` + i along a dimension of some tensors (``parts``: (tensor, dimension, first)), by the
    same operations, of which ``order`` are the first node's."""

    nodes: Sequence[Node]
    parts: dict[Node, tuple[Node, int, int]] = field(default_factory=dict)
    shared: list[Node] = field(default_factory=list)
    order: list[Node] = field(default_factory=list)
    _seen: dict[Node, tuple[Node, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, nodes: Sequence[Node]) -> "Steps | None":
        found = cls(nodes)
        return found if found._match(tuple(nodes)) and found.parts else None

    @property
    def leaves(self) -> list[Node]:
        """The first node's own parts, which the step is a function of beside what is shared."""
        return [*self.parts]

    @property
    def given(self) -> list[Node]:
        """What has to be there."""
        return list(dict.fromkeys([*(source for source, _, _ in self.parts.values()), *self.shared]))

    def make(self, before: Node, decompositions: dict[Any, Callable], then: Callable[[Tensor], Tensor] = lambda x: x) -> Node | None:
        """``then`` of all nodes along a new first dimension, in front of a node; None where vmap has no rule for an operation."""
        sources, count = self.given, len(self.nodes)

        def call(*tensors: Tensor) -> Tensor:
            known = dict(zip(sources, tensors))
            moved = [(known[source].movedim(d, 0), first) for source, d, first in self.parts.values()]
            items = [t if t.shape[0] == count else t[first:first + count] for t, first in moved]
            rest = [known[s] for s in self.shared]
            return then(torch.vmap(self._one, in_dims=(0,) * len(items) + (None,) * len(rest))(*items, *rest))

        traced = trace_on(call, sources, decompositions)
        if traced is None:
            return None
        known = copy_before(before, traced, sources)
        return known[traced.output_node().args[0]]

    def _one(self, *tensors: Tensor) -> Tensor:
        known = dict(zip([*self.leaves, *self.shared], tensors))
        for node in self.order:
            args = map_arg(node.args, known.__getitem__)
            target = (lambda x, dtype: x.to(dtype)) if node.target is prims.convert_element_type.default else node.target
            known[node] = target(*args, **node.kwargs)
        return known[self.nodes[0]]

    def _match(self, nodes: tuple[Node, ...]) -> bool:
        first = nodes[0]
        if first in self._seen:
            return self._seen[first] == nodes
        self._seen[first] = nodes
        if all(n is first for n in nodes):
            self.shared.append(first)
            return True
        if any(n.op != "call_function" or n.target is not first.target or n.kwargs != first.kwargs for n in nodes):
            return False
        if first.target is aten.select.int and all(n.args[0] is first.args[0] and n.args[1] == first.args[1] for n in nodes):
            begin = first.args[2]
            if begin >= 0 and all(n.args[2] == begin + i for i, n in enumerate(nodes)):
                self.parts[first] = first.args
                return True
            return False
        if not _is_plain(first) or len(self.order) >= _MOST or any(len(n.args) != len(first.args) for n in nodes):
            return False
        matched = all(self._match_argument(values) for values in zip(*(n.args for n in nodes)))
        self.order.append(first)
        return matched

    def _match_argument(self, values: tuple) -> bool:
        first = values[0]
        if isinstance(first, Node):
            return all(isinstance(v, Node) for v in values) and self._match(values)
        if isinstance(first, (list, tuple)):
            return all(type(v) is type(first) and len(v) == len(first) for v in values) and all(map(self._match_argument, zip(*values)))
        return all(type(v) is type(first) and v == first for v in values)


def _is_plain(node: Node) -> bool:
    """Whether an operation is a function of tensors alone, and gives one."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims") or target._schema.is_mutable:
        return False
    return isinstance(node.meta.get("val"), Tensor) and torch.Tag.nondeterministic_seeded not in target.tags


def trace_on(call: Callable[..., Tensor], given: Sequence[Node], decompositions: dict[Any, Callable]) -> Graph | None:
    """The graph of a function of nodes' values; None where it cannot be traced."""
    before = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)  # which would call an operation for one step after the other
    try:
        return trace(call, given, decompositions)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):  # of what vmap, or an operation of more dimensions, does not know
        return None
    finally:
        torch._C._functorch._set_vmap_fallback_enabled(before)


def take_place(node: Node, made: Node | None) -> bool:
    """Let the readers of ``node`` read ``made``, which is copied if it lies otherwise in memory; whether it is of the same shape and type, and can lie so."""
    value = node.meta["val"]
    if made is None or made.meta["val"].shape != value.shape or made.meta["val"].dtype != value.dtype:
        return False
    if made.meta["val"].stride() != value.stride():
        with node.graph.inserting_before(node):
            made = node.graph.call_function(aten.clone.default, (made,), {"memory_format": torch.contiguous_format})
        made.meta = dict(node.meta)
    if made.meta["val"].stride() != value.stride():
        return False
    node.replace_all_uses_with(made)
    return True
