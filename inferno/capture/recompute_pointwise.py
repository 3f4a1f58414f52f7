"""Recompute elementwise results of an earlier piece in a piece that reads their operands anyway, instead of storing them there and loading them here.

A backward recomputes an activation for the gradient of a convolution's weight, which is the library's.  What the chain rule needs of it behind
that, as the sigmoid in SiLU's derivative, is the first piece's then, as float32: three times as many bytes as the image that it is made of.
``sink`` moves operations to later pieces, but what both read would stay in the first.

Nothing is computed again behind a write, which may have changed what it was made of.
"""

from collections.abc import Collection, Mapping, Sequence

import torch
from torch.fx import Graph, Node

from inferno.capture.nodes import is_pointwise, value_bytes
from inferno.capture.partition import Piece, effect, is_free, read_by
from inferno.capture.rematerialise import COMPARISONS

_MOST_STEPS = 16  # an element is read and written in the time of 100 additions, or 10 functions


def recompute_pointwise(graph: Graph, pieces: Sequence[Piece], refused: Mapping[Node, str]) -> bool:
    """Rewrite ``graph``, which is divided into ``pieces``: readers of such values get copies of what makes them.  Whether there are such."""
    place = {n: i for i, piece in enumerate(pieces) for n in piece.nodes}
    (output,) = (n for n in graph.nodes if n.op == "output")
    there = {n for n in graph.nodes if n.op in ("placeholder", "get_attr")} | set(read_by(output, refused))
    for piece in pieces:
        if not piece.compiled:
            there.update(piece.nodes, *(read_by(n, refused) for n in piece.nodes))
    writes, found = [n for n in place if effect(n) == "write"], False
    for number, piece in enumerate(pieces):
        if piece.compiled:
            again = _again(piece, number, place, there, writes, refused)
            _copy(piece, again, refused)
            found = found or bool(again)
    for node in reversed(graph.nodes) if found else ():
        if node.op == "call_function" and not node.users and (node in place or is_free(node, refused)) and is_pointwise(node):
            graph.erase_node(node)
    return found


def _again(
    piece: Piece, number: int, place: Mapping[Node, int], there: set[Node], writes: Sequence[Node], refused: Mapping[Node, str],
) -> set[Node]:
    """What is computed again in a piece: of the values that it reads those that are in memory for it alone, the largest first."""
    compared = {v for n in piece.nodes if n.target in COMPARISONS for v in read_by(n, refused)}
    reads = {v for n in piece.nodes for v in read_by(n, refused) if place.get(v) != number}
    behind = _written(max(piece.nodes), writes)
    found = {v for v in reads if v not in there and v not in compared and place[v] < number and is_pointwise(v) and _written(v, writes) == behind}
    held, again = reads - found, set()
    for value in sorted(found, key=lambda v: (-value_bytes(v), v)):
        # From what the piece reads, through what is in memory for others as a ReLU's result is, or from there.
        for ends in (held | again, held | again | there):
            steps, sources = _chain(value, ends, writes, refused)
            if len(steps) <= _MOST_STEPS and sum(value_bytes(s) for s in sources - held - again) <= value_bytes(value):
                again |= steps
                held |= sources - again
                break
        else:
            held.add(value)
    return again


def _written(node: Node, writes: Sequence[Node]) -> int:
    """How many writes stand in front of it."""
    return sum(w < node for w in writes)


def _chain(value: Node, ends: Collection[Node], writes: Sequence[Node], refused: Mapping[Node, str]) -> tuple[set[Node], set[Node]]:
    """The operations that make a value of ``ends``, or of what no pointwise operation makes, and these."""
    steps, sources, todo, behind = set(), set(), [value], _written(value, writes)
    while todo:
        node = todo.pop()
        if node is not value and (node in ends or not is_pointwise(node) or _written(node, writes) != behind):
            sources.add(node)
        elif node not in steps:
            steps.add(node)
            todo += read_by(node, refused)
    return steps, sources


def _copy(piece: Piece, again: Collection[Node], refused: Mapping[Node, str]) -> None:
    """Let the operations of a piece read copies of ``again``, which stand in front of the first reader."""
    copies: dict[Node, Node] = {}

    def changes(node: Node) -> bool:
        return node in again or (is_free(node, refused) and any(map(changes, node.all_input_nodes)))

    def copied(node: Node) -> Node:
        if not changes(node):
            return node
        if node not in copies:
            for operand in node.all_input_nodes:
                copied(operand)
            copies[node] = node.graph.node_copy(node, copied)
        return copies[node]

    for reader in piece.nodes if again else ():
        with reader.graph.inserting_before(reader):
            reader.args = torch.fx.map_arg(reader.args, copied)
            reader.kwargs = torch.fx.map_arg(reader.kwargs, copied)
