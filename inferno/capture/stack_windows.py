"""Roll Python's loops over shifts of a tensor, as of correlation volumes, into one sum over a view of all shifts.

``torch.stack([(a * b[..., i:i + h, j:j + w]).mean(1) for i in range(9) for j in range(9)], 1)`` is 81 reductions of 81 parts; over two dimensions more, along
which windows of ``b`` move, it is one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture.batch_steps import Steps, take_place, trace_on
from inferno.capture.nodes import copy_before, is_pointwise, takes_sizes_that_vary

aten = torch.ops.aten
_LEAST = 8  # windows
_MOST_DIMENSIONS = 3  # along which they move
_SUMS = {aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default}
_VIEWS = {
    aten.view.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.expand.default, aten.permute.default, aten.alias.default,
    aten.slice.Tensor, aten.select.int,
}


@dataclass(frozen=True)
class Windows:
    """Parts of ``source``, all of ``size``: from ``first`` on in each dimension, and along ``dims``, the outermost first, moved by ``steps``."""

    source: Node
    size: tuple[int, ...]
    first: tuple[int, ...]
    dims: tuple[int, ...]
    steps: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def read(cls, nodes: Sequence[Node]) -> "Windows | None":
        found = [_part(n) for n in nodes]
        source, size = found[0][0], tuple(nodes[0].meta["val"].shape)
        if any(s is not source or tuple(n.meta["val"].shape) != size for n, (s, _) in zip(nodes, found)):
            return None
        begins = list(zip(*(begin for _, begin in found)))
        moved = [d for d, places in enumerate(begins) if len(set(places)) > 1]
        if not moved or len(moved) > _MOST_DIMENSIONS or prod(len(set(begins[d])) for d in moved) != len(nodes):
            return None
        for dims in permutations(moved):
            counts = tuple(len(set(begins[d])) for d in dims)
            steps = tuple(begins[d][prod(counts[i + 1:])] - begins[d][0] for i, d in enumerate(dims))
            each = [[begins[d][0] + t * (k // prod(counts[i + 1:]) % counts[i]) for k in range(len(nodes))] for i, (d, t) in enumerate(zip(dims, steps))]
            if min(steps) > 0 and all(tuple(e) == begins[d] for e, d in zip(each, dims)):
                return cls(source, size, tuple(b[0] for b in begins), dims, steps, counts)
        return None

    def take(self, x: Tensor) -> Tensor:
        """All of them, along new first dimensions."""
        for d, (begin, size) in enumerate(zip(self.first, self.size)):
            reach = (self.counts[self.dims.index(d)] - 1) * self.steps[self.dims.index(d)] if d in self.dims else 0
            x = x.narrow(d, begin, reach + size)
        for d, step in zip(self.dims, self.steps):
            x = x.unfold(d, self.size[d], step)  # of which the places within lie behind all dimensions
        within = {d: len(self.size) + i for i, d in enumerate(self.dims)}
        return x.permute(*self.dims, *(within.get(d, d) for d in range(len(self.size))))


@dataclass
class _Stack(Steps):
    """Steps of windows, which all move over the same ``grid``."""

    windows: dict[Node, Windows] = field(default_factory=dict)

    @property
    def leaves(self) -> list[Node]:
        return [*self.parts, *self.windows]

    @property
    def given(self) -> list[Node]:
        return list(dict.fromkeys([*super().given, *(w.source for w in self.windows.values())]))

    @property
    def grid(self) -> tuple[int, ...]:
        return next(iter(self.windows.values())).counts

    @property
    def adds_up(self) -> bool:
        """Whether a step is a function of points, sums of that, and a function of these: no more of all steps would be in memory than their results."""
        sums = [n for n in self.order if n.target in _SUMS]
        if not sums or not all(n in sums or n.target in _VIEWS or is_pointwise(n) for n in self.order):
            return False
        most, behind = max(map(_numel, sums)), set(sums)
        for node in self.order:
            if not behind.isdisjoint(node.all_input_nodes):
                behind.add(node)
        return all(_numel(n) <= most for n in behind)

    def make(self, before: Node, decompositions: dict[Any, Callable], then: Callable[[Tensor], Tensor] = lambda x: x) -> Node | None:
        sources = self.given

        def call(*tensors: Tensor) -> Tensor:
            known, count = dict(zip(sources, tensors)), len(self.nodes)
            items = [known[source].narrow(d, first, count).movedim(d, 0).unflatten(0, self.grid) for source, d, first in self.parts.values()]
            items += [w.take(known[w.source]) for w in self.windows.values()]
            rest, each = [known[s] for s in self.shared], self._one
            for _ in self.grid:
                each = torch.vmap(each, in_dims=(0,) * len(items) + (None,) * len(rest))
            return then(each(*items, *rest))

        traced = trace_on(call, sources, decompositions)
        return None if traced is None else copy_before(before, traced, sources)[traced.output_node().args[0]]

    def _match(self, nodes: tuple[Node, ...]) -> bool:
        first = nodes[0]
        if first not in self._seen and first.target is aten.slice.Tensor and all(n.target is aten.slice.Tensor for n in nodes):
            found = Windows.read(nodes)
            if found is not None and (not self.windows or found.counts == self.grid):
                self._seen[first], self.windows[first] = nodes, found
                return True
        return super()._match(nodes)


def stack_windows(graph: Graph, decompositions: dict[Any, Callable]) -> None:
    """Rewrite ``graph``, of decomposed operations, in place; programs with sizes that vary stay as they are."""
    nodes = [n for n in graph.nodes if n.target is aten.cat.default and len(n.args[0]) >= _LEAST]
    if not nodes or takes_sizes_that_vary(graph):
        return
    changed = False
    for node in nodes:
        changed = _join(node, decompositions) or changed
    if changed:
        graph.eliminate_dead_code()


def _join(node: Node, decompositions: dict[Any, Callable]) -> bool:
    values, dim, value = list(node.args[0]), node.args[1] if len(node.args) > 1 else 0, node.meta["val"]
    if any(v.meta["val"].shape != values[0].meta["val"].shape or v.meta["val"].dtype != value.dtype for v in values):
        return False
    steps, dim = _Stack(values), dim % value.dim()
    if not steps._match(tuple(values)) or not steps.windows or not steps.adds_up:
        return False
    grid = len(steps.grid)

    def put_together(x: Tensor) -> Tensor:
        return x.movedim(tuple(range(grid)), tuple(range(dim, dim + grid))).reshape(value.shape)

    return take_place(node, steps.make(node, decompositions, put_together))


def _part(node: Node) -> tuple[Node, list[int]]:
    """The tensor that a slice, maybe of a slice, is a part of, and where it begins."""
    begins = [0] * node.meta["val"].dim()
    while node.target is aten.slice.Tensor and (len(node.args) < 5 or node.args[4] == 1) and not node.kwargs:
        source = node.args[0]
        d = (node.args[1] if len(node.args) > 1 else 0) % len(begins)
        begin, size = (node.args[2] if len(node.args) > 2 else 0) or 0, source.meta["val"].shape[d]
        begins[d] += min(max(begin + size if begin < 0 else begin, 0), size)
        node = source
    return node, begins


def _numel(node: Node) -> int:
    value = node.meta.get("val")
    return value.numel() if isinstance(value, Tensor) else 0
