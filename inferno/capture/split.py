"""Cut a long compiled piece where little crosses, so that what its parts have read can be freed between them.

A segment's inputs live until it ends.  For a backward graph these are the activations of every layer: run in one segment, the
gradients come on top of all of them; run in several, each part's activations are gone before the next part's gradients come.
Parts of equal layers also are equal programs, which compile once.
"""

import math
from collections.abc import Mapping

import torch
from torch.fx import Graph, Node

from inferno.capture.partition import Piece, base_of, is_number

# A part of fewer operations is not worth a call of its own (10 us); a transformer layer's backward has about 80.
OPERATIONS = 64
# Inputs of fewer bytes are not worth it either.
BYTES = 64 << 20


def split(piece: Piece, graph: Graph, refused: Mapping[Node, str]) -> list[Piece]:
    """The piece in parts of some ``OPERATIONS``, cut where the fewest bytes cross; or the piece alone."""
    count = len(piece.nodes) // OPERATIONS
    if not piece.compiled or count < 2 or _input_bytes(piece, refused) < BYTES:
        return [piece]
    crossing = _crossing(piece, refused)
    cuts, step = [0], len(piece.nodes) / count
    for i in range(1, count):
        near = range(round((i - 0.5) * step), round((i + 0.5) * step))
        cuts.append(min((p for p in near if p > cuts[-1]), key=lambda p: (crossing[p], abs(p - i * step))))
    cuts.append(len(piece.nodes))
    return [Piece(True, piece.nodes[a:b]) for a, b in zip(cuts, cuts[1:])]


def _input_bytes(piece: Piece, refused: Mapping[Node, str]) -> int:
    inside = set(piece.nodes)
    read = {base_of(v, refused) for n in piece.nodes for v in n.all_input_nodes}
    return sum(_bytes(v) for v in read if v not in inside)


def _crossing(piece: Piece, refused: Mapping[Node, str]) -> list[int]:
    """Bytes that are made before each place in the piece and read at or behind it."""
    place = {n: i for i, n in enumerate(piece.nodes)}
    last: dict[Node, int] = {}
    for i, node in enumerate(piece.nodes):
        for value in node.all_input_nodes:
            base = base_of(value, refused)
            if (base.args[0] if base not in place and base.args and isinstance(base.args[0], Node) else base) in place:
                last[base] = i
    change = [0] * (len(piece.nodes) + 1)
    for value, end in last.items():
        begin = place[value] if value in place else place[value.args[0]]
        change[begin + 1] += _bytes(value)
        change[end + 1] -= _bytes(value)
    total, crossing = 0, []
    for difference in change:
        total += difference
        crossing.append(total)
    return crossing


def _bytes(node: Node) -> int:
    value = node.meta.get("val")
    if is_number(node) or not isinstance(value, torch.Tensor) or any(not isinstance(s, int) for s in value.shape):
        return 0
    return math.prod(value.shape) * value.element_size()
