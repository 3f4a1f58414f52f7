"""Loops over tokens that Python has unrolled, h = a * h + b in each step, as one operation on all steps: thousands of launches become a scan.

The states h are those of ``inferno::recurrence`` where all factors are known to be between -1 and 1 (``value_ranges.py``), as decays are: it multiplies
them with each other, and products that overflow would be none of the loop's.  What the steps compute of tokens in front, and of states behind, up to where
all are put together, is computed at once (``batch_steps.py``).  Anything else stays as it is.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture.batch_steps import Steps, take_place, trace_on
from inferno.capture.nodes import copy_before, takes_sizes_that_vary
from inferno.capture.part_views import say_views
from inferno.capture.running import recurrence
from inferno.capture.value_ranges import value_range
from inferno.capture.written_selects import read_select

aten = torch.ops.aten
_LEAST = 8  # steps
_AS_IT_IS = (aten._to_copy.default, aten.copy.default, torch.ops.prims.convert_element_type.default)


def roll_loops(graph: Graph, decompositions: dict[Any, Callable]) -> None:
    """Rewrite ``graph``, of decomposed operations, in place; programs with sizes that vary stay as they are."""
    if sum(n.target is aten.select.int for n in graph.nodes) < 2 * _LEAST or takes_sizes_that_vary(graph):
        return
    parts: dict[Node, dict[str, Any]] = {}
    for chain in _chains(graph):
        _roll(graph, chain, decompositions, parts)
    if not parts:
        return
    done: set[Node] = set()
    for node in reversed([n for n in graph.nodes if n.target in (aten.cat.default, aten.where.self)]):
        if node not in done:
            _join(node, decompositions, done)
    graph.eliminate_dead_code()
    for part, meta in parts.items():
        say_views(part, meta)


# A step: its state, what the state before is multiplied by, and what is added.
Step = tuple[Node, Any, Any]


def _chains(graph: Graph) -> list[list[Step]]:
    """Sums that follow from each other, each the one before times a factor and something; the first one's factor and term are None where it is no step."""
    before: dict[Node, tuple[Node, Any, Any]] = {}
    sums = {n for n in graph.nodes if n.target is aten.add.Tensor and len(n.args) == 2 and n.kwargs.get("alpha", 1) == 1}
    taken: set[Node] = set()
    for node in graph.nodes:
        if node in sums and (found := _step(node, lambda n: n in sums and n not in taken)) is not None:
            before[node] = found
            taken.add(found[0])
    chains = []
    for end in [n for n in before if n not in taken]:
        chain = []
        while end in before:
            earlier, factor, term = before[end]
            chain.append((end, factor, term))
            end = earlier
        if len(chain) + 1 >= _LEAST:
            chains.append([(end, None, None), *reversed(chain)])
    return chains


def _step(node: Node, is_state: Callable[[Any], bool]) -> Step | None:
    """(the state before, the factor, the term) of a sum."""
    for product, term in (node.args, node.args[::-1]):
        if isinstance(product, Node) and product.target is aten.mul.Tensor:
            for state, factor in (product.args, product.args[::-1]):
                if is_state(state) and isinstance(factor, Node) and isinstance(term, Node):
                    return state, factor, term
    return None


def _roll(graph: Graph, chain: list[Step], decompositions: dict[Any, Callable], parts: dict[Node, dict[str, Any]]) -> None:
    """Compute the states at once, if that can be; ``parts`` gets what each of them is then, with what the graph said of it."""
    value = chain[1][0].meta["val"]
    if value.dtype != torch.float32 or any(n.meta["val"].shape != value.shape for n, _, _ in chain) or _range(chain[1][1]) is None:
        return
    first = _from_nothing(chain[0][0])
    steps = [*([first] if first is not None else []), *chain[1:]]
    factors = Steps.read([f for _, f, _ in steps]) or Steps.read([f for _, f, _ in chain[1:]])
    terms = Steps.read([t for _, _, t in steps])
    if factors is None or terms is None:
        return
    places, before, count = {n: i for i, n in enumerate(graph.nodes)}, chain[0][0] if first is not None else chain[0][0].next, len(chain)
    if any(places[n] > places[before] for n in (*factors.given, *terms.given)):
        return
    own = [f for f in (factors.make(before, decompositions), terms.make(before, decompositions)) if f is not None]
    if len(own) < 2:
        return
    given = own if first is not None else [*own, chain[0][0]]
    place = value.dim() if _along(terms) else _place(chain[-2][0], value.dim())

    def states(a: Tensor, b: Tensor, *start: Tensor) -> Tensor:
        if a.shape[0] < count:  # the first state is what is added, whatever its factor
            a = torch.cat([torch.zeros_like(a[:1]), a])
        b = b if not start else torch.cat([start[0].unsqueeze(0), _aligned(b, (count - 1, *value.shape)).to(torch.float32)])
        a, b = (_aligned(t, (count, *value.shape)).to(torch.float32) for t in (a, b))
        return recurrence(a.movedim(0, place), b.movedim(0, place), place).movedim(place, 0)

    traced = trace_on(states, given, decompositions)
    if traced is None:
        return
    known = copy_before(before, traced, given)
    made, own_nodes = known[traced.output_node().args[0]], set(known.values())
    for i, (node, _, _) in enumerate(chain):
        with graph.inserting_before(before):
            part = graph.call_function(aten.select.int, (made, 0, i))
            part.meta = {**node.meta, "val": aten.select.int(made.meta["val"], 0, i)}
        node.replace_all_uses_with(part, lambda user: user not in own_nodes)
        parts[part] = node.meta


