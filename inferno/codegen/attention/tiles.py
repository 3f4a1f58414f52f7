"""Which queries a tile of attention has, and which blocks of keys they see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inferno.codegen.attention.blocks import LaidLists, Listed
from inferno.codegen.attention.even_shares import EvenTiles
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import Words
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith
from inferno.schedule.attention.bands import Band
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.schedule import Attention
from inferno.schedule.attention.tiling import AttentionTiling
from inferno.symbolic import Int, ceildiv, is_multiple, maximum, minimum, product, quotient

# Bytes of keys and values that L2 keeps for tiles that run together: half of an H200's, which is 50 MB in two parts that hold copies.
_L2 = 24 << 20


@dataclass(frozen=True)
class Place:
    """A tile: where it is in the axes of the grid, its first query, and its blocks of keys, from ``end - 1`` down to ``begin``.  ``reach``: its
    queries reach less than so many keys of the tensor, not looking at bands.  ``listed``: its blocks are those of a list, of which these are numbers."""

    grid: list[Integer]
    first: Integer
    begin: Integer
    end: Integer
    reach: Integer = 0
    listed: Listed | None = None


@dataclass(frozen=True)
class TileOrder:
    """All tiles of a kernel in the order in which they are begun: those of a head together, so that they find its keys in L2; where
    a band makes some longer than others the longest ones of a few heads first, so that the last ones to end are short.  ``part``: which of
    a tile's this block has; ``tensors``: those that are read by element; ``begin``: the first head; ``lists``: of the blocks
    that tiles see; ``even``: which parts of tiles are whose."""

    words: Words
    kernel: AttentionKernel
    tiling: AttentionTiling
    schedule: Attention
    part: Integer = 0
    tensors: Mapping[int, Elements] = field(default_factory=dict)
    begin: Integer = 0
    lists: LaidLists | None = None
    even: EvenTiles | None = None

    @property
    def rows(self) -> Int:
        """Tiles of a head."""
        return ceildiv(self.tiling.queries.size, self.schedule.queries)

    @property
    def count(self) -> Int:
        return self.rows * self.tiling.heads

    @property
    def blocks(self) -> Int:
        """Blocks of keys."""
        return ceildiv(self.tiling.keys.size, self.schedule.keys)

    @property
    def overhangs(self) -> bool:
        """Whether a block of keys may be one that the tensor does not have all of."""
        keys, s = self.tiling.keys.size, self.schedule
        return not is_multiple(keys, s.keys) or (s.shares > 1 and not isinstance(keys, int))

    @property
    def band(self) -> Band:
        return self.kernel.band or Band(None, None)

    @property
    def together(self) -> Int:
        """Heads whose keys and values have room in L2, of which there is a multiple where all of this is known."""
        t, shared = self.tiling, product(self.kernel.sizes[d] for d in self.kernel.shared)
        most = maximum(1, minimum(t.heads, _L2 // (2 * (t.depth.size + t.width.size)) * shared // t.keys.size))
        return next(n for n in range(most, 0, -1) if t.heads % n == 0) if isinstance(most, int) and isinstance(t.heads, int) else most

    def place(self, number: Integer) -> Place:
        words, rows, heads = self.words, self.rows, self.together
        part = None
        if self.even is not None:
            number, *part = self.even.find(number)
        if self.band.high is None and self.lists is None:
            row, head = words.rem(number, rows), words.div(number, rows)
        else:
            group, inside = words.div(number, rows * heads), words.rem(number, rows * heads)
            begin = words.mul(group, heads)
            if quotient(self.tiling.heads, heads) is None:  # the last ones may be fewer
                heads = words.min(heads, words.sub(self.tiling.heads, begin))
            row = words.sub(rows - 1, words.div(inside, heads))
            head = words.add(begin, words.rem(inside, heads))
        first = words.mul(row, self.schedule.queries)
        grid = self.split(head)
        if self.lists is not None:
            listed = self.lists.find(grid, first)
            return Place(grid, first, 0, listed.count, self.tiling.keys.size, listed)
        reach = self.reached(grid, first)
        if part is not None:
            return Place(grid, first, *part, reach)
        return Place(grid, first, *self.seen(first, self.blocks_of(reach)), reach)

    def block(self, place: Place, i: Integer) -> Integer:
        """The number of a tile's ``i``-th block from its end."""
        if place.listed is None:
            return self.words.sub(self.words.sub(place.end, 1), i)
        return self.lists.block(place.listed, i)

    def split(self, head: Integer) -> list[Integer]:
        return self.words.split(self.words.add(head, self.begin), [a.size for a in self.tiling.grid])

    def reached(self, grid: Sequence[Integer], first: Integer) -> Integer:
        """How many keys there are up to the last one that a query of the tile reaches, which may be more than the tensor has."""
        if not self.schedule.bounded:
            return self.tiling.keys.size
        words, t, (access, steps) = self.words, self.tiling, self.kernel.reach
        query = words.min(words.add(first, self.schedule.queries - 1), t.queries.size - 1)
        at, axes = [*grid, query], [*t.grid, t.queries]
        last = self.tensors[access.argument].read(words.dot(at, [a.stride(access) for a in axes], access.offset))
        most, least = (words.value(x) for x in (t.keys.size, -1 - t.keys.size))
        if last.type != words.type:
            most, least = (arith.extsi(last.type, x) for x in (most, least))
        last = arith.minsi(arith.maxsi(last, least), most)
        last = last if last.type == words.type else arith.trunci(words.type, last)
        further = words.dot(at, [a.stride(steps) for a in axes])
        return self.positive(words.add(words.add(last, further), steps.offset + 1))

    def blocks_of(self, reach: Integer) -> Integer:
        """Blocks of keys with those that are reached; at least one."""
        if not self.schedule.bounded:
            return self.blocks
        words, keys = self.words, self.schedule.keys
        return self.at_least(words.min(words.div(words.add(reach, keys - 1), keys), self.blocks), 1)

    def seen(self, first: Integer, end: Integer) -> tuple[Integer, Integer]:
        """Of the blocks before ``end`` those that some query of the tile sees, one where none does; or this part of them, or a block behind
        them where there are too few."""
        words, s, band = self.words, self.schedule, self.band
        if s.shares > 1:
            if isinstance(end, int):
                each = ceildiv(end, s.shares)
                begin = words.mul(self.part, each)
                return begin, words.min(words.add(begin, each), end)
            each = words.div(words.add(end, s.shares - 1), s.shares)
            begin = words.min(words.mul(self.part, each), end)
            return begin, self.at_least(words.min(words.add(begin, each), end), words.add(begin, 1))
        begin = 0
        if band.high is not None:
            last = self.positive(words.add(first, s.queries + band.high))
            end = words.min(words.div(words.add(last, s.keys - 1), s.keys), end)
            end = self.at_least(end, 1)
        if band.low is not None:
            begin = words.div(self.positive(words.add(first, band.low)), s.keys)
            begin = words.min(begin, words.sub(end, 1))
        return begin, end

    def turning_points(self, place: Place) -> tuple[Integer, Integer, Integer]:
        """Of the blocks counted from the last one, where those end that the band cuts at its upper end, where those begin that it cuts
        at its lower end, and how many there are.  The first one counts as cut; of a list so do those in front."""
        if place.listed is not None:
            count = place.listed.count
            return (self.at_least(place.listed.front, 1) if self.kernel.blocks.whole.differs else count), count, count
        words, s, band = self.words, self.schedule, self.band
        count, free, low = words.sub(place.end, place.begin), 1, None
        if band.high is not None and self.cut_above != 1:
            whole = words.div(self.positive(words.add(place.first, band.high + 1)), s.keys)
            free = self.least(self.at_least(words.sub(place.end, whole), 1), count)
        low = count
        if band.low is not None:
            whole = words.div(self.positive(words.add(place.first, s.queries + band.low + s.keys - 2)), s.keys)
            low = self.at_least(self.least(words.sub(place.end, whole), count), free)
        return free, low, count

    @property
    def cut_above(self) -> Int:
        """Blocks of keys of one tile that the upper end of the band cuts, at most."""
        s, high = self.schedule, self.band.high
        if high is None:
            return 0
        if s.shares > 1:
            return self.blocks
        return 1 if s.keys % s.queries == 0 and is_multiple(high, s.queries) else ceildiv(s.queries, s.keys) + 1

    # With signs.

    def positive(self, a: Integer) -> Integer:
        return self.at_least(a, 0)

    def at_least(self, a: Integer, least: Integer) -> Integer:
        if isinstance(a, int) and isinstance(least, int):
            return max(a, least)
        return arith.maxsi(self.words.value(a), self.words.value(least))

    def least(self, a: Integer, most: Integer) -> Integer:
        if isinstance(a, int) and isinstance(most, int):
            return min(a, most)
        return arith.minsi(self.words.value(a), self.words.value(most))
