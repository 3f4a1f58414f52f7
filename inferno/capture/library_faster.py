"""Which operations torch's library does faster than our generators, by their sizes in the example.

Long sorts (see ``library_sorts``) and products of groups of rows (see ``library_grouped``).  On a GPU also sums and other reductions of many elements that
meet in memory, and long running sums along a size that varies.
"""

from math import gcd, prod

import torch
from torch.fx import Node

from inferno.capture import library_grouped, library_sorts
from inferno.capture.orders import example
from inferno.scatter_limits import worthwhile_order

aten = torch.ops.aten

MEETINGS = "torch's library is faster where so many elements are added to others"
SCANS = "torch's library is faster along rows of so many elements"
# The place of what is added.
_MEETINGS = {aten.index_add.default: 3, aten.scatter_add.default: 3, aten.embedding_dense_backward.default: 0, aten.scatter.src: 3}
_PUTS = {aten.index_put.default, aten._unsafe_index_put.default}
_FILLED = {
    aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default, aten.full.default, aten.full_like.default, aten.new_full.default,
}

# Microseconds on a GPU: of an element that is added to another, by how many neighbours go together, of one that others are added to, and of a call; and
# of torch's.  On an H200: index_add of 67M to 8.4M elements of float32 198 us and torch's 479, of bf16 179 and 553; 16.8M put to 67M of float32 185
# and 235, of bf16 311 and 162; scatter_add of 33.5M by elements 835 and 530, of bf16 926 and 555, their scatter 750 and 598.
_MEETING, _RECEIVING, _NARROW_RECEIVING, _MEETING_CALL = {4: 3e-6, 2: 6e-6, 1: 2.5e-5}, 1.9e-6, 3.8e-6, 7.0
_ONE_BY_ONE, _TOTALS = 4.4e-4, 1 << 28  # narrow numbers that are not added up in float32: of bf16 67M took 30 ms; and the most bytes that others are
_MEETING_LEAST, _MEETING_ELEMENT = 20.0, {4: 7e-6, 2: 7e-6, 1: 1.5e-5}
# Of elements that meet otherwise: products, which memory does not combine, look for each other, and others go there one by one.
_ORDERED, _ONE_BY_ONE_MOST = 1 << 11, 1 << 20
# Of an element of a running sum along a size that varies: 8192x8192 in float32 took 2.46 ms and torch's 0.4, in bf16 0.77 and 0.37; 256x4096 in
# bf16 14 us and 34.
_SCAN, _NARROW_SCAN, _SCAN_LEAST, _SCAN_ELEMENT = 3.6e-5, 1.15e-5, 30.0, 5.5e-6


def preference(node: Node, device: torch.device) -> str | None:
    """Why torch's library is to run an operation that would compile, on this kind of device; None if it is not to."""
    if node.op != "call_function":
        return None
    if node.target in library_sorts.TARGETS:
        return library_sorts.REASON if library_sorts.is_long_sort(node, device) else None
    if library_grouped.is_target(node.target):
        return library_grouped.REASON
    if device.type == "cpu":
        return None
    if node.target in _MEETINGS or (node.target in _PUTS and node.args[3:4] == (True,)):
        return MEETINGS if _many_meet(node) else None
    if node.target is aten.scatter_reduce.two:
        return MEETINGS if _many_reduce(node) else None
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
    elements, receiving = prod(_sizes(value)), _value(node)
    if node.target in _PUTS:  # one number may be put to many places
        places = prod(_sizes(_value(next(i for i in node.args[1] if i is not None))))
        elements = max(elements, places * _together(node, receiving))
    together = _together(node, receiving)
    if together and value.dtype.is_floating_point and _is_known(node):
        rows, count, width = prod(_sizes(receiving)) // together, elements // together, value.dtype.itemsize
        begins = node.target is not aten.embedding_dense_backward.default and node.args[0].target not in _FILLED
        if worthwhile_order(rows, together, count, width, gcd(together, 16 // width), begins):
            return False
    lanes = gcd(4, together) if value.dtype.is_floating_point and value.dtype.itemsize <= 4 else 1
    received = prod(_sizes(receiving))
    one_by_one = value.dtype.itemsize < 4 and (not value.dtype.is_floating_point or 4 * received > _TOTALS)
    if node.target in _PUTS and lanes == 1 and not one_by_one:
        return False  # torch's sorts them: 33.5M in float32 took it 11.7 ms, a sum element by element takes 0.45
    return adds_faster(elements, received, value.dtype.itemsize, lanes, one_by_one)


def adds_faster(elements: int, received: int, width: int, lanes: int = 1, one_by_one: bool = False) -> bool:
    """Whether torch's library is the faster one that adds elements of ``width`` bytes to ``received`` others anywhere in memory; ``lanes`` of ours go
    together, and none of narrow ones that are added ``one_by_one``."""
    ours = _MEETING_CALL + elements * (_ONE_BY_ONE if one_by_one else _MEETING[lanes]) + received * (_NARROW_RECEIVING if width < 4 else _RECEIVING)
    return ours > _MEETING_LEAST + elements * _MEETING_ELEMENT[lanes] + received * _RECEIVING * width / 4


def _many_reduce(node: Node) -> bool:
    """Whether so many elements are reduced where they meet that torch's kernel, which updates memory by each, is the faster one."""
    return prod(_sizes(_value(node.args[2]))) > (_ORDERED if node.args[4] == "prod" else _ONE_BY_ONE_MOST)


def _is_known(node: Node) -> bool:
    """Whether no size varies, and rows are along the first dimension."""
    values = [_value(n) for n in (node, *node.all_input_nodes)]
    if any(not isinstance(v, torch.Tensor) or any(isinstance(n, torch.SymInt) for n in v.shape) for v in values):
        return False
    if node.target in _PUTS:
        return [i is not None for i in node.args[1]] == [True]
    return node.target is aten.embedding_dense_backward.default or (node.target is aten.index_add.default and node.args[1] == 0)


def _together(node: Node, receiving: torch.Tensor) -> int:
    """Neighbouring elements that have one index."""
    sizes = _sizes(receiving)
    if node.target is aten.index_add.default:
        return prod(sizes[node.args[1] % max(len(sizes), 1) + 1:])
    if node.target is aten.embedding_dense_backward.default:
        return sizes[-1]
    if node.target in _PUTS:
        last = max(d for d, i in enumerate(node.args[1]) if i is not None)
        return prod(sizes[last + 1:])
    return 1


def _is_long_scan(node: Node) -> bool:
    value, sizes = _value(node.args[0]), _sizes(_value(node.args[0]))
    if not sizes or prod(sizes[node.args[1] % len(sizes):]) != sizes[node.args[1]] or not value.dtype.is_floating_point:
        return False  # across memory ours are the faster ones
    if all(isinstance(s, int) for s in value.shape):
        return False  # and so are those of known sizes, at every length: 8192x8192 in float32 takes 130 us, one row of 64M 190 and torch's 216
    elements, each = prod(sizes), _NARROW_SCAN if value.dtype.itemsize < 4 else _SCAN
    return elements * each > _SCAN_LEAST + elements * _SCAN_ELEMENT
