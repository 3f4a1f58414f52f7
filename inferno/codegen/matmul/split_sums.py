"""Split-K within a cluster: each block sums a part of the terms, and the blocks add up by reading each other's shared memory."""

from collections.abc import Sequence

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import load_remote, load_shared, loop, send, shared_pointer, store
from inferno.mlir import arith, ir
from inferno.symbolic import ceildiv


class SplitSums:
    """What an emitter of ``wgmma`` does with the sums of a tile, of whose terms this block has had its part."""

    def add_up_parts(self, sums: list[list[ir.Value]], grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """As the schedule says."""
        s = self.schedule
        (self.send_shares if s.sends else self.add_up_shares if s.spread else self.add_up)(sums, grid, m0, n0)

    def add_up(self, sums: list[list[ir.Value]], grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """Split sums: all but the cluster's first block leave theirs in the slots, which nobody needs any more; it adds them,
        in order, and goes on.  Of few rows' sums those of warps that have none of the rows stay where they are."""
        words, base, threads = self.words, self.device.shared, 128 * self.readers
        flat = [x for block in sums for x in block]
        member = words.sub(self.thread, 128 * self.helpers)
        places = [words.add(base, words.shl(words.add(member, threads * i), 4)) for i in range(len(flat) // 4)]
        sends = words.less(0, self.rank)
        rows = self.schedule.lhs_rows
        needed = words.less(member, 32 * ceildiv(rows, 16)) if 0 < rows <= 48 else None
        if self.readers > 1:  # the other one may still multiply
            self.meet_consumers()
        with only_if(sends if needed is None else arith.andi(sends, needed)):
            for i, place in enumerate(places):
                store(join(flat[4 * i:4 * i + 4]), shared_pointer(words, place), 16)
        self.meet(aligned=False)

        def total() -> list[ir.Value]:
            found = flat
            for part in range(1, self.schedule.split):
                parts = [load_remote(words, places[0], part, 16 * threads * i) for i in range(len(places))]
                found = [arith.addf(x, y) for x, y in zip(found, [y for p in parts for y in lanes_of(p)])]
            return found

        with only_if(words.equal(self.rank, 0)):
            self.epilogue.begin(grid, m0, n0)
            if needed is None:
                found = total()
            else:
                found = if_else(needed, [x.type for x in flat], total, lambda: flat)
            count = len(sums[0])
            self.epilogue.emit([found[i:i + count] for i in range(0, len(found), count)])

    def send_shares(self, sums: list[list[ir.Value]], grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """``add_up_shares``, but nobody waits until all blocks have their sums: each writes them to the others' shared memory, where results are staged
        later, in the order of the blocks behind it, and waits for what is sent to it."""
        words, threads, share, split = self.words, 128 * self.readers, self.schedule.share, self.schedule.split
        member, width = words.sub(self.thread, 128 * self.helpers), share // 8
        own = words.add(words.add(self.device.shared, self.layout.results), words.shl(member, 4))
        places = [(block, j) for block in range(len(sums)) for j in range(width)]

        def place(distance: Integer, number: int) -> Integer:
            return words.add(own, words.mul(words.add(words.mul(words.sub(distance, 1), len(places)), number), 16 * threads))

        kept: list[ir.Value] = []
        for part in range(split):
            mine = [sums[block][4 * (part * width + j) + i] for block, j in places for i in range(4)]
            kept = [arith.select(words.equal(self.rank, part), x, y) for x, y in zip(mine, kept)] if kept else mine
            with only_if(arith.cmpi(arith.CmpIPredicate.ne, words.value(self.rank), words.value(part))):
                distance = words.rem(words.add(self.rank, split - part), split)  # of this block behind the one that gets them
                for number in range(len(places)):
                    send(words, mine[4 * number:4 * number + 4], place(distance, number), self.arrived.base, part)
        first = words.add(n0, words.mul(self.rank, share))
        with only_if(words.less(first, self.tiling.n.size)):  # else the share lies behind the last column
            self.epilogue.begin(grid, m0, first)
            self.arrived.wait(0, 0)
            totals = kept
            for distance in range(1, split):
                parts = [x for n in range(len(places)) for x in lanes_of(load_shared(words, place(distance, n), ir.F32Type.get(), 4))]
                totals = [arith.addf(x, y) for x, y in zip(totals, parts)]
            self.meet_consumers()
            self.epilogue.emit([totals[i:i + 4 * width] for i in range(0, len(totals), 4 * width)])
        self.arrived.wait(0, 0)  # what is sent needs this block's shared memory, whether it is read or not

    def add_up_shares(self, sums: list[list[ir.Value]], grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """The same, but every block adds up and finishes shares of the columns: its own sums and the others', which these leave, in the order of
        the blocks behind it.  Where each has one share, of that nothing is left: it stays in registers."""
        words, threads, share = self.words, 128 * self.readers, self.schedule.share
        member, all_, width = words.sub(self.thread, 128 * self.helpers), len(sums[0]) // 4, share // 8
        own = words.add(self.device.shared, words.shl(member, 4))

        def place(base: Integer, block: int, j: int) -> Integer:
            return words.add(base, 16 * threads * (all_ * block + j))

        shares, split = self.schedule.tile_n // share, self.schedule.split
        places = [(block, j) for block in range(len(sums)) for j in range(width)]
        if self.readers > 1:  # the other one may still multiply
            self.meet_consumers()
        kept: list[ir.Value] = []
        for number in range(shares):
            with only_if(None if shares != split else arith.cmpi(arith.CmpIPredicate.ne, words.value(self.rank), words.value(number))):
                for block, j in places:
                    at = number * width + j
                    store(join(sums[block][4 * at:4 * at + 4]), shared_pointer(words, place(own, block, at)), 16)
            if shares != split:
                continue
            mine = [sums[block][4 * (number * width + j) + i] for block, j in places for i in range(4)]
            kept = [arith.select(words.equal(self.rank, number), x, y) for x, y in zip(mine, kept)] if kept else mine
        self.meet(aligned=False)

        def finish(number: Integer) -> Sequence[ir.Value]:
            base, first = words.add(own, words.mul(number, 16 * threads * width)), words.add(n0, words.mul(number, share))
            with only_if(words.less(first, self.tiling.n.size)):  # else the share lies behind the last column
                self.epilogue.begin(grid, m0, first)
                totals = kept if shares == split else []
                for distance in range(len(totals) > 0, split):
                    rank = words.rem(words.add(self.rank, distance), split)
                    parts = [x for at in places for x in lanes_of(load_remote(words, place(base, *at), rank))]
                    totals = [arith.addf(x, y) for x, y in zip(totals, parts)] if totals else parts
                self.epilogue.emit([totals[i:i + 4 * width] for i in range(0, len(totals), 4 * width)])
            return []

        if shares == split:
            finish(self.rank)
        else:
            loop(words, self.rank, shares, split, [], finish)
