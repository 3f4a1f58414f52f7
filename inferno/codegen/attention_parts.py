"""Attention of few queries, whose keys several blocks of a cluster share: the first one adds up what the others have."""

from collections.abc import Callable, Sequence

from inferno.codegen.attention_frame import Frame
from inferno.codegen.attention_softmax import HALVES, Softmax, fma, maximum, scale_rows
from inferno.codegen.elements import join, lanes_of
from inferno.codegen.nvvm_builder import Words, load_remote, loop, opaque, shared_pointer, store
from inferno.mlir import arith, ir, nvvm, scf
from inferno.symbolic import ceildiv

THREADS = 128


def meet_parts() -> None:
    """A barrier of all threads of a cluster, behind which every block sees what the others wrote to shared memory."""
    nvvm.ClusterArriveOp()
    nvvm.ClusterWaitOp()


class Parts:
    """Of the only consumer of a block, each of whose threads leaves its numbers 16 bytes at a time, side by side with the others'.

    They lie where queries, keys and values were, which nobody needs any more.
    """

    def __init__(self, frame: Frame, softmax: Softmax, member: ir.Value, barrier: Callable[[], None]) -> None:
        self.frame, self.words, self.softmax, self.barrier = frame, frame.words, softmax, barrier
        self.member, self.place = member, self.words.add(frame.shared, self.words.shl(member, 4))

    def leave(self, numbers: Sequence[ir.Value]) -> None:
        """Leave a multiple of four numbers a thread, and see the others'."""
        words = self.words
        self.barrier()  # another warp may still multiply
        for i in range(0, len(numbers), 4):
            store(join(numbers[i:i + 4]), shared_pointer(words, words.add(self.place, 4 * THREADS * i)), 16)
        meet_parts()

    def add_up(
        self, sums: Sequence[ir.Value], largest: Sequence[ir.Value], totals: Sequence[ir.Value],
    ) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
        """The first block's numbers with the others': sums of products and of weights, and the largest scores.  Warps that have none of a few rows
        leave theirs."""
        rows, own = self.frame.tiling.queries.size, [*sums, *totals, *largest]
        if rows > 48:
            return self.added(sums, largest, totals)
        needed = scf.IfOp(self.words.less(self.member, 32 * ceildiv(rows, 16)), [x.type for x in own], has_else=True)
        with ir.InsertionPoint(needed.then_block):
            added = self.added(sums, largest, totals)
            scf.yield_([x for each in added for x in each])
        with ir.InsertionPoint(needed.else_block):
            scf.yield_(own)
        found = list(needed.results)
        return found[:len(sums)], found[len(sums):-2], found[-2:]

    def added(
        self, sums: Sequence[ir.Value], largest: Sequence[ir.Value], totals: Sequence[ir.Value],
    ) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
        return add_shares(self.words, self.softmax, self.read, 1, self.frame.schedule.parts, sums, largest, totals)

    def read(self, rank: ir.Value, first: int) -> ir.Value:
        return load_remote(self.words, self.place, rank, 4, 4 * THREADS * first)


def add_shares(
    words: Words, softmax: Softmax, read: Callable[[ir.Value, int], ir.Value], begin: int, end: int,
    sums: Sequence[ir.Value], largest: Sequence[ir.Value], totals: Sequence[ir.Value],
) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
    """Sums and totals with those of shares ``begin`` to ``end`` of the keys, and the largest scores of all.  ``read(share, i)`` gives four numbers of
    a share from the i-th: its sums, both rows' largest scores and totals."""
    count = len(sums)
    shares = opaque(words, end)  # a loop of one turn would be none, and need registers for what is read at once

    def larger(share: ir.Value, *most: ir.Value) -> list[ir.Value]:
        return [maximum(x, y) for x, y in zip(most, lanes_of(read(share, count)))]

    def add(share: ir.Value, *numbers: ir.Value) -> list[ir.Value]:
        state, found = lanes_of(read(share, count)), list(numbers)
        excess = [softmax.weight(state[h], softmax.base(most[h])) for h in HALVES]
        for i in range(0, count, 4):
            part = lanes_of(read(share, i))
            found[i:i + 4] = [fma(x, excess[j >> 1], y) for j, (x, y) in enumerate(zip(part, found[i:i + 4]))]
        found[count:] = [fma(state[2 + h], excess[h], found[count + h]) for h in HALVES]
        return found

    most = loop(words, begin, shares, 1, list(largest), larger)
    excess = [softmax.weight(largest[h], softmax.base(most[h])) for h in HALVES]
    own = [*scale_rows(sums, excess), *(arith.mulf(x, y) for x, y in zip(totals, excess))]
    found = loop(words, begin, shares, 1, own, add)
    return found[:count], found[count:], most
