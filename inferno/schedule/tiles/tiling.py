"""How a contraction is cut into tiles that Hopper's copy engine (TMA) brings to shared memory.

One run of loops of each role is tiled; all other runs of m and n are, like the batch, part of the grid, and all other
runs of k are walked by an outer loop.

An operand with a prologue, or with its dimensions in the wrong order for the tensor core, comes to shared memory as it is
(``raw``) and is rewritten there.  One that the copy engine cannot read - unaligned strides, no contiguous dimension that
serves - is first computed to a temporary with strides that it can read; so may prologues be, where they are costly.
"""

from dataclasses import dataclass

from inferno.mlir import walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.unchanged import kept_with
from inferno.schedule.maps.supported import supported_body, supported_element
from inferno.schedule.matmul.contraction import Contraction, Group, Operand
from inferno.symbolic import Int, bounds, ceildiv, hint, is_multiple, product, reach

MOST_AXES = 5  # of a tensor map
_ALIGNMENT = 16  # bytes, of every stride but the innermost
_LINE, _SECTOR = 128, 32  # bytes of L2's lines, and of what it gets at a time
# A temporary may not be so much larger than what it is made of: an unfolded convolution is left to other generators.
_GROWTH = 4
RAW_ELEMENTS = ("bf16", "f16", "f32", "i8", "i32")
"""Types of tiles that are rewritten in shared memory."""


@dataclass(frozen=True)
class Axis:
    """A run of loops that every tensor walks with one stride; without ``dims`` a loop of size 1."""

    dims: tuple[int, ...]
    size: Int

    def stride(self, access: Access) -> Int:
        """In elements; 0 for a broadcast or a loop of size 1."""
        return access.strides[self.dims[-1]] if self.dims else 0


_UNIT = Axis((), 1)
BEHIND = Axis((), 2)
"""What an operand that does not begin with its tensor has as its outermost axis: its stride is where the operand begins, its position 1.  It is
no loop, and what is read without the map has no stride along it."""


@dataclass(frozen=True)
class Source:
    """The tensor map of an operand: ``axes`` innermost first, ``strides`` in elements.  For an unfolded operand all axes, and the strides
    are those of the matrix of windows, of which there is no such map.

    ``along_k``: in the tiles k is innermost; otherwise the operand's other tiled axis is.  The map has the same order, but for
    that of ``raw``, the tensor whose tiles are rewritten in shared memory: ``raw_along_k`` says it; ``prologue`` whether they are
    not only transposed.
    ``copied``: the map is of a temporary of ``shape`` (outermost first) that the kernel's own launcher fills.
    """

    axes: tuple[Axis, ...]
    strides: tuple[Int, ...]
    along_k: bool
    copied: bool = False
    shape: tuple[Int, ...] = ()
    raw: Access | None = None
    raw_along_k: bool = False
    prologue: bool = False

    @property
    def is_transposed(self) -> bool:
        """Whether tiles get another order in shared memory."""
        return self.raw is not None and self.along_k != self.raw_along_k


@dataclass(frozen=True)
class Axes:
    """``m``, ``n`` and ``k`` are tiled; ``grid`` and ``steps`` (of k) are walked one position at a time, outermost first."""

    grid: tuple[Axis, ...]
    m: Axis
    n: Axis
    k: Axis
    steps: tuple[Axis, ...]

    @property
    def positions(self) -> Int:
        return product(a.size for a in self.grid)

    @kept_with
    def tiles(self, tile_m: int, tile_n: int) -> Int:
        """Tiles of so many results."""
        return self.positions * ceildiv(self.m.size, tile_m) * ceildiv(self.n.size, tile_n)

    @kept_with
    def k_steps(self, depth: int) -> Int:
        """Tiles along k, each ``depth`` deep."""
        return product(a.size for a in self.steps) * ceildiv(self.k.size, depth)


@dataclass(frozen=True)
class Tiling(Axes):
    """The axes of a contraction, and how the copy engine brings its operands."""

    lhs: Source
    rhs: Source


def axes(group: Group) -> list[Axis]:
    """The runs of a group, outermost first."""
    return [Axis(tuple(run), size) for run, size in zip(group.runs, group.run_sizes)]


