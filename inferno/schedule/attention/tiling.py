"""Attention's loops as axes that every tensor walks with one stride, and how the copy engine brings its operands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.pages import Pages
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.schedule import Attention, most_rows
from inferno.schedule.attention.writes import RowWrite, row_writes
from inferno.schedule.matmul.contraction import Operand
from inferno.schedule.tiles.tiling import MOST_AXES, Axis, axes, direct
from inferno.symbolic import Int, ceildiv, product


@dataclass(frozen=True)
class Copied:
    """The tensor map of an operand: ``axes`` innermost first, ``strides`` in elements.

    Of a float32 operand they are the tensor's; its pieces lie one behind the other without gaps.
    ``transposed``: rows, queries or keys, are innermost.  ``pages``: the rows are a page's, and the last axis is that of pages.
    """

    axes: tuple[Axis, ...]
    strides: tuple[Int, ...]
    transposed: bool = False
    pages: Pages | None = None

    @property
    def heads(self) -> Int:
        return product(a.size for a in self.axes[2:])


def transposed_lines(copied: Copied) -> int:
    """Lines of a panel of 64 rows: one for each column, and for what products of 16 terms have more."""
    return ceil(copied.axes[1].size / 16) * 16


@dataclass(frozen=True)
class AttentionTiling:
    """The loops of attention as axes that every tensor walks with one stride; ``grid`` those of the batch, outermost first.
    ``whole``: how the copy engine can bring q, k and v of float32 as they are; None where it cannot."""

    grid: tuple[Axis, ...]
    queries: Axis
    keys: Axis
    depth: Axis
    width: Axis
    q: Copied
    k: Copied
    v: Copied
    writes: tuple[RowWrite, ...] = ()
    whole: tuple[Copied, ...] | None = None

    @property
    def heads(self) -> Int:
        return product(a.size for a in self.grid)

    @property
    def rows(self) -> int:
        """Of a consumer's 64 those that are queries, at most."""
        return most_rows(self.queries.size)

    def tiles(self, s: Attention) -> Int:
        return self.heads * ceildiv(self.queries.size, s.queries)


def tile_attention(a: AttentionKernel) -> AttentionTiling | None:
    """The axes of ``a``; None where the copy engine cannot bring an operand."""
    if any(o.prologue is not None for o in (a.q, a.k, a.v)) or not all(g.flat for g in (a.queries, a.keys, a.depth, a.width)):
        return None
    queries, keys, depth, width = (one_axis(g) for g in (a.queries, a.keys, a.depth, a.width))
    grid = tuple(axes(a.batch))
    found, tiles = [], ((depth, queries), (depth, keys), (width, keys))
    for o, tiled, transposed in zip((a.q, a.k, a.v), tiles, transposed_operands(a)):
        if o.element.width != 16:
            axes_and_strides = _all_axes(o, tiled, grid)
        else:
            tiled = tiled[::-1] if transposed else tiled
            axes_and_strides = _brought(o, tiled, grid)
        pages = o.pages if o.element.width == 16 else None
        if axes_and_strides is not None and pages is not None:
            axes_and_strides = _in_pages(*axes_and_strides, pages)
        if axes_and_strides is None:
            return None
        found.append(Copied(*axes_and_strides, transposed, pages))
    writes = row_writes(a, grid, keys, depth, width)
    return AttentionTiling(grid, queries, keys, depth, width, *found, writes, _whole(a, tiles, grid)) if writes is not None else None


def _brought(o: Operand, tiled: tuple[Axis, Axis], grid: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], tuple[Int, ...]] | None:
    """Axes and strides of a map of an operand."""
    return next(filter(None, (direct(access, tiled, of, o.element.width // 8, offset=True) for access, of in _ways(o.access, grid))), None)


def _whole(a: AttentionKernel, tiles: Sequence[tuple[Axis, Axis]], grid: tuple[Axis, ...]) -> tuple[Copied, ...] | None:
    """The maps of float32 operands."""
    operands = (a.q, a.k, a.v)
    if any(not isinstance(o.element, ir.F32Type) or o.access is None or o.pages is not None for o in operands):
        return None
    found = [_brought(o, tiled, grid) for o, tiled in zip(operands, tiles)]
    return None if None in found else tuple(Copied(*x) for x in found)


def _ways(access: Access, grid: tuple[Axis, ...]) -> Iterator[tuple[Access, tuple[Axis, ...]]]:
    """How a map may have the batch: as it is; neighbouring axes that the tensor walks as one together, as the windows of all images, which only a mask tells
    apart; and where the tensor begins as positions of an axis, as keys behind each head's queries.  Maps have few axes."""
    yield access, grid
    together: list[Axis] = []
    for axis in grid:
        step = axis.stride(access)
        if together and step != 0 and together[-1].stride(access) == step * axis.size:
            together[-1] = Axis((*together[-1].dims, *axis.dims), together[-1].size * axis.size)
        else:
            together.append(axis)
    yield access, tuple(together)
    for i, axis in enumerate(together):
        step = axis.stride(access)
        if all(isinstance(n, int) for n in (step, access.offset, axis.size)) and step > 0 and access.offset % step == 0:
            longer = replace(axis, size=axis.size + access.offset // step)
            yield replace(access, offset=0), (*together[:i], longer, *together[i + 1:])


def transposed_operands(a: AttentionKernel) -> tuple[bool, bool, bool]:
    """Whether rows are innermost in q, k and v, where they come to shared memory as they are."""
    return tuple(
        o.element.width == 16 and o.access is not None and bool(inner.dims) and inner.size != 1 and o.access.strides[inner.dims[-1]] != 1
        for o, inner in ((a.q, a.depth), (a.k, a.depth), (a.v, a.width))
    )


def _in_pages(found: tuple[Axis, ...], strides: tuple[Int, ...], pages: Pages) -> tuple[tuple[Axis, ...], tuple[Int, ...]] | None:
    """The axes of one page and that of pages; None where tensor maps have no room for it, or the pages are none of theirs."""
    depth, rows, *heads = found
    bytes_between = 2 * pages.of.step
    if len(found) == MOST_AXES or bytes_between % 16 or not 0 < bytes_between < 2**40 or pages.rows % 16:
        return None
    return (depth, replace(rows, size=pages.rows), *heads, Axis((), pages.of.count)), (*strides, pages.of.step)


def _all_axes(o: Operand, tiled: tuple[Axis, Axis], grid: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], tuple[Int, ...]]:
    found = (*tiled, *(a for a in grid if any(a.stride(x) != 0 for x in o.reads)))
    return found, tuple(a.stride(o.access) for a in found)


def one_axis(group) -> Axis:
    """The axis of a group with one run of loops, or with none, which has size 1."""
    return axes(group)[0] if group.runs else Axis((), 1)
