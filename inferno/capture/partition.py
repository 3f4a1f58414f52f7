"""Cut a graph of ATen operations into pieces that are compiled and pieces that run in eager, as few as possible.

A view is free: whoever reads it makes it, from the tensor that it is a view of.  So only the other operations are divided;
between two pieces that are compiled stands at least one operation that cannot be, and operations with an effect (random
numbers, collectives, writes) keep their order.
"""

import operator
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch.fx import Graph, Node

from inferno.capture import input_parts
from inferno.capture.draws import is_drawing, is_philox
from inferno.capture.nodes import value_meta
from inferno.capture.orders import inverse, permuted_order
from inferno.capture.sink import sink

aten = torch.ops.aten
_COLLECTIVES = ("_c10d_functional", "c10d_functional", "_dtensor", "c10d")
_SIZES = {aten.sym_size.int, aten.sym_stride.int, aten.sym_numel.default, aten.sym_storage_offset.default}

# Where a graph has eager pieces, a compiled piece of fewer operations is not worth a segment's call (2 us): eager runs it as fast.
_LEAST_OPERATIONS = 2


@dataclass(frozen=True)
class Piece:
    """Operations that run together, in order: as compiled kernels, or one by one in eager."""

    compiled: bool
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Part:
    """A compiled piece as a graph of its own: ``graph``'s placeholders are ``inputs`` of the whole graph and its results
    ``outputs`` there, both in dense row-major order: where a tensor has another order of dimensions, the graph permutes it.
    ``wholes``: for each input with gaps that is part of a tensor which the graph takes in its place, what of which shape; None for the others."""

    graph: Graph
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    wholes: tuple[tuple[input_parts.Part, tuple[int, ...]] | None, ...]

    @property
    def varies(self) -> bool:
        """Whether a size of an input varies, or an input is a size."""
        return _vary(self.inputs)


def partition(graph: Graph, refused: Mapping[Node, str]) -> list[Piece]:
    """The pieces of ``graph``, in an order that they can run in.  ``refused`` holds the nodes that cannot be compiled."""
    nodes = [n for n in graph.nodes if n.op in ("call_function", "call_module", "call_method") and not is_free(n, refused)]
    before = {n: _needs(n, refused) for n in nodes}
    for earlier, later in _ordered(nodes):
        before[later].add(earlier)
    waves = _waves(nodes, before, refused)
    if not any(not p.compiled for p in waves):
        return waves
    returned = {base_of(v, refused) for n in graph.nodes if n.op == "output" for v in n.all_input_nodes}
    reads = {n: set(read_by(n, refused)) for n in nodes}
    moved = sink([p.nodes for p in waves], [p.compiled for p in waves], reads, before, returned)
    waves = [Piece(p.compiled, tuple(m)) for p, m in zip(waves, moved) if m]
    small = [Piece(p.compiled and (len(operations(p.nodes)) >= _LEAST_OPERATIONS or any(map(is_philox, p.nodes))), p.nodes) for p in waves]
    merged: list[Piece] = []
    for piece in small:
        if merged and merged[-1].compiled == piece.compiled:
            merged[-1] = Piece(piece.compiled, (*merged[-1].nodes, *piece.nodes))
        else:
            merged.append(piece)
    return merged


def is_view(node: Node) -> bool:
    """Whether the operation gives a view of its first argument."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def is_collective(node: Node) -> bool:
    """Whether the operation exchanges data with other processes."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in _COLLECTIVES


