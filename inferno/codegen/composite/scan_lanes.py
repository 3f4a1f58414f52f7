"""Scans by neighbouring threads of one block: some have a row, each some neighbours of it.

A thread adds up what it has, learns by shuffles what the threads of its warp before it have, and through shared memory what the warps before have.
"""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.shuffles import from_before
from inferno.codegen.universal.scan import Scan
from inferno.mlir import arith, gpu, ir, memref, scf
from inferno.powers import next_power_of_two

_HELD = 8  # elements that a thread keeps


@dataclass(frozen=True)
class ScanLanes:
    """``lanes`` of ``threads``, powers of two, have a row of an inclusive ``scan`` whose combiner is known."""

    scan: Scan
    threads: int
    lanes: int

    @staticmethod
    def choose(scan: Scan, threads: int) -> "ScanLanes":
        """As many threads a row as there are, and not more than it has places."""
        return ScanLanes(scan, threads, min(next_power_of_two(scan.length), max(1, threads // next_power_of_two(scan.rows))))

    @property
    def share(self) -> int:
        """Neighbours of a thread."""
        return -(-self.scan.length // self.lanes)

    @property
    def across(self) -> int:
        """Rows at once."""
        return self.threads // self.lanes

    @property
    def rounds(self) -> int:
        return -(-self.scan.rows // self.across)

    def shared(self) -> list[tuple[int, ir.Type]]:
        """What each warp has, where a row is several warps'."""
        return [(self.threads // 32, self.scan.combiner.type)] if self.lanes > 32 else []

    def emit(self, ints: Integers, number: Integer, thread: Integer, arrays: list[ir.Value], dead: bool) -> None:
        """The rows of a round; ``dead``: nobody reads what a row comes to."""
        scan, c = self.scan, self.scan.combiner
        source, target, last = scan.operation.operands
        mine = ints.add(ints.mul(number, self.across), ints.div(thread, self.lanes) if self.across > 1 else 0)
        partial = scan.rows % self.across != 0
        row = ints.min(mine, scan.rows - 1) if partial else mine
        lane = ints.rem(thread, self.lanes)
        begin = ints.mul(lane, self.share)
        rest = ints.split(row, [s for d, s in enumerate(scan.shape) if d != scan.dim])

        def at(position: Integer) -> list[ir.Value]:
            return [ints.index(x) for x in [*rest[:scan.dim], position, *rest[scan.dim:]]]

        def read(i: Integer) -> ir.Value:
            """The thread's i-th element; behind the row's end what changes nothing."""
            place = ints.add(begin, i)
            value = c.widen(memref.load(source, at(ints.min(place, scan.length - 1))))
            return arith.select(ints.less(place, scan.length), value, c.identity())

        def write(i: Integer, value: ir.Value) -> None:
            place = ints.add(begin, i)
            inside = ints.less(place, scan.length)
            if partial:
                inside = arith.andi(inside, ints.less(mine, scan.rows))
            with only_if(inside):
                memref.store(c.round(value), target, at(place))
            if not dead:
                with only_if(arith.andi(inside, ints.equal(place, scan.length - 1))):
                    memref.store(c.round(value), last, [ints.index(x) for x in rest])

        held = [read(i) for i in range(self.share)] if self.share <= _HELD else None
        if held is not None:
            total = held[0]
            for value in held[1:]:
                total = c.combine(total, value)
        else:
            total = self._loop(ints, read(0), lambda i, running: c.combine(running, read(i)), 1)
        running = self._before(ints, thread, lane, total, arrays)
        if held is not None:
            for i, value in enumerate(held):
                running = c.combine(running, value)
                write(i, running)
            return

        def again(i: Integer, running: ir.Value) -> ir.Value:
            value = c.combine(running, read(i))
            write(i, value)
            return value

        self._loop(ints, running, again, 0)

    def _loop(self, ints: Integers, start: ir.Value, body, begin: int) -> ir.Value:
        loop = scf.ForOp(ints.value(begin), ints.value(self.share), ints.value(1), [start])
        with ir.InsertionPoint(loop.body):
            scf.YieldOp([body(loop.induction_variable, loop.inner_iter_args[0])])
        return loop.results[0]

    def _before(self, ints: Integers, thread: Integer, lane: Integer, total: ir.Value, arrays: list[ir.Value]) -> ir.Value:
        """What lies in front of a thread's elements."""
        c = self.scan.combiner
        warp = min(32, self.lanes)
        place = ints.rem(thread, warp)
        running, distance = total, 1
        while distance < warp:
            before = c.combine(from_before(running, distance), running)
            running = arith.select(ints.less(place, distance), running, before)
            distance *= 2
        before = c.identity()
        if warp > 1:
            before = arith.select(ints.equal(place, 0), before, from_before(running, 1))
        if self.lanes <= 32:
            return before
        number = ints.div(thread, 32)
        with only_if(ints.equal(place, 31)):
            memref.store(running, arrays[0], [ints.index(number)])
        gpu.barrier()
        warps = self.lanes // 32
        own, first = ints.div(lane, 32), ints.mul(ints.div(thread, self.lanes) if self.across > 1 else 0, warps)
        front = c.identity()
        for i in range(warps - 1):
            value = c.combine(front, memref.load(arrays[0], [ints.index(ints.add(first, i))]))
            front = arith.select(ints.less(i, own), value, front)
        return c.combine(front, before)
