"""Attention of few queries whose keys more blocks share than a cluster has (split-KV): the clusters store their sums to the workspace, and the last one to
arrive adds up what all have stored, in the order of their numbers: the same bits whichever is last.

Arrivals are counted in the workspace too, which holds anything when the kernel begins.  A counter has a mark, 56 bits, beside its 8 bits of
arrivals.  Every cluster looks at it before its work, and where it finds no mark puts one there, with no arrivals, unless another one has just done
so; the last one to arrive takes it away, so that the next launch finds none.  So no launch in front has to set counters to 0.
"""

from collections.abc import Callable

from inferno.codegen.attention.cluster_shares import InMemory, Shares, Sums
from inferno.codegen.attention.frame import Frame
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import assembly, Words, integer_type, load_shared, shared_pointer, store, widen_pointer
from inferno.mlir import arith, ir, llvm

MARK = 0xB7A3D95C61E84F  # of no meaning
_BEGIN = (
    "{ .reg .pred p; .reg .b64 seen, mark; ld.relaxed.gpu.global.b64 seen, [$0]; shr.b64 mark, seen, 8; setp.ne.b64 p, mark, $1; "
    "@p atom.relaxed.gpu.global.cas.b64 seen, [$0], seen, $2; }"
)
_COUNT = "fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u64 $0, [$1], 1; fence.acq_rel.gpu;"


def begin_count(counter: ir.Value) -> None:
    """By one thread: see that a counter has the mark."""
    i64 = integer_type(64)
    constants = [arith.constant(i64, MARK), arith.constant(i64, (MARK << 8) - (1 << 64))]
    assembly(_BEGIN, [counter, *constants])


def arrives_last(words: Words, counter: ir.Value, others: int, member: Integer, flag: Integer, barrier: Callable[[], None]) -> ir.Value:
    """Whether so many others had arrived before these threads, which share a ``barrier``, of which the first ``member`` counts them all; then no mark is left.
    An arrival comes after what was stored in front, and before what is read behind.  ``flag``: a word of shared memory."""
    i64 = integer_type(64)
    barrier()
    with only_if(words.equal(member, 0)):
        before = llvm.InlineAsmOp(i64, [counter], _COUNT, "=l,l,~{memory}", has_side_effects=True).results[0]
        last = words.equal(words.mask(arith.trunci(words.type, before), 255), others)
        with only_if(last):
            store(arith.constant(i64, 0), counter, 8)
        store(arith.extui(words.type, last), shared_pointer(words, flag), 4)
    barrier()
    return words.equal(load_shared(words, flag, words.type, 1), 1)


class Splits:
    """Of the first block of a cluster, or of each one, which has a counter and a part of the rows of its own."""

    def __init__(self, frame: Frame, shares: Shares) -> None:
        self.frame, self.words, self.shares = frame, frame.words, shares
        self.sums, self.counters = frame.scratch

    def share(self, tile: Integer, split: Integer) -> InMemory:
        words, s = self.words, self.shares
        return InMemory(words, self.sums, words.add(words.mul(tile, self.frame.schedule.splits), split), s.rows, s.width)

    def own(self, tile: Integer) -> InMemory:
        return self.share(tile, self.frame.split)

    def leave_at(self, tile: Integer) -> Callable[[Integer, Integer, Sums], None]:
        """What leaves four neighbours of a row."""
        own = self.own(tile)

        def leave(row: Integer, column: Integer, sums: Sums) -> None:
            store(join(sums.columns), own.columns(row, column)(0), 16)
            with only_if(self.words.equal(column, 0)):
                store(join([sums.largest, sums.total]), own.state(row), 8)

        return leave

    def begin(self, tile: Integer) -> None:
        """By one thread, the one that counts: see that the tile's counter has the mark."""
        begin_count(self.counter(tile))

    def counter(self, tile: Integer) -> ir.Value:
        f, words = self.frame, self.words
        number = words.add(words.mul(tile, f.adders), f.rank) if f.adders > 1 else tile
        return widen_pointer(words, self.counters, number, 0, integer_type(64))

    def all_arrived(self, tile: Integer) -> ir.Value:
        """Whether all others have left theirs, when this one has."""
        f, s = self.frame, self.shares
        return arrives_last(self.words, self.counter(tile), f.schedule.splits - 1, s.member, f.numbers.at(0), s.barrier)

    def add_up(self, tile: Integer, take: Callable) -> None:
        self.shares.add_up([self.share(tile, split) for split in range(self.frame.schedule.splits)], take)