def is_number(node: Node) -> bool:
    """Whether the node computes a size from sizes, or reads one off a tensor."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), (torch.SymInt, int)):
        return False
    return not isinstance(node.target, torch._ops.OpOverload) or node.target in _SIZES


def is_free(node: Node, refused: Mapping[Node, str]) -> bool:
    """Whether the readers of ``node`` make it: a view, an element of what an operation returned, or a size."""
    if node in refused or not node.all_input_nodes:
        return False
    return is_view(node) or node.target is operator.getitem or is_number(node)


def operations(nodes: Iterable[Node]) -> list[Node]:
    """The operations that read or compute something; numbers and constants cost nothing."""
    return [n for n in nodes if n.all_input_nodes and isinstance(n.meta.get("val"), (torch.Tensor, tuple, list))]


def extract(piece: Piece, refused: Mapping[Node, str]) -> Part:
    """The piece as a graph of its own."""
    return _Extraction(piece, refused).part(_wanted(piece, refused))


def _needs(node: Node, refused: Mapping[Node, str]) -> set[Node]:
    """The operations that must have run before ``node``, looking through what is free."""
    return {n for n in read_by(node, refused) if n.op not in ("placeholder", "get_attr")}


def read_by(node: Node, refused: Mapping[Node, str]) -> Iterable[Node]:
    """The values that ``node`` reads, looking through what is free."""
    todo = list(node.all_input_nodes)
    while todo:
        value = todo.pop()
        if is_free(value, refused):
            todo += value.all_input_nodes
        else:
            yield value


def _ordered(nodes: list[Node]) -> list[tuple[Node, Node]]:
    """Pairs that must keep their order beyond what data says."""
    pairs: list[tuple[Node, Node]] = []
    last: dict[str, Node] = {}
    barrier: Node | None = None
    for i, node in enumerate(nodes):
        if barrier is not None:
            pairs.append((barrier, node))
        kind = effect(node)
        if kind == "write":  # it may change what anyone reads
            pairs += [(n, node) for n in nodes[:i]]
            barrier = node
        elif kind:
            if kind in last:
                pairs.append((last[kind], node))
            last[kind] = node
    return pairs


def effect(node: Node) -> str:
    """What an operation does that others have to keep their order to: "write", "random", "collective" or nothing."""
    target = node.target
    if is_drawing(node):
        return "random"
    if isinstance(target, torch._ops.OpOverload):
        if target._schema.is_mutable:
            return "write"
        if torch.Tag.nondeterministic_seeded in target.tags:
            return "random"
        return "collective" if is_collective(node) else ""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return "write"
    return ""


def _waves(nodes: list[Node], before: dict[Node, set[Node]], refused: Mapping[Node, str]) -> list[Piece]:
    """Alternately all compiled operations that can run, and all eager ones.  States of a generator that wait for nothing come first:
    what needs them is compiled with what does not."""
    done: set[Node] = set()
    for node in nodes:
        if is_drawing(node) and before[node] <= done:
            done.add(node)
    pieces = [Piece(False, tuple(n for n in nodes if n in done))] if done else []
    left, compiled = [n for n in nodes if n not in done], True
    while left:
        wave, rest = [], []
        for node in left:
            if (node not in refused) == compiled and before[node] <= done:
                wave.append(node)
                done.add(node)
            else:
                rest.append(node)
        if wave:
            pieces.append(Piece(compiled, tuple(wave)))
        left, compiled = rest, not compiled
    return pieces


def _wanted(piece: Piece, refused: Mapping[Node, str]) -> list[Node]:
    """The tensors made in the piece that someone outside of it reads, through views or not."""
    inside = set(piece.nodes)
    wanted: dict[Node, None] = {}
    for node in readers(inside, refused):
        for value in node.all_input_nodes:
            for base in _bases(value, refused):
                if (base.args[0] if base.target is operator.getitem else base) in inside:
                    wanted[base] = None
    return list(wanted)


def readers(inside: Collection[Node], refused: Mapping[Node, str]) -> list[Node]:
    """Who reads elsewhere what is made ``inside``, looking through what is free, in the graph's order.  (Found from a piece, since a graph may have
    thousands of them.)"""
    found, seen, todo = [], set(inside), list(inside)
    while todo:
        for user in todo.pop().users:
            if user in seen:
                continue
            seen.add(user)
            (todo if user.op != "output" and is_free(user, refused) else found).append(user)
    return sorted(found)


def _bases(value: Node, refused: Mapping[Node, str]) -> list[Node]:
    """The values that are no free ones, of which ``value`` is made."""
    base = base_of(value, refused)
    if base is value and not is_number(value):
        return [value]
    found, todo = {}, [value]
    while todo:
        node = todo.pop()
        if base_of(node, refused) is node and not (is_number(node) and is_free(node, refused)):
            found[node] = None
        else:
            todo += node.all_input_nodes
    return list(found)


def base_of(value: Node, refused: Mapping[Node, str]) -> Node:
    """The tensor that ``value`` is a view of, or itself."""
    while is_free(value, refused) and not is_number(value):
        source = value.args[0]
        if value.target is operator.getitem and not (is_free(source, refused) and is_view(source)):
            break
        value = source
    return value


@dataclass
class _Extraction:
    """Copies the operations of a piece, the views that they read included, into a new graph."""

    piece: Piece
    refused: Mapping[Node, str]
    graph: Graph = field(default_factory=Graph)
    copies: dict[Node, Node] = field(default_factory=dict)
    inputs: list[Node] = field(default_factory=list)
    wholes: list[tuple[input_parts.Part, tuple[int, ...]] | None] = field(default_factory=list)

    def part(self, wanted: list[Node]) -> Part:
        inside = set(self.piece.nodes)
        external = {}
        for node in self.piece.nodes:
            for value in node.all_input_nodes:
                self._externals(value, inside, external)
        fixed = not _vary(external)
        for value in external:  # placeholders stand first in a graph
            self._placeholder(value, fixed)
        for value in external:
            self._restore(value)
        for node in self.piece.nodes:
            for value in node.all_input_nodes:
                self._copy_free(value)
            self._copy(node)
        results = []
        for value in wanted:
            self._copy_free(value)
            results.append(self._dense(value))
        self.graph.output(tuple(results))
        return Part(self.graph, tuple(self.inputs), tuple(wanted), tuple(self.wholes))

    def _externals(self, value: Node, inside: set[Node], found: dict[Node, None]) -> None:
        if value in inside:
            return
        if is_free(value, self.refused):
            source = value.args[0]
            while value.target is operator.getitem and source.target is operator.getitem:
                source = source.args[0]  # what a checkpoint runs returns tuples in tuples
            # An element of what an eager operation returned is a value of its own; everything else free is made here.
            if value.target is operator.getitem and source not in inside and not is_free(source, self.refused):
                found[value] = None
                return
            for operand in value.all_input_nodes:
                self._externals(operand, inside, found)
            return
        found[value] = None

    def _placeholder(self, value: Node, fixed: bool) -> None:
        node = self.graph.placeholder(value.name)
        self.inputs.append(value)
        self.wholes.append(input_parts.find_part(value.meta["val"]) if fixed else None)
        self.copies[value] = node
        node.meta = dict(value.meta)
        if (order := permuted_order(value.meta["val"])) is not None:
            node.meta = value_meta(value, value.meta["val"].permute(order))

    def _restore(self, value: Node) -> None:
        """Where the tensor has another order of dimensions in memory, the graph reads it permuted, and a part of a tensor it takes."""
        if (whole := self.wholes[self.inputs.index(value)]) is not None:
            self.copies[value] = input_parts.take_part(self.graph, self.copies[value], value.meta["val"], *whole)
        if (order := permuted_order(value.meta["val"])) is not None:
            self.copies[value] = self._call(aten.permute.default, (self.copies[value], inverse(order)), value, value.meta["val"])

    def _dense(self, value: Node) -> Node:
        if (order := permuted_order(value.meta["val"])) is None:
            return self.copies[value]
        return self._call(aten.permute.default, (self.copies[value], list(order)), value, value.meta["val"].permute(order))

    def _call(self, target: object, args: tuple, like: Node, value: torch.Tensor) -> Node:
        node = self.graph.call_function(target, args)
        node.meta = value_meta(like, value)
        return node

    def _copy_free(self, value: Node) -> None:
        if value in self.copies or not is_free(value, self.refused):
            return
        for operand in value.all_input_nodes:
            self._copy_free(operand)
        self._copy(value)

    def _copy(self, node: Node) -> None:
        if node not in self.copies:
            self.copies[node] = self.graph.node_copy(node, lambda n: self.copies[n])


def _vary(nodes: Iterable[Node]) -> bool:
    """Whether one of them is a size, or a tensor of which one varies."""
    examples = [n.meta["val"] for n in nodes]
    return any(isinstance(s, torch.SymInt) for e in examples for s in (e.shape if isinstance(e, torch.Tensor) else (e,)))
