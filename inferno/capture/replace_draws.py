"""Operations that draw random numbers, as arithmetic on numbers that any kernel can compute by itself.

The numbers are torch's own, so which operations these are, and what each makes of a uniform number, is what torch's kernels for
NVIDIA GPUs do.  What draws in another way (normal numbers, probabilities in a tensor, permutations, other generators) stays.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture.draws import Generator, draw_states, philox
from inferno.capture.nodes import argument, value_meta
from inferno.capture.orders import dense_order, inverse
from inferno.capture.partition import effect
from inferno.philox import Draw, threads_of

aten, prims = torch.ops.aten, torch.ops.prims

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
# What rounds to 1, which torch makes 0: half the distance to the largest number below it.
_ROUNDS_TO_ONE = {torch.float32: 1.0, torch.float64: 1.0, torch.float16: 1 - 2.0**-12, torch.bfloat16: 1 - 2.0**-9}
_MOST_BYTES = 2**31 - 1  # beyond that torch makes several launches
_WIDEST_SPAN = 2**28  # beyond that torch takes two words for an integer


@dataclass(frozen=True)
class _Drawn:
    """An operation as a draw, and what it makes of the numbers, which are in the order of dimensions ``order``."""

    draw: Draw
    order: tuple[int, ...]
    make: Callable[["_Writer", Node], tuple[Node, ...]]


def replace_draws(graph: Graph, generator: Generator) -> bool:
    """Rewrite, in place, the operations that draw from the generator; whether there are any.

    Consecutive ones get their states together; what else draws keeps its place among them.
    """
    group: Node | None = None
    increments: dict[Node, list[int]] = {}
    seeds: dict[Node, Node] = {}
    for node in list(graph.nodes):
        drawn = _drawn(node, generator)
        if drawn is None:
            if effect(node) in ("random", "write") or node.op in ("call_module", "call_method"):
                group = None
            continue
        writer = _Writer(graph, node)
        if group is None:
            group = writer.add(draw_states, (generator, ()), [])
            seeds[group] = writer.add(operator.getitem, (group, 0), writer.state())
            increments[group] = []
        increments[group].append(drawn.draw.increment)
        offset = writer.add(operator.getitem, (group, len(increments[group])), writer.state())
        value = _example(node)
        dtype = torch.int64 if drawn.draw.kind == "integer" else getattr(torch, drawn.draw.kind)
        numbers = writer.add(philox, (seeds[group], offset, drawn.draw), value.new_empty(drawn.draw.shape, dtype=dtype))
        if drawn.order != tuple(range(len(drawn.order))):
            numbers = writer.call(aten.permute.default, numbers, list(inverse(drawn.order)))
        writer.replace(drawn.make(writer, numbers))
    for drawing, amounts in increments.items():
        drawing.args = (generator, tuple(amounts))
        state = seeds[drawing].meta["val"]
        drawing.meta["val"] = [state] * (1 + len(amounts))
    return bool(increments)


def draws(graph: Graph, generator: Generator) -> bool:
    """Whether ``replace_draws`` would find an operation."""
    return any(_drawn(node, generator) is not None for node in graph.nodes)


def _example(node: Node) -> Tensor:
    value = node.meta["val"]
    return value if isinstance(value, Tensor) else value[0]


def _drawn(node: Node, generator: Generator) -> _Drawn | None:
    rule = _RULES.get(node.target) if node.op == "call_function" else None
    if rule is None or node.kwargs.get("generator") is not None:
        return None
    value = _example(node)
    if value.device != generator.device or value.layout is not torch.strided or any(not isinstance(n, int) for n in (*value.shape, *value.stride())):
        return None
    if not value.numel() or value.numel() * value.element_size() > _MOST_BYTES or dense_order(value) is None:
        return None
    return rule(node, value, generator)


def _plain(value: Tensor, generator: Generator, kind: str, make: Callable, span: int = 1, base: int = 0) -> _Drawn | None:
    """A draw whose threads go over the elements as they lie in memory, one after the other."""
    if not generator.draws_alike(kind):
        return None
    order = dense_order(value)
    shape = tuple(value.shape[d] for d in order)
    return _Drawn(Draw(kind, shape, threads_of(value.numel(), generator.most_threads), 0, span, base), order, make)


def _uniform(node: Node, value: Tensor, generator: Generator) -> _Drawn | None:
    if value.dtype not in _FLOATS or (node.target is aten.uniform.default and _range(node) != (0, 1)):
        return None

    def make(w: "_Writer", u: Node) -> tuple[Node, ...]:
        highest = w.call(aten.ge.Scalar, u, _ROUNDS_TO_ONE[value.dtype])
        return (w.cast(w.call(aten.where.self, highest, w.call(aten.zeros_like.default, u), u), value.dtype),)

    return _plain(value, generator, _kind(value), make)


def _range(node: Node) -> tuple[Any, Any]:
    given = dict(zip(("self", "from", "to"), node.args)) | node.kwargs
    return given.get("from", 0), given.get("to", 1)


def _bernoulli(node: Node, value: Tensor, generator: Generator) -> _Drawn | None:
    p = dict(zip(("self", "p"), node.args)) | node.kwargs
    p = p.get("p", 0.5)
    if not isinstance(p, (int, float)) or not 0 <= p <= 1:
        return None
    limit = _in(_kind(value), p)
    return _plain(value, generator, _kind(value), lambda w, u: (w.cast(w.call(aten.lt.Scalar, u, limit), value.dtype),))


def _integers(node: Node, value: Tensor, generator: Generator) -> _Drawn | None:
    low, high = argument(node, "low"), argument(node, "high")
    low = 0 if low is None else low  # of those that have none
    if value.dtype not in (torch.int64, torch.int32) or type(low) is not int or type(high) is not int or not 0 < high - low < _WIDEST_SPAN:
        return None
    return _plain(value, generator, "integer", lambda w, n: (w.cast(n, value.dtype),), high - low, low)


def _dropout(node: Node, value: Tensor, generator: Generator) -> _Drawn | None:
    names = ("input", "p", "train")
    given = dict(zip(names, node.args)) | node.kwargs
    source, p, train = (given.get(n) for n in names)
    most = generator.dropout_vector(value.dtype)
    if train is False or not isinstance(p, (int, float)) or not 0 <= p < 1 or value.dtype not in _FLOATS or not most:
        return None
    order, vector = _vector(source.meta["val"], most)
    draw = Draw("float32", tuple(value.shape[d] for d in order), threads_of(value.numel(), generator.most_threads), vector)
    wide = torch.float64 if value.dtype is torch.float64 else torch.float32
    kept = 1.0 - p
    limit = _in(str(wide).removeprefix("torch."), kept)
    scale = _in(str(wide).removeprefix("torch."), 1.0 / limit)

    def make(w: "_Writer", u: Node) -> tuple[Node, ...]:
        mask = w.call(aten.lt.Scalar, w.cast(u, wide), limit)
        product = w.call(aten.mul.Tensor, w.cast(source, wide), w.cast(mask, wide))
        return w.cast(w.call(aten.mul.Scalar, product, scale), value.dtype), mask

    return _Drawn(draw, order, make)


def _vector(source: Tensor, most: int) -> tuple[tuple[int, ...], int]:
    """In which order torch's dropout goes over its input, and how many neighbours a thread takes: as many as are aligned together
    and leave none over.  One by one it goes by indices, not by memory."""
    rows, order = tuple(range(source.dim())), dense_order(source)
    if order is None:
        return rows, 0
    vector, offset = most, source.storage_offset()
    while vector > 1 and (offset % vector or source.numel() % vector):
        vector //= 2
    return (order, vector) if vector > 1 else (rows, 0)


def _kind(value: Tensor) -> str:
    return "float64" if value.dtype is torch.float64 else "float32"


def _in(kind: str, number: float) -> float:
    """The number rounded to the type that torch's kernel has it in."""
    return torch.tensor(number, dtype=getattr(torch, kind), device="cpu").item()


