"""Decoupled look-back: how a tile of a scan learns the prefix of the tiles in front of it, which other blocks are still computing.

Tiles are dealt out in order by a counter, so that all tiles in front of one have been started, whichever blocks the hardware starts.  A tile leaves
what its own elements come to.  What is in front of it are the tiles of its group, whose parts some lanes read at once and add up in a tree, and all
groups before: the last tile of each leaves their sum for the next.  All of that is added in one order whatever comes first, so results are
the same run after run.

Values are left in flagged words (``flagged_words.py``), which a second kernel clears beforehand.
"""

from collections.abc import Callable
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.flagged_words import FlaggedWords
from inferno.codegen.nvvm.shuffles import exchange
from inferno.errors import CompileError
from inferno.mlir import arith, gpu, ir, llvm, memref
from inferno.schedule.analysis.combiners import Combiner
from inferno.symbolic import Int, ceildiv
from inferno.target import WARP



@dataclass(frozen=True)
class Words:
    """Where they are: the counter; the parts of ``columns`` running values of each of ``tiles`` tiles of each of ``chains``; and the sums in front
    of each group of ``group`` tiles."""

    chains: Int
    tiles: Int
    columns: int
    group: int
    halves: int  # words of a value
    left: int = 0  # values at most, where their number varies

    @property
    def groups(self) -> Int:
        return ceildiv(self.tiles, self.group)

    @property
    def padded(self) -> Int:
        """Tiles of whole groups."""
        return self.groups * self.group

    @property
    def parts(self) -> Int:
        return self.chains * self.padded * self.halves * self.columns

    @property
    def count(self) -> Int:
        return 1 + self.parts + self.chains * self.groups * self.halves * self.columns

    @property
    def most(self) -> int:
        return self.count if isinstance(self.count, int) else 1 + self.left * self.halves


def words_of(chains: Int, tiles: Int, columns: int, group: int, combiner: Combiner, left: int = 0) -> Words:
    """The words that tiles leave for those behind them; a running value of 64 bits has two."""
    return Words(chains, tiles, columns, group, 2 if combiner.total.width == 64 else 1, left)


@dataclass
class LookBack:
    """In the kernel: ``memory`` are the words, ``carries`` a shared array of a running value for each column, ``slot`` one of an i32."""

    words: Words
    combiner: Combiner
    threads: int
    ints: Integers
    memory: ir.Value
    carries: ir.Value
    slot: ir.Value

    def __post_init__(self) -> None:
        w = self.words
        if w.columns > self.threads or w.group & (w.group - 1) or w.most >= 2**31:
            raise CompileError(f"{self.threads} threads cannot look back for {w.columns} columns in groups of {w.group}")
        self._memory = FlaggedWords(self.ints, self.memory)
        segment = min(WARP, w.group)
        while w.columns * segment > self.threads:
            segment //= 2
        self.segment, self.each = segment, w.group // segment

    def take(self, thread: Integer) -> tuple[Integer, Integer]:
        """The number of this block's tile: (chain, place in it)."""
        ints = self.ints
        zero = arith.constant(ir.IndexType.get(), 0)
        i32 = ir.IntegerType.get_signless(32)
        with only_if(ints.equal(thread, 0)):
            ticket = llvm.InlineAsmOp(i32, [self._memory.base], "atom.relaxed.gpu.global.add.u32 $0, [$1], 1;", "=r,l,~{memory}", has_side_effects=True).res
            memref.store(ticket, self.slot, [zero])
        gpu.barrier()
        number = memref.load(self.slot, [zero])
        number = number if ints.width == 32 else arith.extui(ints.type, number)
        return ints.rem(number, self.words.chains), ints.div(number, self.words.chains)

    def find(self, thread: Integer, chain: Integer, tile: Integer, own: Callable[[Integer], ir.Value]) -> None:
        """Fill ``carries``, behind a barrier; ``own`` gives what a tile comes to in a column."""
        needed = self.words.columns * self.segment
        whole = min(self.threads, -(-needed // WARP) * WARP)
        if whole == self.threads:
            self._find(thread, chain, tile, own)
        else:
            with only_if(self.ints.less(thread, whole)):
                self._find(thread, chain, tile, own)
        gpu.barrier()

    def _find(self, thread: Integer, chain: Integer, tile: Integer, own: Callable[[Integer], ir.Value]) -> None:
        ints, w, c = self.ints, self.words, self.combiner
        column, lane = ints.div(thread, self.segment), ints.rem(thread, self.segment)
        writes = ints.equal(lane, 0)
        if w.columns * self.segment % WARP and w.columns * self.segment < self.threads:  # lanes of no column help with the last one
            writes = arith.andi(writes, ints.less(column, w.columns))
            column = ints.min(column, w.columns - 1)
        mine = own(column)
        here = self.part(chain, tile, column)
        self.put(writes, here, mine)
        place, groups = ints.rem(tile, w.group), ints.div(tile, w.group)
        total = None
        if w.group > 1:  # before the groups in front, which come last: the group behind waits for what follows that
            first = ints.mul(lane, self.each)
            some = ints.sub(ints.min(ints.add(first, self.each), place), ints.min(first, place))  # tiles in front that this lane asks for
            parts = self.wait(self.part(chain, ints.add(ints.sub(tile, place), first), column), self.each, some)
            for i, part in enumerate(parts):
                part = arith.select(ints.less(i, some), part, c.identity(c.total))
                total = part if total is None else c.combine(total, part)
            distance = 1
            while distance < self.segment:  # from neighbours on: what the first lane has, which writes, is in the order of the tiles
                total, distance = c.combine(total, exchange(total, distance)), distance * 2
        has = ints.less(0, groups)
        front = self.wait(arith.select(has, ints.value(self.front(chain, groups, column)), ints.value(here)), 1, 1)[0]
        carry = arith.select(has, front, c.identity(c.total))
        carry = carry if total is None else c.combine(carry, total)
        at_end = arith.andi(ints.equal(place, w.group - 1), ints.less(ints.add(groups, 1), w.groups))
        self.put(arith.andi(writes, at_end), self.front(chain, ints.add(groups, 1), column), c.combine(carry, mine))
        with only_if(writes):
            memref.store(carry, self.carries, [ints.index(column)])

    # Words, by the number of a value's first one; the others are ``columns`` behind each other.

    def part(self, chain: Integer, tile: Integer, column: Integer) -> Integer:
        return self._word(self.ints.add(self.ints.mul(chain, self.words.padded), tile), column, 1)

    def front(self, chain: Integer, group: Integer, column: Integer) -> Integer:
        return self._word(self.ints.add(self.ints.mul(chain, self.words.groups), group), column, 1 + self.words.parts)

    def _word(self, number: Integer, column: Integer, base: Int) -> Integer:
        return self.ints.add(self.ints.add(self.ints.mul(number, self.words.halves * self.words.columns), column), base)

    def put(self, condition: ir.Value, at: Integer, value: ir.Value) -> None:
        self._memory.put(condition, at, value, self.words.columns)

    def wait(self, place: Integer, count: int, wanted: Integer) -> list[ir.Value]:
        """The values of ``count`` tiles behind each other, as soon as the first ``wanted`` are there; the others may be anything."""
        halves, columns = self.words.halves, self.words.columns
        found = self._memory.wait(place, [(i * halves + h) * columns for i in range(count) for h in range(halves)], halves, wanted)
        return [self._memory.join(found[i:i + halves], self.combiner.total) for i in range(0, len(found), halves)]
