"""Attention of few queries, whose keys the blocks of a cluster share: what each has of a row, and how one block combines it.

Blocks of a cluster leave their sums in shared memory, where the first one reads them, or each a part of them; clusters in the workspace (``split_keys``).
Of a tile only the rows that are queries are left.  Sums leave registers as the tensor core has them, a row over four threads; they are added up
four neighbours a thread, by all threads, each of which reads all shares at once: what passes is the latency of one read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from inferno.codegen.attention.frame import Frame
from inferno.codegen.attention.softmax import Softmax, fma, maximum
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import CLUSTER, Words, load_shared, loop, operation, pointer_type, shared_pointer, store, widen_pointer
from inferno.mlir import arith, ir, nvvm
from inferno.passes.generics import float32
from inferno.schedule.attention.schedule import GAP
from inferno.symbolic import ceildiv

THREADS = 128  # of a consumer, a warpgroup
_AT_ONCE = 32  # shares that a thread reads at a time, of one place or of several: six registers each


def meet_parts() -> None:
    """A barrier of all threads of a cluster, behind which every block sees what the others wrote to shared memory."""
    nvvm.ClusterArriveOp()
    nvvm.ClusterWaitOp()


@dataclass(frozen=True)
class Sums:
    """Of a row and some shares of the keys: the largest score, the sum of weights, and of neighbouring columns the sums of products."""

    largest: ir.Value
    total: ir.Value
    columns: list[ir.Value]


@dataclass(frozen=True)
class InShared:
    """A share in shared memory at ``base``: its rows with a gap behind each, so that rows are in different banks, and then of each row the
    largest score and the sum of weights.  ``rank``: the block of the cluster whose memory it is, if that may be another one."""

    words: Words
    base: Integer
    rows: int
    width: int
    rank: int | None = None

    def columns(self, row: Integer, column: Integer) -> Callable[[int], ir.Value]:
        """The pointer so many bytes behind an element."""
        words = self.words
        first = words.add(self.base, words.shl(words.add(words.mul(row, self.width + GAP), column), 2))
        return lambda plus: self._pointer(words.add(first, plus))

    def state(self, row: Integer) -> ir.Value:
        return self._pointer(self.words.add(self.words.add(self.base, 4 * self.rows * (self.width + GAP)), self.words.shl(row, 3)))

    def _pointer(self, address: Integer) -> ir.Value:
        own = shared_pointer(self.words, address)
        return own if self.rank is None else nvvm.MapaOp(pointer_type(CLUSTER), own, self.words.value(self.rank)).results[0]


@dataclass(frozen=True)
class InMemory:
    """The ``number``-th share in an array of them."""

    words: Words
    array: ir.Value
    number: Integer
    rows: int
    width: int

    @staticmethod
    def size(rows: int, width: int) -> int:
        """Numbers of one."""
        return ceildiv(rows * (width + 2), 4) * 4

    def columns(self, row: Integer, column: Integer) -> Callable[[int], ir.Value]:
        at = self._at(self.words.add(self.words.mul(row, self.width), column))
        return lambda plus: widen_pointer(self.words, self.array, at, plus, ir.F32Type.get())

    def state(self, row: Integer) -> ir.Value:
        return widen_pointer(self.words, self.array, self._at(self.words.shl(row, 1)), 4 * self.rows * self.width, ir.F32Type.get())

    def _at(self, inside: Integer) -> Integer:
        return self.words.add(self.words.mul(self.number, self.size(self.rows, self.width)), inside)


class Shares:
    """Of the only consumer of a block.  The shares of blocks of a cluster lie where queries, keys and values were, which nobody needs any more."""

    def __init__(self, frame: Frame, softmax: Softmax, member: ir.Value, barrier: Callable[[], None]) -> None:
        self.frame, self.words, self.softmax, self.member, self.barrier = frame, frame.words, softmax, member, barrier
        words = self.words
        self.rows, self.width = frame.rows, frame.tiling.width.size
        lane = words.mask(member, 31)
        self.first = words.add(words.shl(words.shr(member, 5), 4), words.shr(lane, 2))  # of the rows that this thread has in registers
        self.column = words.shl(words.mask(lane, 3), 1)
        self.own = InShared(words, frame.shared, self.rows, self.width)
        self.totals = words.add(frame.shared, 4 * self.rows * (self.width + GAP) + 8 * self.rows)

    def block(self, rank: int) -> InShared:
        return InShared(self.words, self.frame.shared, self.rows, self.width, rank)

    def leave(self, at: InShared | InMemory, sums: Sequence[ir.Value], largest: Sequence[ir.Value], totals: Sequence[ir.Value]) -> None:
        """What this thread has in registers."""
        words = self.words
        for half in self.softmax.halves:
            row = words.add(self.first, 8 * half)
            with only_if(words.less(row, self.rows)):
                columns = at.columns(row, self.column)
                for i in range(2 * half, len(sums), 4):
                    store(join(sums[i:i + 2]), columns(8 * (i - 2 * half)), 8)
                with only_if(words.equal(self.column, 0)):
                    store(join([largest[half], totals[half]]), at.state(row), 8)

    def add_up(self, shares: Sequence[InShared | InMemory], take: Callable[[Integer, Integer, Sums], None]) -> None:
        """``take(row, column, sums)`` for every four neighbours, a place, of all ``shares``; of a part of the rows where all blocks of a cluster do."""
        words, count, adders = self.words, self.rows * self.width // 4, self.frame.adders
        count //= adders
        before = words.mul(self.frame.rank, count) if adders > 1 else 0
        turns = min(max(1, _AT_ONCE // len(shares)), ceildiv(count, THREADS))
        whole = count % (turns * THREADS) == 0

        def several(first: Integer) -> None:
            numbers = [words.add(self.member, words.add(first, turn * THREADS)) for turn in range(turns)]
            places = [self.place(words.add(before, n if whole else words.min(n, count - 1))) for n in numbers]
            found: list[list[Sums]] = [[] for _ in places]
            for begin in range(0, len(shares), _AT_ONCE):
                for sums, place in zip(found, places):
                    sums += [self.read(s, *place) for s in shares[begin:begin + _AT_ONCE]]
                found = [[self.merge(sums)] for sums in found]
            for at, place, (sums,) in zip(numbers, places, found):
                with only_if(None if whole else words.less(at, count)):
                    take(*place, sums)

        if count <= turns * THREADS:
            several(0)
            return

        def step(first: ir.Value) -> list[ir.Value]:
            several(first)
            return []

        loop(words, 0, count, turns * THREADS, [], step)

    def place(self, number: Integer) -> tuple[Integer, Integer]:
        """The row and the first column of some neighbours."""
        words, each = self.words, self.width // 4
        return words.div(number, each), words.shl(words.rem(number, each), 2)

    def read(self, share: InShared | InMemory, row: Integer, column: Integer) -> Sums:
        state = lanes_of(load_floats(share.state(row), 2))
        return Sums(*state, lanes_of(load_floats(share.columns(row, column)(0), 4)))

    def merge(self, shares: Sequence[Sums]) -> Sums:
        largest = reduce(maximum, [s.largest for s in shares])
        base = self.softmax.base(largest)
        weights = [self.softmax.decay(s.largest, base) for s in shares]

        def add(values: Sequence[ir.Value]) -> ir.Value:
            found = arith.mulf(values[0], weights[0])
            for x, w in zip(values[1:], weights[1:]):
                found = fma(x, w, found)
            return found

        return Sums(largest, add([s.total for s in shares]), [add(x) for x in zip(*(s.columns for s in shares))])

    # What was added up, back in the registers of the threads that the rest of the kernel has it in.

    def hand_out(self, row: Integer, column: Integer, sums: Sums) -> None:
        store(join(sums.columns), self.own.columns(row, column)(0), 16)
        with only_if(self.words.equal(column, 0)):
            store(sums.total, shared_pointer(self.words, self.words.add(self.totals, self.words.shl(row, 2))), 4)

    def take_back(self) -> tuple[list[ir.Value], list[ir.Value]]:
        """This thread's sums of products and of weights, when all have been handed out; rows behind the last one have that one's."""
        words = self.words
        self.barrier()
        sums, totals = [float32(0.0)] * (self.width // 2), [float32(1.0)] * 2
        for half in self.softmax.halves:
            row = words.min(words.add(self.first, 8 * half), self.rows - 1)
            columns = self.own.columns(row, self.column)
            for i in range(2 * half, len(sums), 4):
                sums[i:i + 2] = lanes_of(load_floats(columns(8 * (i - 2 * half)), 2))
            totals[half] = load_shared(words, words.add(self.totals, words.shl(row, 2)), ir.F32Type.get(), 1)
        self.barrier()  # results may be staged there
        return sums, totals


def load_floats(pointer: ir.Value, count: int) -> ir.Value:
    """Neighbours, aligned to all of them."""
    return operation("llvm.load", [ir.VectorType.get([count], ir.F32Type.get())], [pointer], alignment=f"{4 * count} : i64")
