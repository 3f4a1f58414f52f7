"""Splits into parts of sizes that vary, and splits of complex numbers, as slices.

The import knows a split whose sizes are numbers; of others, as ``x.chunk(3, 1)`` and ``x.split(n, 1)`` are where the dimension or ``n`` varies, each part is a
slice, from the end of the part in front of it.  A slice of complex numbers is one of their pairs (``complex_numbers``), a list is not.
"""

import operator

import torch
from torch.fx import Graph, Node

from inferno.capture.nodes import call_beside

aten = torch.ops.aten

_SPLITS = (aten.split_with_sizes.default, aten.split_with_sizes_copy.default)
_END = 2**63 - 1  # what torch says for "to the end"


def slice_splits(graph: Graph) -> None:
    """Rewrite ``graph`` in place: splits of which a size is no number, or of complex numbers, and who reads their parts."""
    sliced = False
    for node in list(graph.nodes):
        if node.target not in _SPLITS or node.kwargs or not all(user.target is operator.getitem for user in node.users):
            continue
        if node.args[0].meta["val"].dtype.is_complex or any(isinstance(size, Node) for size in node.args[1]):
            _slice(node)
            sliced = True
    if sliced:
        graph.eliminate_dead_code()


def _slice(split: Node) -> None:
    source, sizes, dim = (*split.args, 0)[:3]
    readers: dict[int, list[Node]] = {}
    for user in split.users:
        readers.setdefault(user.args[1] % len(sizes), []).append(user)
    begin: Node | int = 0
    for i, size in enumerate(sizes):
        with split.graph.inserting_before(split):
            varies = isinstance(begin, Node) or isinstance(size, Node)
            end = size if begin == 0 else call_beside(split, operator.add, begin, size) if varies else begin + size
            if i in readers:
                part = split.graph.call_function(aten.slice.Tensor, (source, dim, begin, _END if i == len(sizes) - 1 else end))
                part.meta = {**split.meta, **readers[i][0].meta}
        for reader in readers.get(i, ()):
            reader.replace_all_uses_with(part)
        begin = end
