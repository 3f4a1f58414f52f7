"""Compute what later pieces read in those pieces, where that is less to keep until then.

Pieces take every operation as early as it can run.  What only a later piece reads would be memory in between, and one more pass over it: the
masks of a backward, say, whose gradients come from a convolution in eager.  Where a compiled piece is best divided, in one part that stays and
one that moves to the next compiled piece, is a minimum cut: of the bytes that are computed in the first and read in the second.
"""

from collections.abc import Collection, Mapping, Sequence

from torch.fx import Node

from inferno.capture.nodes import value_bytes

# What is kept of a piece is written first, and a channel's statistics are nothing next to the image that they are of: of nearly equal bytes
# those that are there already are kept.  In whole percent: with sums that are exact, the cut nearest to the second piece is one and the same.
_THERE, _WRITTEN = 100, 105


def sink(
    pieces: Sequence[Sequence[Node]], compiled: Sequence[bool], reads: Mapping[Node, set[Node]], before: Mapping[Node, set[Node]],
    returned: Collection[Node],
) -> list[list[Node]]:
    """The same operations in the same number of pieces, each in the order in which the graph has them.

    ``reads``: the tensors that each operation reads; ``before``: the operations that must have run before it; ``returned``: what the graph
    returns.  Only compiled operations move, to later compiled pieces.
    """
    place = {n: i for i, piece in enumerate(pieces) for n in piece}
    after: dict[Node, list[Node]] = {n: [] for n in place}
    readers: dict[Node, list[Node]] = {}
    for node in place:
        for earlier in before[node]:
            after[earlier].append(node)
        for value in reads[node]:
            readers.setdefault(value, []).append(node)
    numbers = [i for i, c in enumerate(compiled) if c]
    for here, there in zip(numbers, numbers[1:]):
        movable = [n for n in place if place[n] == here]
        for node in _later(movable, there, place, reads, readers, after, returned):
            place[node] = there
    order = {n: i for i, n in enumerate(next(iter(place)).graph.nodes)} if place else {}
    found: list[list[Node]] = [[] for _ in pieces]
    for node in sorted(place, key=order.__getitem__):
        found[place[node]].append(node)
    return found


def _later(
    nodes: Sequence[Node], there: int, place: Mapping[Node, int], reads: Mapping[Node, set[Node]], readers: Mapping[Node, list[Node]],
    after: Mapping[Node, list[Node]], returned: Collection[Node],
) -> list[Node]:
    """Those of a piece's ``nodes`` that are best computed in piece ``there``."""
    inside = set(nodes)
    if not any(place[r] >= there for n in nodes for r in readers.get(n, ())):
        return []
    import networkx  # 0.15 s, for programs in pieces alone

    cut = networkx.DiGraph()  # an edge with no capacity has infinitely much
    cut.add_nodes_from(("first", "then"))
    for node in nodes:
        begin, end = (node, "computed"), (node, "read")
        cut.add_edge(begin, end, capacity=0 if node in returned else _WRITTEN * value_bytes(node))
        if node in returned or any(place[n] < there and n not in inside for n in after[node]):
            cut.add_edge("first", begin)
        for later in after[node]:
            if later in inside:
                cut.add_edge((later, "computed"), begin)
        for reader in readers.get(node, ()):
            cut.add_edge(end, (reader, "computed") if reader in inside else "then" if place[reader] >= there else end)
    for value in {v for n in nodes for v in reads[n] if v not in inside}:
        kept = value in returned or any(place[r] >= there for r in readers[value])
        cut.add_edge("first", (value, "read"), capacity=0 if kept else _THERE * value_bytes(value))
        for reader in readers[value]:
            if reader in inside:
                cut.add_edge((value, "read"), (reader, "computed"))
    cut.remove_edges_from(list(networkx.selfloop_edges(cut)))
    _, second = networkx.minimum_cut(cut, "first", "then")[1]
    return [n for n in nodes if (n, "computed") in second]
