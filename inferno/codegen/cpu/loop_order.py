"""In which order a structured operation's loops run on the CPU, and which of them threads share.

Pure arithmetic on sizes and strides, numbers or expressions: ``loop_nests`` turns the result into code.  Neighbouring loops that every operand
walks with one stride are one *run*.  The innermost run is the one that LLVM vectorizes, so operands should move by one
element, or not at all, along it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inferno.symbolic import Int, ceildiv, hint, product

# Chunks that threads share: enough for any number of cores to be balanced, few enough that a chunk outweighs its start.
RANGE = 256
BLOCK = 1024  # elements, the least that a chunk of a long run holds: 4 KB of float32, a fraction of a microsecond
COLUMNS = 256  # running values of a reduction over columns: 2 KB of float64, which stay in the L1 cache
LINE = 64  # bytes of a cache line
FEW = 16  # items: with fewer, threads also share a long reduction
PARTIAL = 16384  # elements that are worth a chunk of a reduction


@dataclass(frozen=True)
class Run:
    """Loops that are walked as one: ``dims`` outermost first, ``size`` their product, ``strides`` one for each operand."""

    dims: tuple[int, ...]
    size: Int
    strides: tuple[Int, ...]


@dataclass(frozen=True)
class Order:
    """A nest.  Threads share a range of *items*, the points of ``items``, outermost first; each item runs ``outer`` and then
    ``inner``.  With ``block`` > 0 the last of ``items`` counts blocks of that many steps of run ``blocked``.

    ``columns``: the reduction's loops are around ``inner``, which keeps a row of running values; else ``inner`` is the last
    of its loops.  ``reduction`` are the runs summed over, ``parts`` > 1 the number of items that share the first of them.
    """

    items: tuple[Int, ...]
    runs: tuple[Run, ...]
    outer: tuple[Run, ...]
    inner: Run | None
    reduction: tuple[Run, ...] = ()
    blocked: Run | None = None
    block: int = 0
    columns: bool = False
    parts: int = 1
    tile: Run | None = None

    @property
    def extent(self) -> Int:
        return product(self.items)


def merge_runs(dims: Sequence[int], sizes: Sequence[Int], strides: Sequence[Sequence[Int] | None], keep: set[int]) -> list[Run]:
    """Runs of ``dims``, without those of size 1.  ``strides``: one list for each operand, None for one that no stride
    describes; a dimension in ``keep`` stays alone."""
    groups: list[list[int]] = []
    known = all(s is not None for s in strides)
    for d in dims:
        if sizes[d] == 1:
            continue
        last = groups[-1][-1] if groups else None
        if last is not None and known and d not in keep and last not in keep and all(s[last] == sizes[d] * s[d] for s in strides):
            groups[-1].append(d)
        else:
            groups.append([d])
    return [
        Run(tuple(g), product(sizes[d] for d in g), tuple(-1 if s is None else s[g[-1]] for s in strides)) for g in groups
    ]


def order_map(runs: list[Run], output: int, widths: Sequence[int]) -> Order:
    """Loops of an elementwise operation: as the result lies, in tiles where an operand lies the other way.

    ``output`` is the number of the result among the strides, ``widths`` the operands' bytes an element.
    """
    if not runs:
        return Order((), (), (), None)
    runs = sorted(runs, key=lambda r: -hint(r.strides[output]))
    inner, others = runs[-1], runs[:-1]
    across = [
        (r, widths[i]) for r in others for i, s in enumerate(r.strides) if s == 1 and hint(inner.strides[i]) > 1 and hint(r.size) >= 8 and hint(inner.size) >= 8
    ]
    if across:
        tile, width = across[0]
        rest = [r for r in others if r != tile]
        block = LINE // min(LINE, width)
        items = (*(r.size for r in rest), ceildiv(tile.size, block))
        return Order(items, (*rest,), (), inner, blocked=tile, block=block, tile=inner)
    total = math.prod(hint(r.size) for r in others)
    if total >= FEW * 4 or (isinstance(inner.size, int) and inner.size < 2 * BLOCK):
        return _shared(others, inner)
    block = max(BLOCK, -(-hint(inner.size) * total // RANGE // 256) * 256)
    return Order((*(r.size for r in others), ceildiv(inner.size, block)), (*others,), (), None, blocked=inner, block=block)


def order_reduction(parallel: list[Run], reduction: list[Run], outputs: Sequence[int], elements: Sequence[int], can_split: bool) -> Order:
    """Loops of a reduction: along rows, or, where the operands lie across them, over columns of running values.

    ``outputs`` are the results' numbers among the strides, ``elements`` the operands' sizes, which weigh them.
    """
    parallel = sorted(parallel, key=lambda r: -hint(r.strides[outputs[0]]))
    reads = [i for i in range(len(elements)) if i not in outputs]
    inner_reduction = min(reduction, key=lambda r: (_strided(r, reads, elements), -hint(r.size)), default=None)
    column = parallel[-1] if parallel else None
    if column is not None and inner_reduction is not None:
        along, across = _strided(inner_reduction, reads, elements), _strided(column, [*reads, *outputs], elements)
        by_columns = across < along or (across == along and hint(inner_reduction.size) < FEW <= hint(column.size))
    else:
        by_columns = False
    if not by_columns:
        rest = [r for r in reduction if r != inner_reduction]
        order = (*rest, inner_reduction) if inner_reduction is not None else ()
        count = product(r.size for r in parallel)
        parts = _parts(count, order, count) if can_split else 1
        shared = _shared(parallel, None)
        return Order((*shared.items, *((parts,) if parts > 1 else ())), shared.runs, shared.outer, None, order, parts=parts)
    others = parallel[:-1]
    size = min(COLUMNS, column.size) if isinstance(column.size, int) else COLUMNS
    tiles = ceildiv(column.size, size)
    items = (*(r.size for r in others), tiles)
    parts = _parts(product(items), tuple(reduction), product(r.size for r in parallel)) if can_split else 1
    return Order(
        (*items, *((parts,) if parts > 1 else ())), (*others,), (), column, tuple(reduction), blocked=column, block=size, columns=True, parts=parts,
    )


def _strided(run: Run, operands: Sequence[int], elements: Sequence[int]) -> int:
    """Elements of the operands that move by more than one element along ``run``."""
    return sum(hint(elements[i]) for i in operands if run.strides[i] not in (0, 1))


def _shared(runs: Sequence[Run], inner: Run | None) -> Order:
    """The first runs are items until there are enough of them; the others are loops inside of one."""
    count, number = 1, 0
    while number < len(runs) and count < RANGE:
        count *= hint(runs[number].size)
        number += 1
    return Order(tuple(r.size for r in runs[:number]), tuple(runs[:number]), tuple(runs[number:]), inner)


def _parts(items: Int, reduction: Sequence[Run], results: Int) -> int:
    """Into how many parts a reduction is cut for threads to share; one whose sizes vary is not cut."""
    if not reduction or not all(isinstance(s, int) for s in (items, results, *(r.size for r in reduction))) or items >= FEW:
        return 1
    work = results * math.prod(r.size for r in reduction)
    return max(1, min(reduction[0].size, 64 // items, work // PARTIAL))
