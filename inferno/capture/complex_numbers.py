"""Complex numbers as pairs of real ones: rotary embeddings by ``view_as_complex(x) * table`` are arithmetic that every generator knows.

Each operation that is known here is computed of the real and imaginary parts of its arguments, and what nothing reads as a complex number any more is none.
An argument that is read so alone comes as what ``view_as_real`` makes of it, and results go as that for a GPU, which lies in the same memory.
What is not known stays, and gets numbers that are put together of their parts.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from inferno.capture import complex_products
from inferno.capture.complex_functions import REAL, RULES, Parts
from inferno.capture.devices import for_gpu
from inferno.capture.nodes import call_beside, value_meta

aten, prims = torch.ops.aten, torch.ops.prims

# What does the same to both parts.
_EACH = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default, aten.permute.default, aten.transpose.int, aten.t.default,
    aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, prims.squeeze.default, aten.unsqueeze.default, aten.slice.Tensor, aten.clone.default,
    aten.alias.default, aten.detach.default, aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_select.default, aten.flip.default,
    aten.repeat.default, aten.roll.default, aten.cat.default, aten.stack.default, aten.neg.default, aten.sum.dim_IntList, aten.mean.dim,
    aten.lift_fresh_copy.default, aten.resolve_neg.default, aten.diagonal.default, aten.mean.default, aten.sum.default, aten.cumsum.default,
    aten.gather.default, aten.unfold.default, aten.embedding.default,
}
# What sees the same numbers in another shape, and what makes the same of pairs.
_VIEWS: dict[Any, Callable] = {
    **dict.fromkeys(
        (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims,
         prims.squeeze.default), aten.view.default,
    ),
    aten.expand.default: aten.expand.default,
}
_OF_SIZES = {aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default}


def split_complex(graph: Graph) -> None:
    """Rewrite ``graph`` in place."""
    if any(_is_complex(n) for n in graph.nodes):
        _Split(graph).run()


def _is_complex(value: Any) -> bool:
    example = value.meta.get("val") if isinstance(value, Node) else None
    return isinstance(example, Tensor) and example.dtype in REAL


class _Split:
    """The parts of the graph's complex numbers, as far as they are known."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._parts: dict[Node, Parts] = {}
        self._whole: dict[Node, Node] = {}
        self._pairs: dict[Parts, Node] = {}
        self._paired: dict[Node, Parts] = {}  # the same by the pairs

    def run(self) -> None:
        for node in list(self._graph.nodes):
            of_pairs = node.target == aten.select.int and node.args[0] in self._paired
            if node.op == "output" or not (of_pairs or any(map(_is_complex, (node, *node.all_input_nodes)))):
                continue
            with self._graph.inserting_after(node) if node.op == "placeholder" else self._graph.inserting_before(node):
                self._node = node
                self._rewrite(node)
        output = self._graph.output_node()
        with self._graph.inserting_before(output):
            output.args = map_arg(output.args, self._given_back)
        self._graph.eliminate_dead_code()
        for node in self._graph.nodes:
            if node.op == "placeholder" and _is_complex(node):
                _take_real(node)

    def _rewrite(self, node: Node) -> None:
        rule = _RULES.get(node.target)
        made = rule(self, *node.args, **node.kwargs) if rule is not None and node.op == "call_function" else None
        if node.target in _EACH:
            made = self._each(node)
        if isinstance(made, tuple) and any(isinstance(p, Node) for p in made):
            like = next(p for p in made if isinstance(p, Node))
            made = tuple(p if isinstance(p, Node) else self.call(aten.full_like.default, like, p or 0.0) for p in made)
        elif isinstance(made, tuple) and _is_complex(node):  # of a number: the conjugate of ``1j`` that a gradient is multiplied by
            value = node.meta["val"]
            made = tuple(self.call(aten.full.default, list(value.shape), p or 0.0, dtype=REAL[value.dtype], device=value.device) for p in made)
        if isinstance(made, tuple) and self._fits(made, node):
            self._parts[node] = tuple(self._spread(p, node) for p in made)
        elif isinstance(made, Node) and _describe(made.meta["val"]) == _describe(node.meta["val"]):
            node.replace_all_uses_with(made)
        elif node.op == "call_function":
            node.args, node.kwargs = map_arg((node.args, node.kwargs), self._put_together)

    def _each(self, node: Node) -> Parts:
        joined = {n for a in node.args if isinstance(a, (list, tuple)) and any(map(_is_complex, a)) for n in a}

        def given(value: Node, i: int) -> Node:
            if _is_complex(value):
                return self.of(value)[i]
            return self.call(aten.zeros_like.default, value) if i and value in joined else value  # a real tensor beside complex ones

        first, second = (self.call(node.target, *map_arg(node.args, lambda n, i=i: given(n, i)), **node.kwargs) for i in (0, 1))
        return first, second

    def _fits(self, made: Parts, node: Node) -> bool:
        return _is_complex(node) and all(isinstance(p, Node) and p.meta["val"].dtype == REAL[node.meta["val"].dtype] for p in made)

    def _spread(self, part: Node, node: Node) -> Node:
        shape, had = node.meta["val"].shape, part.meta["val"].shape
        if had == shape:
            return part
        kept = [-1 if i >= 0 and n == had[i] else n for i, n in enumerate(shape, len(had) - len(shape))]  # sizes that vary are no numbers of a graph
        return self.call(aten.expand.default, part, kept)

    def _put_together(self, node: Node) -> Node:
        """A complex number as one again, where its parts were computed."""
        if node not in self._parts or node.op == "placeholder":
            return node
        if node not in self._whole:
            self._node = node
            self._whole[node] = self.call(aten.complex.default, *self._parts[node])
        return self._whole[node]

    def _given_back(self, node: Node) -> Node:
        """The same for who calls: on a GPU as pairs, which lie in memory as the numbers do (see ``plan.complex_numbers``).  On a CPU what puts the
        parts together would be a loop of its own: of 512x2048 products 7.3 ms, with numbers 0.6."""
        if node not in self._parts or node.op == "placeholder" or not for_gpu(node.meta["val"]):
            return self._put_together(node)
        self._node = node
        return self.pairs(node)

    def of(self, value: Any) -> Parts:
        """The real and the imaginary part of a node or number."""
        if not _is_complex(value):
            return (value.real, value.imag) if isinstance(value, complex) else (value, None)
        if value not in self._parts:
            self._parts[value] = self.call(aten.real.default, value), self.call(aten.imag.default, value)
            if value.op == "placeholder":
                self.are_pairs(self._parts[value], _whole_pairs(value))
        return self._parts[value]

    def pairs(self, value: Node) -> Node:
        """The parts side by side, along a last dimension: what is there already, views of it, or what puts them together."""
        parts = self.of(value)
        if parts not in self._pairs:
            self.are_pairs(parts, self._seen_otherwise(value) or self.call(aten.stack.default, list(parts), -1))
        return self._pairs[parts]

    def has_pairs(self, value: Node) -> bool:
        """Whether nothing has to be put together for them."""
        return self.of(value) in self._pairs or (value.target in _VIEWS and _is_complex(value.args[0]) and self.has_pairs(value.args[0]))

    def _seen_otherwise(self, value: Node) -> Node | None:
        if not self.has_pairs(value):
            return None
        sizes = [*value.meta["val"].shape, 2]
        if all(type(n) is int for n in sizes):
            return self.call(_VIEWS[value.target], self.pairs(value.args[0]), sizes)
        if value.target is aten.unsqueeze.default:  # sizes that vary are no numbers of a graph
            return self.call(value.target, self.pairs(value.args[0]), value.args[1] % value.meta["val"].dim())
        return self.call(_VIEWS[value.target], self.pairs(value.args[0]), [*value.args[1], 2]) if value.target in _OF_SIZES else None

    def are_pairs(self, parts: Parts, pairs: Node) -> None:
        self._pairs[parts], self._paired[pairs] = pairs, parts

    def selected(self, x: Node, dim: int, number: int) -> Node | Parts:
        """Of pairs, one of their parts; of complex numbers both parts' own."""
        if _is_complex(x):
            return self._each(self._node)
        last = x.meta["val"].dim() - 1
        return self._paired[x][number] if dim % (last + 1) == last else self._node

    def call(self, target: Callable, *args: Any, **kwargs: Any) -> Node:
        return call_beside(self._node, target, *args, **kwargs)


