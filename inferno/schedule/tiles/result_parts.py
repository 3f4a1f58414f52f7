"""How the results of a tile are cut into boxes that the copy engine (TMA) moves: those of destinations, and of other tensors of their shape.

A part is 64 rows of as many columns as a line of shared memory has, of up to ``ROW`` bytes.
"""

from dataclasses import dataclass
from math import gcd
from typing import Any

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.matmul.contraction import Contraction, Destination
from inferno.schedule.tiles.tiling import Axes, Axis, direct
from inferno.symbolic import Int, bounds, ceildiv, is_multiple, product, reach

ROW = 128  # bytes of a tile's row in shared memory: the span of the swizzle, and the depth of a step along k
_FLOATS = ("bf16", "f16", "f32")
_STAGED = (*_FLOATS, "i1")
_BEYOND = 64  # columns that a tile may have beyond those of whole lines: a part of them is computed for nothing
_NEAR = 2**18  # elements from a line to the next: 15 of them are reached by an instruction's constant


@dataclass(frozen=True)
class StoreMap:
    """The tensor map of a destination: ``axes`` innermost first, ``strides`` in elements."""

    axes: tuple[Axis, ...]
    strides: tuple[Int, ...]


def store_maps(c: Contraction, tiling: Axes, schedule: Any) -> dict[int, StoreMap]:
    """The maps of the destinations that are staged, by number: a tile has to consist of lines that a swizzle knows."""
    if schedule.generator == "wgmma" and (schedule.registers or schedule.by_threads or schedule.line):
        return {}  # (with ``registers`` the rows of a thread are neighbours)
    if schedule.generator == "grouped":
        return {}  # of a tile's rows only some are written
    found = {i: m for i, m in ((i, _store_map(tiling, d, schedule.swapped)) for i, d in enumerate(c.destinations)) if m is not None}
    if schedule.swapped:
        return found if columns_together(c, tiling, schedule) % 16 == 0 else {}
    sizes = {i: element_bytes(c.destinations[i].access.element) for i in found}
    widest = max([2, *sizes.values()])
    together = _together(c, schedule, widest)
    fits = together == schedule.tile_n or together * widest >= 64  # shorter parts would be too many
    return {i: m for i, m in found.items() if fits and together * sizes[i] in (32, 64, 128)}


@kept_with
def _store_map(tiling: Axes, destination: Destination, swapped: bool) -> StoreMap | None:
    """How the copy engine writes a destination, whose lines are a tile's columns if ``swapped``; None if it cannot."""
    access, (inner, outer) = destination.access, (tiling.m, tiling.n) if swapped else (tiling.n, tiling.m)
    size = element_bytes(access.element)
    if str(access.element) not in (_FLOATS[:2] if swapped else _STAGED):
        return None  # (stmatrix turns 16 bits; threads with neighbouring rows write whole sectors of float32 as they are)
    if access.offset != 0 or (inner.stride(access) != 1 and inner.size != 1):
        return None
    found = (inner, outer, *(a for a in tiling.grid if a.size != 1))
    line = ceildiv(inner.size * size, 16) * 16 // size
    strides = (1, *(a.stride(access) if a.stride(access) != 0 else line for a in found[1:]))
    if len(found) > 5 or any(not is_multiple(s * size, 16) or reach(s) * size >= 2**40 for s in strides[1:]):
        return None
    return StoreMap(found, strides)


