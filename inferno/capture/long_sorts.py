"""Which sorts torch's library does faster: ours compare every pair of a row, which costs the square of its length.

In a graph that is to be compiled these two stand for all others: medians, quantiles and modes have been decomposed into them.
"""

from math import prod

import torch
from torch.fx import Node

from inferno.capture.orders import example

aten = torch.ops.aten

SORTS = "torch's library does not compare every pair of a long row, and is faster"
_DIMENSION = {aten.sort.default: 1, aten.topk.default: 2}  # its place among the arguments

# Microseconds.  On a GPU: of a comparison of one thread, of one of all threads of an H200, and of torch's sort, at least and of an element.  On
# the CPU, of one core: 128 rows of 512 took 70 ms and torch 4, 8 of 8192 took 706 and torch 5.
_STEP, _PAIR, _LEAST, _ELEMENT = 6e-3, 2e-7, 25.0, 2.5e-4
_CPU_PAIR, _CPU_LEAST, _CPU_ELEMENT = 3e-3, 20.0, 6e-2


def keep_order(node: Node) -> None:
    """Let a sort leave equal elements in their order: one that has to is an ordinary one in the graph, for ours always do."""
    if node.target is aten.sort.default:
        named = dict(zip(("dim", "descending"), node.args[1:]))
        node.target, node.args, node.kwargs = aten.sort.stable, node.args[:1], {"stable": True, **named, **node.kwargs}


def is_long_sort(node: Node, device: torch.device) -> bool:
    """Whether an operation sorts rows of such a length, in the example, that torch's library is faster on this kind of device."""
    if node.target not in _DIMENSION:
        return False
    sizes, place = [example(s) for s in node.args[0].meta["val"].shape], _DIMENSION[node.target]
    if not sizes:
        return False
    elements, length = prod(sizes), sizes[node.args[place] if len(node.args) > place else -1]
    if device.type == "cpu":
        return elements * length * _CPU_PAIR > _CPU_LEAST + elements * _CPU_ELEMENT
    return max(length * _STEP, elements * length * _PAIR) > _LEAST + elements * _ELEMENT