def _whole_pairs(node: Node) -> Node:
    """An argument as pairs; a conjugate that nobody has computed yet is resolved at the call."""
    pairs = node.graph.call_function(aten.view_as_real.default, (node,))
    pairs.meta = value_meta(node, torch.view_as_real(node.meta["val"].resolve_conj()))
    return pairs


def _describe(value: Any) -> tuple:
    return (value.shape, value.dtype) if isinstance(value, Tensor) else (value,)


def _take_real(node: Node) -> None:
    """Let an argument of which only the parts are read come as pairs."""
    places = {aten.real.default: 0, aten.imag.default: 1}
    if any(u.target not in places and u.target != aten.view_as_real.default for u in node.users):
        return
    node.meta = value_meta(node, torch.view_as_real(node.meta["val"].resolve_conj()))
    for user in list(node.users):
        if user.target == aten.view_as_real.default:
            user.replace_all_uses_with(node)
            node.graph.erase_node(user)
        else:
            user.target, user.args = aten.select.int, (node, node.meta["val"].dim() - 1, places[user.target])


# What is computed of the parts.  None, or parts of another type than the result's, leave the operation as it is.


def _sum(target: Callable) -> Callable:
    def rule(split: _Split, x: Any, y: Any, *, alpha: Any = 1) -> Parts | None:
        if isinstance(alpha, complex):
            return None
        (a, b), (c, d) = split.of(x), split.of(y)
        real = _of_tensor(split, target, a, c, alpha)
        if d is None:
            return real, b
        if b is None:
            d = _scaled(split, d, alpha)
            return real, (_negated(split, d) if target is aten.sub.Tensor else d)
        return real, _of_tensor(split, target, b, d, alpha)

    return rule