_RULES: dict[Any, Callable[[Node, Tensor, Generator], _Drawn | None]] = {
    aten.native_dropout.default: _dropout, aten.rand.default: _uniform, aten.rand_like.default: _uniform, aten.uniform.default: _uniform,
    aten.bernoulli.p: _bernoulli, aten.randint.default: _integers, aten.randint.low: _integers, aten.randint_like.default: _integers,
    aten.randint_like.low_dtype: _integers,
}


@dataclass
class _Writer:
    """Adds operations in front of ``node``, and puts them in its place."""

    graph: Graph
    node: Node

    def add(self, target: Any, args: tuple, value: Any) -> Node:
        with self.graph.inserting_before(self.node):
            made = self.graph.call_function(target, args)
        made.meta = value_meta(self.node, value)
        return made

    def call(self, target: Any, *args: Any) -> Node:
        return self.add(target, args, target(*(a.meta["val"] if isinstance(a, Node) else a for a in args)))

    def cast(self, value: Node, dtype: torch.dtype) -> Node:
        return value if value.meta["val"].dtype == dtype else self.call(prims.convert_element_type.default, value, dtype)

    def state(self) -> Tensor:
        return _example(self.node).new_empty((), dtype=torch.int64)

    def replace(self, made: tuple[Node, ...]) -> None:
        """Let the readers of the operation read ``made``, which have the memory layouts that its results have."""
        values = self.node.meta["val"]
        if isinstance(values, Tensor):
            made[0].meta["val"] = values
            self.node.replace_all_uses_with(made[0])
        else:
            for user in list(self.node.users):
                part = made[user.args[1]]
                part.meta["val"] = user.meta["val"]
                user.replace_all_uses_with(part)
                self.graph.erase_node(user)
        self.graph.erase_node(self.node)
