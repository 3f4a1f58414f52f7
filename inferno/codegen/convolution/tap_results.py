"""Combine the sums over taps of threads and blocks, always in the same order, and store the results."""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.inline import epilogue_arguments, inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.convolution.tap_tiles import pieces
from inferno.codegen.matmul.row_epilogue import exchange
from inferno.codegen.nvvm.builder import Words, load_shared, loop, shared_pointer, special_register, store
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, ir, nvvm
from inferno.powers import next_power_of_two
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.convolution.tap_kernel import TapKernel
from inferno.schedule.convolution.tap_sums import TapSums

SUMMING = 256
"""Threads of a block of the second kernel, which adds up what blocks have."""
_DEEPEST, _PARTS = 32, 4  # of these threads of a sum at most, and parts of each, about


@dataclass(frozen=True)
class Results:
    """``total`` is the type as which sums of several threads are added, ``part`` where blocks leave theirs, None for a single one of its channels, which
    begin with ``channel``; ``own`` is the block's number among those."""

    k: TapKernel
    s: TapSums
    words: Words
    shared: Integer
    tensors: dict[int, Elements]
    total: ir.Type
    part: Elements | None
    thread: Integer
    channel: Integer = 0
    own: Integer = 0

    def meet(self, sums: list[ir.Value]) -> None:
        """Add what the block's threads have of each sum, some of these at a time."""
        k, s, words = self.k, self.s, self.words
        each = s.meeting(k)
        for first in range(0, len(sums), each):
            some = sums[first:first + each]
            nvvm.BarrierOp()
            mine = words.add(self.shared, words.mul(self.thread, 4))
            for i, value in enumerate(some):
                store(value, shared_pointer(words, words.add(mine, i * s.threads * 4)), 4)
            nvvm.BarrierOp()
            if s.lanes == 1:
                self.along_warps(first, len(some))
            else:
                self.across(first, len(some))

    def across(self, first: int, count: int) -> None:
        """A thread for each sum of the block's channels."""
        s, words = self.s, self.words
        for number in pieces(words, self.thread, s.threads, count * s.lanes):
            value, lane = words.split(number, [count, s.lanes])
            begin = words.add(self.shared, words.mul(words.add(words.mul(value, s.threads), lane), 4))
            self.leave(words.add(value, first), lane, self.added(begin, s.strips, s.lanes * 4))

    def along_warps(self, first: int, count: int) -> None:
        """A warp for each sum of the block's only channel."""
        s, words, warps = self.s, self.words, self.s.threads // 32
        warp, lane = words.split(self.thread, [warps, 32])
        for i in range(0, count, warps):
            number = words.add(warp, i)
            value = words.min(number, count - 1) if i + warps > count else number
            begin = words.add(self.shared, words.mul(words.add(words.mul(value, s.threads), lane), 4))
            found = self.added(begin, s.threads // 32, 128)
            distance = 16
            while distance:
                found = arith.addf(found, exchange(words, found, distance))
                distance //= 2
            mine = words.equal(lane, 0)
            with only_if(arith.andi(mine, words.less(number, count)) if i + warps > count else mine):
                self.leave(words.add(value, first), 0, found)

    def added(self, begin: Integer, count: int, step: int) -> ir.Value:
        """So many numbers of shared memory, in order."""
        words, f32 = self.words, ir.F32Type.get()

        def one(i: Integer) -> ir.Value:
            return self.as_total(load_shared(words, words.add(begin, words.mul(i, step)), f32, 1))

        if count <= 16:
            found = one(0)
            for i in range(1, count):
                found = arith.addf(found, one(i))
            return found
        return loop(words, 0, count, 1, [arith.constant(self.total, 0.0)], lambda i, sum_: [arith.addf(sum_, one(i))])[0]

    def as_total(self, value: ir.Value) -> ir.Value:
        return arith.extf(self.total, value) if self.total != value.type else value

    def leave(self, value: Integer, lane: Integer, found: ir.Value) -> None:
        """What the block has of a thread's sum ``value`` of the channels of ``lane``: the result, or a part of it."""
        k, s, words = self.k, self.s, self.words
        tap, own = words.split(value, [k.taps, s.vector])
        channel = words.add(self.channel, words.add(words.mul(lane, s.vector), own))
        with only_if(words.less(channel, k.channels) if k.channels % s.channels else None):
            if self.part is None:
                self.finish(channel, tap, found)
            else:
                at = words.add(words.mul(self.own, k.channels * k.taps), words.add(words.mul(channel, k.taps), tap))
                self.part.write(found, at)

    def finish(self, channel: Integer, tap: Integer, found: ir.Value) -> None:
        """The epilogue of a sum, and the stores."""
        k, words, c = self.k, self.words, self.k.contraction
        f32 = ir.F32Type.get()
        value = arith.truncf(f32, found) if found.type != f32 else found
        row, column = words.split(tap, [k.down.taps, k.along.taps])
        at = {d: n for d, n in ((k.channel, channel), (k.down.tap, row), (k.along.tap, column)) if d is not None}

        def offset(access: Access) -> Integer:
            return words.dot(list(at.values()), [access.strides[d] for d in at], access.offset)

        results: list[ir.Value] = []
        if c.epilogue is not None:
            arguments = epilogue_arguments(c.epilogue, value, lambda a: self.tensors[a.argument].read(offset(a)))
            results = inline_body(c.epilogue.block, arguments)
        for d in c.destinations:
            self.tensors[d.access.argument].write(value if d.source is None else results[d.source], offset(d.access))

    def add_parts(self) -> None:
        """The second kernel: what blocks have of each sum, added up by a few threads, and the results."""
        k, s, words = self.k, self.s, self.words
        count, many = k.channels * k.taps, deep(s.parts)
        beside = SUMMING // many
        own, place = words.split(self.thread, [many, beside])
        number = words.add(words.mul(special_register("ctaid.x"), beside), place)
        mine = words.min(number, count - 1) if count % beside else number

        def one(i: Integer, sum_: ir.Value) -> list[ir.Value]:
            return [arith.addf(sum_, self.part.read(words.add(words.mul(i, count), mine)))]

        found = loop(words, own, s.parts, many, [arith.constant(self.total, 0.0)], one)[0]
        width = self.total.width // 8
        store(found, shared_pointer(words, words.add(self.shared, words.mul(self.thread, width))), width)
        nvvm.BarrierOp()
        first = words.less(self.thread, beside)
        with only_if(arith.andi(first, words.less(number, count)) if count % beside else first):
            begin = words.add(self.shared, words.mul(place, width))
            for i in range(1, many):
                found = arith.addf(found, load_shared(words, words.add(begin, i * beside * width), self.total, 1))
            channel, tap = words.split(mine, [k.channels, k.taps])
            self.finish(channel, tap, found)


def deep(parts: int) -> int:
    """Threads that add up the parts of a sum."""
    return min(_DEEPEST, next_power_of_two(-(-parts // _PARTS)))