def _of_tensor(split: _Split, target: Callable, x: Any, y: Any, alpha: Any) -> Node:
    if isinstance(x, Node):
        return split.call(target, x, y, **({} if alpha == 1 else {"alpha": alpha}))
    y = _scaled(split, y, alpha)
    return split.call(aten.add.Tensor, _negated(split, y) if target is aten.sub.Tensor else y, x)


def _scaled(split: _Split, x: Node | float, alpha: Any) -> Node | float:
    if alpha == 1:
        return x
    return split.call(aten.mul.Tensor, x, alpha) if isinstance(x, Node) else x * alpha


def _exponential(split: _Split, x: Node) -> Parts:
    a, b = split.of(x)
    size = split.call(aten.exp.default, a)
    return tuple(split.call(aten.mul.Tensor, size, split.call(f, b)) for f in (aten.cos.default, aten.sin.default))


def _converted(split: _Split, x: Node, dtype: torch.dtype | None = None, **options: Any) -> Parts | Node | None:
    dtype = dtype or x.meta["val"].dtype
    if dtype == torch.bool and _is_complex(x):
        return RULES[aten.ne.Scalar](split, x, 0)
    if options.get("device") not in (None, x.meta["val"].device) or (dtype not in REAL and not dtype.is_floating_point):
        return None
    a, b = (p if p is None else split.call(prims.convert_element_type.default, p, REAL.get(dtype, dtype)) for p in split.of(x))
    if dtype not in REAL:
        return a
    return a, split.call(aten.zeros_like.default, a) if b is None else b


def _copied(split: _Split, x: Node, source: Node, non_blocking: bool = False) -> Parts | Node | None:
    return _converted(split, source, x.meta["val"].dtype)


def _put(split: _Split, x: Node, indices: Any, values: Node, accumulate: bool = False) -> Parts | None:
    """As pairs, of which an index tells both parts."""
    if not _is_complex(values):
        return None
    found = split.call(aten.index_put.default, split.pairs(x), indices, split.pairs(values), accumulate)
    parts = tuple(split.call(aten.select.int, found, found.meta["val"].dim() - 1, i) for i in (0, 1))
    split.are_pairs(parts, found)
    return parts


def _pairs(split: _Split, x: Node) -> Parts:
    """Of a row that was split into pairs every other element, which is read where it is."""
    row = x.args[0] if x.op == "call_function" and x.target in (aten.view.default, aten._unsafe_view.default, aten.reshape.default) else None
    if row is not None and (*row.meta["val"].shape[:-1], -1) == (*x.meta["val"].shape[:-2], -1) and row.meta["val"].shape[-1] == 2 * x.meta["val"].shape[-2]:
        return tuple(split.call(aten.slice.Tensor, row, row.meta["val"].dim() - 1, i, sys.maxsize, 2) for i in (0, 1))
    return tuple(split.call(aten.select.int, x, x.meta["val"].dim() - 1, i) for i in (0, 1))


def _conjugate(split: _Split, x: Node) -> Parts:
    a, b = split.of(x)
    return a, _negated(split, b)


def _negated(split: _Split, x: Node | float) -> Node | float:
    return split.call(aten.neg.default, x) if isinstance(x, Node) else -x


_RULES: dict[Any, Callable] = {
    **RULES,
    **complex_products.RULES,
    aten.view_as_complex.default: _pairs,
    aten.view_as_real.default: _Split.pairs,
    aten.select.int: _Split.selected,
    aten.index_put.default: _put,
    aten._unsafe_index_put.default: _put,
    aten.copy.default: _copied,
    aten.complex.default: lambda split, a, b: (a, b),
    aten.real.default: lambda split, x: split.of(x)[0],
    aten.imag.default: lambda split, x: split.of(x)[1],
    aten.add.Tensor: _sum(aten.add.Tensor),
    aten.sub.Tensor: _sum(aten.sub.Tensor),
    aten.exp.default: _exponential,
    aten._conj.default: _conjugate,
    aten.conj_physical.default: _conjugate,
    aten._conj_physical.default: _conjugate,
    aten.resolve_conj.default: lambda split, x: split.of(x),
    aten._to_copy.default: _converted,
    prims.convert_element_type.default: _converted,
}
