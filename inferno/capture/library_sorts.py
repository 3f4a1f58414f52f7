"""Which sorts torch's library does faster than our generators, by their sizes in the example.

Ours are merged, and on a GPU the first few of a row, or one at a known place, selected; where a row's length varies, every pair of it is compared, and
where the number of rows does, rows that one block does not hold are.
Medians, quantiles and modes have been decomposed into sorts.
"""

import operator
from math import prod

import torch
from torch.fx import Node

from inferno.capture.orders import example
from inferno.selection import MOST, can_select

aten = torch.ops.aten

REASON = "torch's library sorts long rows faster"
_DIMENSIONS = {aten.sort.default: 1, aten.topk.default: 2}  # the place of the dimension among the arguments
TARGETS = frozenset(_DIMENSIONS)
# Microseconds on a GPU of comparing pairs: of a comparison of one thread, of one of all threads of an H200, and of torch's sort, at least and of an
# element.  16x1024 took 52 us and torch's 21, 128x768 23 and 16, 256x4096 1437 and 27.
_STEP, _PAIR, _LEAST, _ELEMENT = 0.04, 3.3e-7, 18.0, 1e-5
# Rows up to which merging is faster on a GPU, by an element's bits.  64M float32 on an H200 in rows of 1024 took 850 us and torch's 2143, of 8192 1454
# and 5076, of 65536 2645 and 4890, of 1M 4347 and 5800; of 16 bits 583 and 1374, 842 and 2549, 1754 and 2408, 4333 and 3441; 33M i64 of 512 615 and
# 2984, longer ones were not timed.  Few rows that are long leave multiprocessors without work: 1x65536 took 36 us and torch's 53.
_MERGED, _ALONE, _FEW = {8: 1 << 16, 16: 1 << 16, 32: 1 << 20, 64: 2048}, 1 << 17, 1 << 23
# On the CPU, of one core, the same of sizes that vary, and of merging an element of runs and torch's sort of one, for each doubling of the runs:
# 128 rows of 512 took 70 ms by pairs, 3.1 merged, and torch's 2.4; 8 of 8192 706, 5.9 and 4.9; 128 of 16 35 us and 20.
_CPU_PAIR, _CPU_LEAST, _CPU_MERGED, _CPU_ELEMENT = 3e-3, 20.0, 5.3e-3, 4.2e-3
_CPU_TOPK = 1.2e-3  # of an element, by torch's: 8 of 8192 took 51 us


def is_long_sort(node: Node, device: torch.device) -> bool:
    """Whether torch's library is to do a sort or a topk."""
    value, place = node.args[0].meta["val"], _DIMENSIONS[node.target]
    if not value.dim():
        return False
    dim = (node.args[place] if len(node.args) > place else -1) % value.dim()
    sizes = [example(s) for s in value.shape]
    elements, length = prod(sizes), sizes[dim]
    varies = any(not isinstance(s, int) for s in value.shape)
    if device.type == "cpu":
        steps = elements * max(1, length - 1).bit_length()
        theirs = steps * _CPU_ELEMENT if node.target is aten.sort.default else elements * _CPU_TOPK
        return (elements * length * _CPU_PAIR if varies else steps * _CPU_MERGED) > _CPU_LEAST + theirs
    bits, known = 16 if value.dtype in (torch.bool, torch.uint8) else 8 * value.dtype.itemsize, all(isinstance(s, int) for s in value.shape[dim:])
    if known and can_select(length, *_part(node, dim, length), bits):
        return False
    if varies and not (known and length <= MOST):
        return max(length * _STEP, elements * length * _PAIR) > _LEAST + elements * _ELEMENT
    return length > _MERGED.get(bits, 0) or (length > _ALONE and elements < _FEW)


def _part(node: Node, dim: int, length: int) -> tuple[int, int]:
    """(begin, count) of the sorted elements of a row that are read."""
    if node.target is aten.topk.default:
        return 0, node.args[1] if isinstance(node.args[1], int) else length
    found = {_slice(reader, dim, length) for result in node.users for reader in (result.users if result.target is operator.getitem else [result])}
    return found.pop() if len(found) == 1 else (0, length)


def _slice(node: Node, dim: int, length: int) -> tuple[int, int]:
    """The part of a row that a node reads."""
    if node.target is aten.select.int and isinstance(node.args[2], int) and node.args[1] % node.args[0].meta["val"].dim() == dim:
        return node.args[2] % length, 1
    if node.target is aten.slice.Tensor:
        of, begin, end, step = (*node.args[1:], *(0, 0, None, 1)[len(node.args) - 1:])
        value = node.args[0].meta["val"]
        if of % value.dim() == dim and step == 1 and all(isinstance(x, int) for x in (begin or 0, length if end is None else end)):
            first, last, _ = slice(begin, end).indices(length)
            return first, max(0, last - first)
    return 0, length
