"""Which operations torch's library does faster than our generators, by their sizes in the example.

Long sorts (see ``library_sorts``).  On a GPU also sums of many elements that meet in memory, and long running sums along a size that varies.
"""

from math import prod

import torch
from torch.fx import Node

from inferno.capture import library_sorts
from inferno.capture.orders import example

aten = torch.ops.aten

MEETINGS = "torch's library is faster where so many elements are added to others"
SCANS = "torch's library is faster along rows of so many elements"
# The place of what is added.
_MEETINGS = {aten.index_add.default: 3, aten.scatter_add.default: 3, aten.embedding_dense_backward.default: 0}
_PUTS = {aten.index_put.default, aten._unsafe_index_put.default}

# Microseconds on a GPU: of an element that is added: 33.5M of float32 took 2.2 ms and torch's 0.5, 67M of bf16 30 and 0.55; torch's takes 20 at least.
_MEETING, _NARROW_MEETING, _MEETING_LEAST, _MEETING_ELEMENT = 6.5e-5, 4.4e-4, 20.0, 1.5e-5
# Of an element of a running sum along a size that varies: 8192x8192 in float32 took 2.46 ms and torch's 0.4, in bf16 0.77 and 0.37; 256x4096 in
# bf16 14 us and 34.
_SCAN, _NARROW_SCAN, _SCAN_LEAST, _SCAN_ELEMENT = 3.6e-5, 1.15e-5, 30.0, 5.5e-6


def preference(node: Node, device: torch.device) -> str | None:
    """Why torch's library is to run an operation that would compile, on this kind of device; None if it is not to."""
    if node.op != "call_function":
        return None
    if node.target in library_sorts.TARGETS:
        return library_sorts.REASON if library_sorts.is_long_sort(node, device) else None
    if device.type == "cpu":
        return None
    if node.target in _MEETINGS or (node.target in _PUTS and node.args[3:4] == (True,)):
        return MEETINGS if _many_meet(node) else None
    return SCANS if node.target is aten.cumsum.default and _is_long_scan(node) else None


def keep_order(node: Node) -> None:
    """Let a sort leave equal elements in their order: one that has to is an ordinary one in the graph, for ours always do."""
    if node.target is aten.sort.default:
        named = dict(zip(("dim", "descending"), node.args[1:]))
        node.target, node.args, node.kwargs = aten.sort.stable, node.args[:1], {"stable": True, **named, **node.kwargs}


def _value(node: Node) -> torch.Tensor:
    return node.meta["val"]


def _sizes(value: torch.Tensor) -> list[int]:
    return [example(s) for s in value.shape]


def _many_meet(node: Node) -> bool:
    value = _value(node.args[2] if node.target in _PUTS else node.args[_MEETINGS[node.target]])
    elements = prod(_sizes(value))
    if node.target in _PUTS:  # one number may be put to many places
        elements = max(elements, prod(_sizes(_value(next(i for i in node.args[1] if i is not None)))))
    each = _NARROW_MEETING if value.dtype.itemsize < 4 else _MEETING
    return elements * each > _MEETING_LEAST + elements * _MEETING_ELEMENT


def _is_long_scan(node: Node) -> bool:
    value, sizes = _value(node.args[0]), _sizes(_value(node.args[0]))
    if not sizes or prod(sizes[node.args[1] % len(sizes):]) != sizes[node.args[1]] or not value.dtype.is_floating_point:
        return False  # across memory ours are the faster ones
    if all(isinstance(s, int) for s in value.shape):
        return False  # and so are those of known sizes, at every length: 8192x8192 in float32 takes 130 us, one row of 64M 190 and torch's 216
    elements, each = prod(sizes), _NARROW_SCAN if value.dtype.itemsize < 4 else _SCAN
    return elements * each > _SCAN_LEAST + elements * _SCAN_ELEMENT
