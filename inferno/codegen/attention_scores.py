"""What happens to scores between their product and softmax: scaling, elementwise operations, and the keys that a query does not see."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import e, inf, log2

from inferno.codegen.attention_frame import Frame
from inferno.codegen.attention_softmax import HALVES, number
from inferno.codegen.elements import join, lanes_of
from inferno.codegen.integers import Integer
from inferno.codegen.pair_epilogue import PairEpilogue
from inferno.mlir import arith, ir
from inferno.schedule.accesses import Access
from inferno.schedule.contraction import Destination, Map
from inferno.schedule.tiling import Axes
from inferno.schedule.wgmma import Wgmma
from inferno.symbolic import Int


@dataclass(frozen=True)
class _Points:
    """Scores as results of a contraction of queries and keys."""

    sizes: tuple[Int, ...]
    epilogue: Map
    extras: tuple[Access, ...]
    destinations: tuple[Destination, ...]


class Scores:
    """Of one consumer, whose first row in a tile is ``row``."""

    def __init__(self, frame: Frame, row: Integer, warp: Integer, lane: Integer) -> None:
        a, t, s, words = frame.kernel, frame.tiling, frame.schedule, frame.words
        self.frame, self.words = frame, words
        self.row = words.add(row, words.add(words.shl(warp, 4), words.shr(lane, 2)))
        self.column = words.shl(words.mask(lane, 3), 1)
        self.pairs = None
        if a.score is not None:
            points = _Points(a.sizes, a.score, a.score_extras, (Destination(0, a.destinations[0].access),))
            tile = Wgmma(s.queries, s.keys)
            self.pairs = PairEpilogue(words, points, Axes(t.grid, t.queries, t.keys, t.depth, ()), tile, frame.tensors)

    @property
    def folded(self) -> bool:
        """Whether the scale is left to softmax, which multiplies in any case."""
        return self.pairs is None and self.frame.kernel.scale > 0

    @property
    def factor(self) -> float:
        return log2(e) * (self.frame.kernel.scale if self.folded else 1.0)

    def begin(self, grid: Sequence[Integer], first: Integer, block: Integer, whole: bool = False) -> None:
        """Of the tile that begins at query ``first`` and of a block of keys, of which none is behind the tensor's last one if it is ``whole``: what is read
        for them.  Its latency passes under the product."""
        words, s = self.words, self.frame.schedule
        self.query = words.add(first, self.row)
        self.key = words.add(words.mul(block, s.keys), self.column)
        if self.pairs is not None:
            self.pairs.place_thread(grid, self.query, self.key, whole)
            self.pairs.load([8 * half for half in HALVES], range(s.keys // 8))

    def finish(self, products: Sequence[ir.Value], above: bool, below: bool, edge: bool) -> list[ir.Value]:
        """The scores there, which the band may cut ``above`` or ``below``, or the ``edge`` of the tensor."""
        scores, scale = list(products), self.frame.kernel.scale
        if not self.folded and scale != 1:
            scores = [arith.mulf(x, number(scale)) for x in scores]
        if self.pairs is not None:
            for half in HALVES:
                for at in range(2 * half, len(scores), 4):
                    found, = self.pairs.apply(8 * half, at // 4, join(scores[at:at + 2]))
                    scores[at:at + 2] = lanes_of(found)
        return self.hidden(scores, above, below, edge)

    def hidden(self, scores: list[ir.Value], above: bool, below: bool, edge: bool) -> list[ir.Value]:
        """-inf where a query does not see a key; compared with constants, what is left of this thread's first key."""
        words, order = self.words, self.frame.order
        band, hide = order.band, number(-inf)
        edge = edge and self.frame.order.overhangs
        above, below = above and band.high is not None, below and band.low is not None
        for half in HALVES:
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