def _aligned(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Steps of fewer dimensions than the state has."""
    return x.reshape(x.shape[0], *[1] * (len(shape) - x.dim()), *x.shape[1:]).expand(shape)


def _along(steps: Steps) -> bool:
    """Whether steps are neighbours in memory."""
    return all(dim in (-1, source.meta["val"].dim() - 1) for source, dim, _ in steps.parts.values())


def _place(state: Node, dims: int) -> int:
    """The dimension along which states are put together as they are; the first where they are not."""
    for user in state.users:
        while user.target in _AS_IT_IS and len(user.users) == 1:
            user = next(iter(user.users))
        if user.target is aten.unsqueeze.default:
            return user.args[1] % (dims + 1)
        if user.target is aten.cat.default:
            return (user.args[1] if len(user.args) > 1 else 0) % dims
    return 0


def _range(factor: Node) -> tuple[float, float] | None:
    """Between which numbers it is, if these are -1 and 1 or closer."""
    lo, hi = value_range(factor)
    return (lo, hi) if -1 <= lo and hi <= 1 else None


def _from_nothing(state: Node) -> Step | None:
    """The first step, if the state before is 0."""
    if state.target is aten.add.Tensor and len(state.args) == 2:
        for product, term in (state.args, state.args[::-1]):
            if isinstance(product, Node) and product.target is aten.mul.Tensor and isinstance(term, Node):
                for zero, factor in (product.args, product.args[::-1]):
                    if value_range(zero) == (0.0, 0.0) and isinstance(factor, Node) and _range(factor) is not None:
                        return state, factor, term
    return None


def _join(node: Node, decompositions: dict[Any, Callable], done: set[Node]) -> None:
    """Compute what is put together along a dimension at once, where it is alike; ``done`` gets what needs not be looked at again."""
    if node.target is aten.cat.default:
        values, dim = list(node.args[0]), node.args[1] if len(node.args) > 1 else 0
    else:
        values, dim = _written(node, done)
    if len(values) < _LEAST or any(v.meta["val"].shape != values[0].meta["val"].shape for v in values):
        return
    steps = Steps.read(values)
    if steps is None or not any(source.target is recurrence or _is_moved(source) for source, _, _ in steps.parts.values()):
        return
    value = node.meta["val"]
    dim %= value.dim()
    take_place(node, steps.make(node, decompositions, lambda x: x.movedim(0, dim).reshape(value.shape)))


def _is_moved(node: Node) -> bool:
    while node.op == "call_function" and node.target in (aten.permute.default, aten.transpose.int):
        node = node.args[0]
    return node.target is recurrence


def _written(node: Node, done: set[Node]) -> tuple[list[Node], int]:
    """What is written to all places along a dimension, one after the other (a ``select_scatter`` is a choice by an ``arange``), and the dimension."""
    found: dict[int, Node] = {}
    last, dim = node, None
    while node.target is aten.where.self and (part := read_select(node)) is not None:
        place, at, value = part
        if dim not in (None, at) or place in found or (node is not last and len(node.users) > 2):
            return [], 0
        done.add(node)
        dim, found[place], node = at, value, node.args[2]
        if not isinstance(node, Node):
            return [], 0
    if dim is None or set(found) != set(range(last.meta["val"].shape[dim])):
        return [], 0
    return [found[i] for i in range(len(found))], dim