@kept_with
def tile_contraction(c: Contraction, width: int, only_along_k: bool, rewrite: bool = True, offset: bool = False, registers: bool = False) -> Tiling | None:
    """The tiling of ``c`` for operands of ``width`` bytes an element; None where a temporary would be needed that cannot be.

    ``only_along_k``: the tensor core reads tiles of this type with k innermost only (TF32).  ``rewrite``: tiles are rewritten in
    shared memory where that is possible; otherwise there are temporaries.  ``offset``: operands may be slices of tensors.  ``registers``: the lhs
    goes to the tensor core by them, and its tiles may have any order.
    """
    found = pick_axes(c, transposed=only_along_k)
    if found is None:
        return None
    others = (*found.grid, *found.steps)
    if c.lhs.unfolded is not None and c.lhs.unfolded.summed:
        return None
    lhs = _source(c.lhs, found.m, found.k, others, width, only_along_k and not registers, rewrite, offset)
    rhs = _source(c.rhs, found.n, found.k, others, width, only_along_k, rewrite, offset)
    if lhs is None or rhs is None:
        return None
    return Tiling(found.grid, found.m, found.n, found.k, found.steps, lhs, rhs)


def pick_axes(c: Contraction, transposed: bool = False) -> Axes | None:
    """Which axes of ``c`` are tiled; None where strides may be negative, or vary along the results' rows.

    ``transposed``: tiles have k innermost wherever they come from.
    """
    accesses = [*c.lhs.reads, *c.rhs.reads, *c.extras, *(d.access for d in c.destinations)]
    if any(bounds(s)[0] < 0 for a in accesses for s in (*a.strides, a.offset)):
        return None
    k_axes, m_axes, n_axes = axes(c.k), axes(c.m), axes(c.n)
    direct = [o.access for o in (c.lhs, c.rhs) if o.prologue is None]
    k = _pick(k_axes, lambda a: (max((a.stride(x) == 1 for x in direct), default=False), k_axes.index(a)))
    n = _pick(n_axes, n_axes.index)
    lhs_rows = c.lhs.access if c.lhs.prologue is None and k.stride(c.lhs.access) != 1 and not transposed else None
    m = _pick(m_axes, lambda a: (_neighbours(c.lhs, a), lhs_rows is not None and a.stride(lhs_rows) == 1, hint(a.size), m_axes.index(a)))
    results = [*c.extras, *(d.access for d in c.destinations)]
    if not all(isinstance(n.stride(a), int) for a in results):
        return None
    steps = tuple(a for a in k_axes if a is not k)
    grid = (*axes(c.batch), *(a for a in m_axes if a is not m), *(a for a in n_axes if a is not n))
    return Axes(grid, m, n, k, steps)


def shortest_part(steps: Int, split: int) -> int:
    """The fewest steps that the last of ``split`` blocks can have, where each of the others has the same number of them, rounded up."""
    least, most = bounds(steps)
    # With ``split`` steps more each block has one more.
    return min(n - (split - 1) * ceildiv(n, split) for n in range(least, min(most, least + split - 1) + 1))


def _neighbours(operand: Operand, rows: Axis) -> bool:
    """Whether the rows are those of neighbouring windows of an image, as the copy engine walks them."""
    return operand.unfolded is not None and rows.stride(operand.access) == operand.unfolded.terms


def _pick(candidates: list[Axis], key) -> Axis:
    return max(candidates, key=key, default=_UNIT)


def _source(
    operand: Operand, rows: Axis, k: Axis, others: tuple[Axis, ...], width: int, only_along_k: bool, rewrite: bool, offset: bool = False,
) -> Source | None:
    if operand.unfolded is not None and operand.unfolded.summed:
        return None if only_along_k else _summed(operand, rows, k, others, width)
    if operand.unfolded is not None:
        if k.stride(operand.access) != 1 or not (rows.size == 1 or _neighbours(operand, rows)) or not operand.unfolded.fits(width):
            return None
        return Source((k, rows, *others), (1, *(a.stride(operand.access) for a in (rows, *others))), True)
    if operand.prologue is None:
        for along_k in (True,) if only_along_k else (True, False):
            found = direct(operand.access, (k, rows) if along_k else (rows, k), others, width, offset)
            if found is not None:
                return Source(*found, along_k)
    if not operand.reads or any(not supported_element(a.element) or reach(product(a.shape)) >= 2**31 for a in operand.reads):
        return None
    if operand.prologue is not None:
        body = operand.prologue.generic
        if not supported_body(body) or walk(body, "tensor.extract", "linalg.index"):
            return None
    if rewrite and (found := _raw(operand, rows, k, others, only_along_k, offset)) is not None:
        return found
    return _copied(operand, rows, k, others, width, only_along_k)


