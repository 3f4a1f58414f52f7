"""Which grouped matmuls (experts of a mixture) are left to torch's library, because it is faster than the generator ``grouped``, or, where that takes none,
than a product of all matrices with all rows of which the right rows are selected (``decompositions.grouped``): that is for few groups or few rows."""

from math import ceil

import torch
from torch import Tensor
from torch._ops import OpOverload

from inferno.capture.devices import captures_for_hopper, on_hopper
from inferno.capture.orders import example
from inferno.settings import settings

aten = torch.ops.aten

_NAMES = {"aten._grouped_mm.default", "transformers.grouped_mm_fallback.default"}
REASON = "torch's library multiplies groups of rows faster"

# Microseconds on an H100 of the library's kernel: at least, and by term of each round of tiles of 128x128 on all multiprocessors, besides of the first one's.
# Of bf16 512 rows of 1024 to 7168 columns in 8 groups took 47, of 3584 to 1024 as long; 16384 of 2048 to 1536 and of 768 to 2048 in 64 some 420.
_LEAST, _TERM, _FIRST, _TILE, _MULTIPROCESSORS = 8.0, 0.0075, 0.003, 128, 132
# Of a call that asks for the groups' ends, which the host waits for, and multiplies them one by one: at least, and of a group (an estimate).
_WAIT, _GROUP = 25.0, 12.0
# Of ours: multiplications and bytes in one (all matrices with 512 rows: the same products 104 and 42), of at least so many rows.
_FLOPS, _BYTES, _FEW = {1: 3e8, 2: 6e8, 4: 1.2e8, 8: 3e7}, 2.7e6, 64
# Of the kernel for groups: at least, the share of the shorter one of its products and its memory that is not hidden, and the most rows.  Its tiles of a
# column go over all rows, which come from memory again for the next 192 columns where they are more bytes than L2 keeps: 16384 of 2048 to 1536 columns
# in 64 groups took a mixture 140 longer than the library.
_KERNELS, _BOTH, _MOST_ROWS, _KEPT, _COLUMNS = 5.0, 0.2, 1 << 14, 32e6, 192
_WORTH = 1.25  # a call between segments: what would be fused with the product is not
# On a CPU, of one thread and by the bytes of a number: operations in a microsecond of all matrices with all rows, and of one matrix with its rows; bytes; a
# call between segments; and of a group.  Of 256 rows of 128 to 64 columns in 64 groups all took 12.6 ms of float32 and 1408 of bf16, one by one 0.54 and 1.53.
_CPU_ALL, _CPU_ONE = {1: 3e2, 2: 3e2, 4: 5e4, 8: 2.5e4}, {1: 2.9e3, 2: 2.9e3, 4: 5e4, 8: 2.5e4}
_CPU_BYTES, _CPU_WAIT, _CPU_GROUP = 1e4, 75.0, 7.0


def is_target(op: object) -> bool:
    """Whether it is one of the operations, of libraries too that are loaded at some time."""
    return isinstance(op, OpOverload) and str(op) in _NAMES


def targets() -> list[OpOverload]:
    """Those that there are at this time."""
    found = [aten._grouped_mm.default] if hasattr(aten, "_grouped_mm") else []
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        found.append(torch.ops.transformers.grouped_mm_fallback.default)
    return found


def is_known(rows: Tensor, matrices: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: torch.dtype | None = None) -> bool:
    """Whether it is a product of groups of rows, and nothing else."""
    return rows.dim() == 2 and matrices.dim() == 3 and offs is not None and bias is None and out_dtype in (None, rows.dtype)


def is_faster(rows: Tensor, matrices: Tensor) -> bool:
    """Whether torch's library is to multiply ``rows`` by ``matrices``, on the device that they are on."""
    count, terms = map(example, rows.shape)
    groups, columns = example(matrices.shape[0]), example(matrices.shape[-1])
    if rows.device.type == "cpu":
        return captures_for_hopper() is not True and _is_faster_on_cpu(count, terms, groups, columns, rows.dtype.itemsize)
    if is_grouped(rows, matrices):
        return False
    return _ours(count, terms, groups, columns, rows.dtype.itemsize) > _WORTH * _theirs(count, terms, groups, columns, rows)


def is_grouped(rows: Tensor, matrices: Tensor) -> bool:
    """Whether a product of all matrices with all rows becomes one of groups (see ``schedule.grouped``)."""
    sizes = (*rows.shape, *matrices.shape)
    if not all(isinstance(s, int) for s in sizes) or rows.dtype not in (torch.bfloat16, torch.float16):
        return False
    if rows.device.type == "cpu" or captures_for_hopper() is False or (rows.device.type == "cuda" and not on_hopper(rows)):
        return False
    (count, terms), (groups, _, columns) = rows.shape, matrices.shape
    places = groups * count * columns  # of the product of all with all, as it is imported
    if groups < 2 or not 1 < count <= _MOST_ROWS or places >= 1 << 31 or terms % 8 or columns % 8:
        return False
    return _together(count, terms, groups, columns, rows.dtype.itemsize) <= _WORTH * _theirs(count, terms, groups, columns, rows)


def _together(count: int, terms: int, groups: int, columns: int, width: int) -> float:
    """Microseconds of the kernel for groups."""
    used = min(count, groups)
    tiles = max(used, count / _TILE + used / 2)
    again = ceil(columns / _COLUMNS) if count * terms * width > _KEPT and not settings().unmeasured else 1
    products = 2 * tiles * _TILE * terms * columns / _FLOPS[width]
    memory = (used * terms * columns + count * (again * terms + columns)) * width / _BYTES
    return _KERNELS + max(products, memory) + _BOTH * min(products, memory)


def _is_faster_on_cpu(count: int, terms: int, groups: int, columns: int, width: int) -> bool:
    used, flops, matrix = min(count, groups), 2 * count * terms * columns, terms * columns * width
    ours = 3 * count * matrix / _CPU_BYTES if 3 * count <= groups else groups * flops / _CPU_ALL[width]
    return ours > _WORTH * (_CPU_WAIT + used * _CPU_GROUP + max(flops / _CPU_ONE[width], used * matrix / _CPU_BYTES))


def _ours(count: int, terms: int, groups: int, columns: int, width: int) -> float:
    if 3 * count <= groups:
        return count * terms * columns * width * 3 / _BYTES
    flops = 2 * groups * max(count, _FEW) * terms * columns
    return max(flops / _FLOPS[width], groups * columns * (terms + 2 * count) * width / _BYTES)


def _theirs(count: int, terms: int, groups: int, columns: int, rows: Tensor) -> float:
    used = min(count, groups)
    least = max(2 * count * terms * columns / _FLOPS[rows.dtype.itemsize], used * terms * columns * rows.dtype.itemsize / _BYTES)
    if not _is_one_kernel(rows):
        return _WAIT + used * _GROUP + least
    rounds = max(1, (used + count // _TILE) * ceil(columns / _TILE) / _MULTIPROCESSORS)
    return _LEAST + max((_FIRST + rounds * _TERM) * terms, least)


def _is_one_kernel(rows: Tensor) -> bool:
    """Whether the library has a kernel for it: from Hopper on, of bf16."""
    if rows.dtype is not torch.bfloat16:
        return False
    return rows.device.type != "cuda" or torch.cuda.get_device_capability(rows.device) >= (9, 0)
