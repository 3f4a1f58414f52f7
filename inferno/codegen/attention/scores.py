"""What happens to scores between their product and softmax: scaling, elementwise operations, and masking."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import e, inf, log2

from inferno.codegen.attention.frame import Frame
from inferno.codegen.attention.softmax import HALVES
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.attention.score_pairs import ScorePairs
from inferno.codegen.matmul.pair_epilogue import PairEpilogue
from inferno.mlir import arith, ir
from inferno.passes.generics import float32
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.attention.kernel import sources
from inferno.schedule.attention.listed_blocks import HIDDEN, WHOLE
from inferno.schedule.matmul.contraction import Destination, Map
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.tiles.tiling import Axes
from inferno.symbolic import Int


@dataclass(frozen=True)
class _Points:
    """Scores as results of a contraction of queries and keys."""

    sizes: tuple[Int, ...]
    epilogue: Map
    extras: tuple[Access, ...]
    destinations: tuple[Destination, ...]


class Scores:
    """Of one consumer, whose first row in a tile is ``row`` and which has at most ``rows``; of a warp that has keys of its own ``key`` is the first of a
    block's."""

    def __init__(self, frame: Frame, row: Integer, warp: Integer, lane: Integer, key: Integer = 0, rows: int = 64) -> None:
        a, words = frame.kernel, frame.words
        self.frame, self.words = frame, words
        self.halves = [half for half in HALVES if 8 * half < rows]  # which rows of a thread are any
        self.row = words.add(row, words.add(words.shl(warp, 4), words.shr(lane, 2)))
        self.pair, self.first = words.shl(words.mask(lane, 3), 1), key
        self.column = words.add(self.pair, key)
        self.pairs = self.inlined(a.score)
        self.whole = None if a.blocks is None else self.inlined(a.blocks.whole.score) if a.blocks.whole.differs else self.pairs
        self.weighting: ScorePairs | None = None

    def inlined(self, score: Map | None) -> ScorePairs | None:
        """A score function."""
        if score is None:
            return None
        a, t, s = self.frame.kernel, self.frame.tiling, self.frame.schedule
        points = _Points(a.sizes, score, sources(score), (Destination(0, a.destinations[0].access),))
        return ScorePairs(self.words, points, Axes(t.grid, t.queries, t.keys, t.depth, ()), Wgmma(s.queries, s.keys), self.frame.tensors, a.broken)

    @property
    def made(self) -> bool:
        """Whether something else is made of scores than -inf where they are hidden."""
        blocks = self.frame.kernel.blocks
        return (self.pairs is not None or self.whole is not None) and (blocks is None or not blocks.whole.hides)

    @property
    def folded(self) -> bool:
        """Whether the scale is left to softmax, which multiplies in any case."""
        return self.frame.kernel.softmax and not self.made and self.frame.kernel.scale > 0

    @property
    def factor(self) -> float:
        return log2(e) * (self.frame.kernel.scale if self.folded else 1.0)

    def place(self, query: Integer, block: Integer) -> None:
        """Of the tile that begins at a query and of a block of keys."""
        self.query = self.words.add(query, self.row)
        self.key = self.words.add(self.words.mul(block, self.frame.schedule.keys), self.column)

    def begin(
        self, grid: Sequence[Integer], query: Integer, block: Integer, first: bool = False, inside: bool = False, whole: bool = False,
        brought: Callable[[PairEpilogue], None] | None = None,
    ) -> None:
        """There, where none of the keys is behind the tensor's last one if it is ``inside``: what is read for them.  Its latency passes under the
        product.  Of ``whole`` blocks another function counts; the ``first`` one may be of any kind.  ``brought`` tells the function what is in shared
        memory."""
        self.place(query, block)
        several = [self.pairs, self.whole][:1 if self.whole is self.pairs else 2]
        for pairs in several if first else [self.whole if whole else self.pairs]:
            if pairs is not None:
                pairs.place_thread(grid, self.query, self.key, inside)
                pairs.place_keys(block, self.first, self.pair)
                if brought is not None:
                    brought(pairs)
                if pairs is self.whole or self.frame.kernel.blocks is None:  # masked blocks are few
                    pairs.load([8 * half for half in self.halves], range(self.frame.schedule.warp_keys // 8))

        if self.weighting is not None:
            self.weighting.place_thread(grid, self.query, self.key, inside)
            if self.pairs is not None:
                self.weighting.know_from(self.pairs)
            self.weighting.load([8 * half for half in self.halves], range(self.frame.schedule.warp_keys // 8))

    def weighted(self, weights: Sequence[ir.Value], edge: bool) -> list[ir.Value]:
        """What values are multiplied by, of weights; 0 behind the last key of a block at the ``edge``, where what weights are multiplied by may be anything."""
        made, f32 = self.applied(self.weighting, weights), ir.F32Type.get()
        made = [x if x.type == f32 else arith.extf(f32, x) for x in made]
        return made if self.weighting is None else self.hidden(made, False, False, edge, float32(0.0))

    def finish(
        self, products: Sequence[ir.Value], above: bool, below: bool, edge: bool, whole: bool = False, kind: ir.Value | None = None,
    ) -> list[ir.Value]:
        """The scores there, which the band may cut ``above`` or ``below``, or the ``edge`` of the tensor; of a block that is ``whole``, or of the
        ``kind`` that a list says."""
        scores, scale, words = list(products), self.frame.kernel.scale, self.words
        if not self.folded and scale != 1:
            scores = [arith.mulf(x, float32(scale)) for x in scores]
        made = self.applied(self.whole if whole else self.pairs, scores)
        if kind is not None:
            if self.frame.kernel.blocks.whole.differs:
                is_whole = words.equal(kind, WHOLE)
                made = [arith.select(is_whole, x, y) for x, y in zip(self.applied(self.whole, scores), made)]
            is_hidden = words.equal(kind, HIDDEN)
            made = [arith.select(is_hidden, float32(-inf), x) for x in made]
        return self.hidden(made, above, below, edge, None if self.frame.kernel.softmax else float32(0.0))

    def applied(self, pairs: PairEpilogue | None, scores: Sequence[ir.Value]) -> list[ir.Value]:
        """What a function makes of scores."""
        made = list(scores)
        if pairs is not None:
            for half in self.halves:
                for at in range(2 * half, len(made), 4):
                    found, = pairs.apply(8 * half, at // 4, join(made[at:at + 2]))
                    made[at:at + 2] = lanes_of(found)
        return made

    def hidden(self, scores: list[ir.Value], above: bool, below: bool, edge: bool, hide: ir.Value | None = None) -> list[ir.Value]:
        """-inf, or what else is to ``hide``, where a query does not see a key; compared with constants, what is left of this thread's first key."""
        words, order = self.words, self.frame.order
        band, hide = order.band, float32(-inf) if hide is None else hide
        edge = edge and self.frame.order.overhangs
        above, below = above and band.high is not None, below and band.low is not None
        for half in self.halves:
            query, last, least = words.add(self.query, 8 * half), None, None
            if above:
                last = words.sub(words.add(query, band.high), self.key)
            if edge:
                end = words.sub(words.value(self.frame.tiling.keys.size - 1), self.key)
                last = end if last is None else arith.minsi(words.value(last), words.value(end))
            if below:
                least = words.sub(words.add(query, band.low), self.key)
            for at in range(2 * half, len(scores), 4):
                for lane in range(2):
                    column = words.value(2 * at + lane - 4 * half)
                    if last is not None:
                        seen = arith.cmpi(arith.CmpIPredicate.sle, column, words.value(last))
                        scores[at + lane] = arith.select(seen, scores[at + lane], hide)
                    if least is not None:
                        seen = arith.cmpi(arith.CmpIPredicate.sge, column, words.value(least))
                        scores[at + lane] = arith.select(seen, scores[at + lane], hide)
        return scores