def _summed(operand: Operand, columns: Axis, pixels: Axis, others: tuple[Axis, ...], width: int) -> Source | None:
    """Of the matrix of windows, whose columns are the result's: the channels of a tap lie side by side, and what is no column is pixels."""
    window, access = operand.unfolded, operand.access
    used = [a for a in others if a.stride(access) != 0]
    if columns.stride(access) != 1 or not (pixels.size == 1 or pixels.stride(access) == window.terms) or not window.fits(width):
        return None
    if any(a.stride(access) % window.shape[-1] for a in used) or any(a.stride(access) % window.terms and a.stride(access) > window.terms for a in used):
        return None
    return Source((columns, pixels, *used), (1, *(a.stride(access) for a in (pixels, *used))), False)


def direct(access: Access, tiled: tuple[Axis, Axis], others: tuple[Axis, ...], width: int, offset: bool = False):
    """Axes and strides of a map of the tensor itself; None if it breaks a rule of tensor maps.  ``offset``: it may begin inside of it."""
    inner, outer = tiled
    if access.offset != 0 and not (offset and isinstance(access.offset, int)):
        return None
    if (inner.stride(access) != 1 and inner.size != 1) or (outer.stride(access) == 0 and outer.size != 1):
        return None
    found = (inner, outer, *(a for a in others if a.stride(access) != 0))
    # A loop of size 1 has no stride; any allowed one will do.
    strides = (1, *(a.stride(access) if a.stride(access) != 0 else _round_up(inner.size, width) for a in found[1:]))
    if access.offset:
        found, strides = (*found, BEHIND), (*strides, access.offset)
    if len(found) > MOST_AXES or any(not is_multiple(s * width, _ALIGNMENT) or reach(s) * width >= 2**40 for s in strides[1:]):
        return None
    return found, strides


def _raw(operand: Operand, rows: Axis, k: Axis, others: tuple[Axis, ...], only_along_k: bool, offset: bool) -> Source | None:
    """The map of the largest tensor that a prologue reads; the tensor core gets the same order if it takes it."""
    main = main_read(operand)
    if str(main.element) not in RAW_ELEMENTS:
        return None
    for along_k in (True, False):
        found = direct(main, (k, rows) if along_k else (rows, k), others, main.element.width // 8, offset)
        if found is not None:
            return Source(*found, along_k or only_along_k, raw=main, raw_along_k=along_k, prologue=operand.prologue is not None)
    return None


def _copied(operand: Operand, rows: Axis, k: Axis, others: tuple[Axis, ...], width: int, only_along_k: bool) -> Source | None:
    main = main_read(operand)
    along_k = only_along_k or not (rows.stride(main) == 1 and k.stride(main) != 1)
    inner, outer = (k, rows) if along_k else (rows, k)
    used = [a for a in others if any(a.stride(x) for x in operand.reads)]
    shape = (*(a.size for a in used), outer.size, _pitch(inner.size, width))
    count = product(shape)
    if len(shape) > MOST_AXES or reach(count) >= 2**31 or hint(count) > _GROWTH * hint(product(main.shape)) + 2**20:
        return None
    strides = tuple(product(shape[i + 1:]) for i in range(len(shape)))
    return Source((inner, outer, *reversed(used)), tuple(reversed(strides)), along_k, True, shape)


def paired(access: Access, tiling: Axes) -> bool:
    """Whether two neighbours of a tile's columns, from an even one on, are one aligned pair in memory."""
    others = [a.stride(access) for a in (*tiling.grid, tiling.m)]
    return tiling.n.stride(access) == 1 and tiling.n.size % 2 == 0 and all(is_multiple(x, 2) for x in (access.offset, *others))


def main_read(operand: Operand) -> Access:
    """The largest tensor that an operand is made of."""
    return max(operand.reads, key=lambda a: hint(product(a.shape)))


def _pitch(count: Int, width: int) -> Int:
    """``count`` elements of ``width`` bytes in lines that begin where L2's do, or its sectors, unless that is an eighth more: lines that begin elsewhere take
    the copy engine longer (512x4100x4096 with GELU 56.2 us on an H100, in lines of 8208 bytes 63.8; TF32 1000x1001x1003 24.3 and 28.7)."""
    least = hint(_round_up(count, width))
    unit = next(u for u in (_LINE, _SECTOR, _ALIGNMENT) if 8 * hint(_round_up(count, width, u)) <= 9 * least)
    return _round_up(count, width, unit)


def _round_up(count: Int, width: int, unit: int = _ALIGNMENT) -> Int:
    """``count`` elements of ``width`` bytes, rounded up to an allowed stride."""
    step = unit // width
    return ceildiv(count, step) * step