def columns_together(c: Contraction, tiling: Axes, schedule: Any) -> int:
    """Columns that are computed and staged at a time: as many as a line of shared memory has for the widest result, or if ``swapped`` as many
    lines as a staging buffer has, where what the last ones have too much lies outside of the tensor."""
    if schedule.swapped:
        return min(schedule.tile_n, 64) if bounds(tiling.n.size)[1] <= schedule.tile_n else gcd(schedule.tile_n, 64)
    staged = [element_bytes(c.destinations[i].access.element) for i in store_maps(c, tiling, schedule)]
    return _together(c, schedule, max(2, *staged)) if staged else min(schedule.tile_n, ROW // 2)


def _together(c: Contraction, schedule: Any, widest: int) -> int:
    """Columns of a part of staged results, of up to ``widest`` bytes: those that divide a tile, or, where they are few, a line's, of which the last
    part then has some of the one before again.  (Parts of 16 columns, which threads write: 512x768x2304 8.2 us in 144 columns, 5.7 in 192.)"""
    whole, line = gcd(schedule.tile_n, ROW // widest), ROW // widest
    regular = schedule.generator in ("wgmma", "bf16x6", "presplit") and not schedule.swapped and not schedule.bring
    if whole * widest >= 64 or not regular or schedule.tile_n % 16 or schedule.tile_n < line:
        return whole
    written = {d.access.argument for d in c.destinations}
    if any(a.argument in written for a in c.extras):
        return whole  # computed again from what is there by then, it would be wrong
    return line


def written_in_lines(c: Contraction, tiling: Axes, schedule: Any) -> frozenset[int]:
    """The destinations, by number, of which warps write lines: of 16 bits, where none is staged, and parts have 32 or 64 columns."""
    return frozenset() if not _may_write_lines(schedule) or store_maps(c, tiling, schedule) else _unstaged_lines(c, tiling, schedule)


def _may_write_lines(schedule: Any) -> bool:
    return schedule.generator in ("wgmma", "dual", "grouped") and not (schedule.swapped or schedule.by_threads or schedule.line)


def _unstaged_lines(c: Contraction, tiling: Axes, schedule: Any) -> frozenset[int]:
    width = min(schedule.tile_n, ROW // 2)  # ``columns_together``
    if not {width, schedule.tile_n % width} <= {0, 32, 64}:
        return frozenset()
    return frozenset(i for i, d in enumerate(c.destinations) if _has_lines(tiling, d.access))


def written_by_element(c: Contraction, tiling: Axes, schedule: Any) -> int:
    """How many results lie so that warps could write lines, but are written two elements at a time, since parts have other numbers of columns."""
    if not _may_write_lines(schedule):
        return 0
    staged = store_maps(c, tiling, schedule)
    lines = frozenset() if staged else _unstaged_lines(c, tiling, schedule)
    return sum(i not in staged and i not in lines and _has_lines(tiling, d.access) for i, d in enumerate(c.destinations))


def may_be_lines(c: Contraction, tiling: Axes) -> bool:
    """Whether warps can write lines of all results, in tiles of the right width."""
    return all(_has_lines(tiling, d.access) for d in c.destinations)


@kept_with
def _has_lines(tiling: Axes, access: Access) -> bool:
    """Whether columns are neighbours, and an offset of 32 bits says whether a line begins inside of a word."""
    strides = [a.stride(access) for a in (tiling.m, tiling.n)]
    known = isinstance(tiling.n.size, int) and all(isinstance(s, int) for s in strides)
    return str(access.element) in _FLOATS[:2] and known and strides[1] == 1 and 0 < strides[0] < _NEAR and reach(product(access.shape)) < 2**31


def whole_lines(c: Contraction, tiling: Axes, tile_n: int) -> int:
    """Bytes of a line of the only result, where a tile has whole lines and those are neighbours in memory, of which every 64, and all of them, are
    multiples of 16 bytes; else 0."""
    access, columns = c.destinations[0].access, tiling.n.size
    size, begins = element_bytes(access.element), [access.offset, *(a.stride(access) for a in tiling.grid), tiling.m.size * columns]
    plain = len(c.destinations) == 1 and str(access.element) in _FLOATS and tiling.n.stride(access) == 1 and isinstance(columns, int)
    near = plain and columns <= tile_n < columns + _BEYOND and (tiling.m.size == 1 or tiling.m.stride(access) == columns)
    return size * columns if near and all(is_multiple(x * size, 16) for x in begins) else 0


def in_sectors(c: Contraction, tiling: Axes) -> bool:
    """Whether neighbouring threads have neighbouring columns of all results, which they write 8 bytes each."""
    for access in (d.access for d in c.destinations):
        begins = [access.offset, tiling.n.size, *(a.stride(access) for a in (*tiling.grid, tiling.m))]
        if str(access.element) not in _FLOATS or tiling.n.stride(access) != 1 or not all(is_multiple(x * element_bytes(access.element), 8) for x in begins):
            return False
    return True


@dataclass(frozen=True)
class Brought:
    """A tensor that the end of a tile reads from shared memory, and its map: ``axes`` innermost first, ``strides`` in elements."""

    access: Access
    axes: tuple[Axis, ...]
    strides: tuple[Int, ...]

    @property
    def bytes(self) -> int:
        """Of an element."""
        return element_bytes(self.access.element)


def large_extras(c: Contraction, tiling: Axes) -> list[Access]:
    """What the epilogue reads of tensors of the results' size."""
    return [a for a in dict.fromkeys(c.extras) if tiling.m.stride(a) != 0 and tiling.n.stride(a) != 0]


def brought_tensors(c: Contraction, tiling: Axes, schedule: Any) -> list[Brought]:
    """Those of them whose parts the copy engine can bring."""
    if schedule.swapped or c.varies:
        return []
    width, found = columns_together(c, tiling, schedule), []
    for access in large_extras(c, tiling):
        span = width * element_bytes(access.element)
        if str(access.element) in _FLOATS and width % 16 == 0 and span in (32, 64, 128):
            map_ = direct(access, (tiling.n, tiling.m), tiling.grid, element_bytes(access.element))
            found += [] if map_ is None else [Brought(access, *map_)]
    return found


def tile_parts(tile_n: int, width: int, blocks: int, whole: bool = False) -> list[tuple[int, int]]:
    """The parts of a consumer's tile of ``blocks`` x 64 rows in the order in which they are finished: first column, and block of rows.  ``whole``: all
    are as wide, the last one begins where it ends with the tile."""
    return [(min(begin, tile_n - width) if whole else begin, block) for begin in range(0, tile_n, width) for block in range(blocks)]
