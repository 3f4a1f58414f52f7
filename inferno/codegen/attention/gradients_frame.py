"""What the roles of a kernel of attention's gradients share: barriers, shared memory, tensor maps, and the order of tiles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from inferno.codegen.attention.gradients_block import Block
from inferno.codegen.attention.masks import MaskSlots
from inferno.codegen.attention.tiles import Place, TileOrder
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import Words, loop
from inferno.codegen.nvvm.mbarriers import Ring
from inferno.codegen.nvvm.tensor_core import Tile
from inferno.mlir import ir
from inferno.passes.shapes import row_major
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.attention.attention_gradients import AttentionGradients, GradientTiling, Shared
from inferno.schedule.attention.bands import Band
from inferno.schedule.attention.gradient_kernel import AttentionGradient
from inferno.schedule.attention.kept_scores import QuerySums, lies_in_blocks
from inferno.schedule.attention.kernel import sources
from inferno.schedule.attention.listed_blocks import Blocks
from inferno.schedule.attention.schedule import LINE, Attention, lines
from inferno.schedule.matmul.contraction import Destination, Map
from inferno.schedule.tiles.result_parts import Brought
from inferno.schedule.tiles.tiling import Axis


@dataclass(frozen=True)
class Points:
    """Products as attention has them, with rows for queries and columns for keys."""

    sizes: tuple[int, ...]
    score: Map | None
    scale: float
    band: Band
    destinations: tuple[Destination, ...]
    shared: tuple[int, ...] = ()
    blocks: Blocks | None = None
    softmax: bool = True
    broken: tuple[Access, ...] = ()

    @property
    def score_extras(self) -> tuple[Access, ...]:
        return sources(self.score)


@dataclass(frozen=True)
class PointAxes:
    grid: tuple[Axis, ...]
    queries: Axis
    keys: Axis
    depth: Axis
    width: Axis
    heads: int


@dataclass(frozen=True)
class Order(TileOrder):
    """Also where the lower end of the band makes some tiles longer than others, as it does for keys of causal attention, the longest ones of a few
    heads come first.  ``unit``: a tile begins with a multiple of so many columns, as what reads the gradients of scores that are kept does with rows.
    ``last_first``: heads come from the last one on; ``shifted``: the tiles of a head begin with columns that lie evenly apart, and go up from there."""

    unit: int = 1
    last_first: bool = False
    shifted: bool = False

    def split(self, head: Integer) -> list[Integer]:
        return super().split(self.words.sub(self.tiling.heads - 1, head) if self.last_first else head)

    def place(self, number: Integer) -> Place:
        if self.lists is not None or self.band.high is not None or self.band.low is None:
            return super().place(number)
        words, rows, heads = self.words, self.rows, self.together
        group, inside = words.div(number, rows * heads), words.rem(number, rows * heads)
        first = words.mul(words.div(inside, heads), self.schedule.queries)
        head = words.add(words.mul(group, heads), words.rem(inside, heads))
        return Place(self.split(head), first, *self.seen(first, self.blocks))

    def block(self, place: Place, i: Integer) -> Integer:
        if not self.shifted:
            return super().block(place, i)
        words = self.words
        row = words.div(place.first, self.schedule.queries)
        at = words.add(words.div(words.mul(row, self.blocks), self.rows), i)
        return words.select(words.less(at, self.blocks), at, words.sub(at, self.blocks))

    def turn(self, place: Place, block: Integer) -> Integer:
        """How many of the head's tiles have this block of columns before a tile of a ``shifted`` order has: those that begin with it or before it, the last of
        them first, then the others in the same way."""
        words, rows = self.words, self.rows
        row = words.div(place.first, self.schedule.queries)
        first = words.div(words.sub(words.mul(words.add(block, 1), rows), 1), self.blocks)
        before = words.sub(first, row)
        return words.select(words.less(first, row), words.add(before, rows), before)

    def seen(self, first: Integer, end: Integer) -> tuple[Integer, Integer]:
        begin, end = super().seen(first, end)
        words, keys = self.words, self.schedule.keys
        if self.unit == 1:
            return begin, end
        return words.div(words.mul(words.div(words.mul(begin, keys), self.unit), self.unit), keys), end


@dataclass
class Frame:
    """Maps of ``block`` are of both operands of rows, both of columns, of what is kept, if anything is, and of tensors that are ``brought`` for scores.

    ``kernel``, ``tiling``, ``schedule`` are as ``Scores`` and ``TileOrder`` of attention take them; ``gradient``, ``axes``, ``form`` our own.
    A position of ``outer`` counts as one of the grid.
    """

    block: Block
    gradient: AttentionGradient
    axes: GradientTiling
    form: AttentionGradients
    layout: Shared
    brought: Sequence[Brought]

    def __post_init__(self) -> None:
        block, g, t, s = self.block, self.gradient, self.axes, self.form
        self.words, self.tensors, self.shared = block.words, block.tensors, block.shared
        words = self.words
        self.kernel = Points(g.sizes, g.score, g.scale, g.seen, (g.results[0].destination,), blocks=g.blocks)
        self.tiling = PointAxes((*t.grid, *t.outer), t.rows, t.columns, t.depth, t.width, block.heads)
        self.schedule = Attention(s.consumers, s.columns)
        unit = 1 if g.queries is None else QuerySums().rows
        self.order = Order(
            words, self.kernel, replace(self.tiling, grid=t.grid), self.schedule, begin=block.begin, lists=block.lists, unit=unit, shifted=s.adds > 0,
        )
        # By operand: of rows; of columns as a rhs that is summed over its lines, and as one that is summed over its columns.
        sizes = [lines(t.depth.size), lines(t.width.size)]
        self.row_tile, self.column_tile = Tile(64, 2, True), Tile(s.columns, 2, True)
        self.transposed = [Tile(64 * n, 2, False, 2 * s.columns) for n in sizes]
        self.row_bytes = [self.row_tile.bytes * n for n in sizes]
        self.column_bytes = [self.column_tile.bytes * n for n in sizes]
        barriers = words.add(self.shared, self.layout.barriers)
        self.columns = Ring(words, barriers, s.stages, s.consumers)
        self.rows = Ring(words, words.add(barriers, 16 * s.stages), s.consumers, 128)
        maps, base = block.maps[len(block.maps) - len(self.brought):], words.add(self.shared, self.layout.masks)
        self.masks = MaskSlots(words, self.brought, maps, s.mask_slot(g.transposed), base, g.transposed) if s.masks else None
        numbers = words.add(barriers, 16 * (s.stages + s.consumers))
        self.numbers = block.numbers(self.rows, numbers, self.order.count)

    @property
    def positions(self) -> int:
        """Of ``outer``."""
        return prod(a.size for a in self.axes.outer)

    def rows_at(self, operand: int, consumer: Integer) -> Integer:
        """The shared address of a consumer's rows."""
        return self.words.add(self.words.add(self.shared, operand * self.layout.second), self.words.mul(consumer, self.row_bytes[operand]))

    def results_at(self, number: int, consumer: Integer) -> Integer:
        """The shared address of a consumer's part of a result, which has as many columns as these rows."""
        return self.words.add(self.rows_at(number, consumer), self.layout.results if self.form.apart else 0)

    def kept_at(self, consumer: Integer, buffer: Integer) -> Integer:
        """The shared address of one of the two buffers of what a consumer keeps."""
        words, size = self.words, self.form.kept_bytes
        return words.add(words.add(words.add(self.shared, self.layout.kept), words.mul(consumer, 2 * size)), words.mul(buffer, size))

    def columns_at(self, operand: int, slot: Integer) -> Integer:
        """The shared address of a slot's columns."""
        words = self.words
        return words.add(words.add(self.shared, self.layout.slots + operand * self.column_bytes[0]), words.mul(slot, self.layout.slot))

    def each_position(self, carried: Sequence[ir.Value], body: Callable[..., Sequence[ir.Value]]) -> list[ir.Value]:
        """``body(n, *carried)`` for each position of ``outer``."""
        if self.positions == 1:
            return list(body(0, *carried))
        return loop(self.words, 0, self.positions, 1, carried, body)

    def outer(self, position: Integer) -> list[Integer]:
        """A position of ``outer`` as its axes' numbers."""
        return self.words.split(position, [a.size for a in self.axes.outer])


def linear(words: Words, t: GradientTiling, grid: Sequence[Integer]) -> Integer:
    """A position of the batch, and of what is walked one position at a time, as one number."""
    return words.dot(list(grid), row_major([a.size for a in (*t.grid, *t.outer)]))


def kept_place(words: Words, g: AttentionGradient, rows: int, key: Integer, query: Integer, head: Integer) -> list[Integer]:
    """Coordinates of gradients of scores that are kept by tiles of ``rows`` keys, from a key on, a multiple of 64."""
    if not lies_in_blocks(g, rows):
        return [key, query, head]
    return [0, query, words.add(words.mul(head, g.rows.size // LINE), words.div(key, LINE))]
