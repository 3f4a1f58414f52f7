"""Scans across memory: a thread walks several places of neighbouring rows, the threads of a block lie next to and behind each other."""

from collections.abc import Callable
from functools import reduce

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.scans.tiles import Tiles
from inferno.mlir import arith, gpu, ir, memref
from inferno.symbolic import ceildiv, is_multiple
from inferno.target import WARP



class Across(Tiles):
    """``parts`` pieces of a tile lie behind each other, each of ``within`` threads of a warp behind each other."""

    @property
    def columns(self) -> int:
        return self.s.columns(self.c)

    @property
    def within(self) -> int:
        return max(1, WARP // self.s.lanes)

    @property
    def parts(self) -> int:
        return self.s.threads // (self.s.lanes * self.within)

    def place(self, block: Integer) -> None:
        ints, s, c = self.ints, self.s, self.c
        self.lane, self.depth = ints.rem(self.thread, s.lanes), ints.div(self.thread, s.lanes)
        self.inside, self.part = ints.rem(self.depth, self.within), ints.div(self.depth, self.within)
        blocks = ceildiv(c.inner, self.columns)
        column = ints.add(ints.mul(ints.rem(block, blocks), self.columns), ints.mul(self.lane, s.vector))
        self.mine = None
        if not is_multiple(c.inner, self.columns):  # threads of no column help with the last one, for all must reach the barriers, and write nothing
            self.mine = ints.less(column, c.inner)
            column = ints.min(column, c.inner - s.vector)
        self.outer, self.column = ints.div(block, blocks), column

    def row(self, tile: Integer, item: int) -> Integer:
        first = self.ints.add(self.ints.mul(tile, self.s.tile(self.c)), self.ints.mul(self.depth, self.s.items))
        return self.ints.add(first, item)

    def locate(self, tile: Integer, item: int) -> None:
        row = self.row(tile, item)
        if self.ragged:  # what is behind a row's end is in front of nothing
            row = self.ints.min(row, self.c.length - 1)
        self.values.place(item, self.outer, row, self.column)

    def identities(self) -> list[ir.Value]:
        return [self.combiner.identity(self.combiner.total)] * self.s.vector

    def look(self, chain: Integer, tile: Integer) -> Callable[[], list[ir.Value]]:
        """What is in front of the tile, behind the barrier after which the tile's sums are in shared memory."""
        def find() -> list[ir.Value]:
            self.back.find(self.thread, chain, tile, lambda column: memref.load(self.arrays[2], [self.ints.index(column)]))
            return self.own(self.back.carries)

        return find

    def own(self, array: ir.Value, part: Integer = 0) -> list[ir.Value]:
        """The values of this thread's columns."""
        first = self.ints.add(self.ints.mul(part, self.columns + 1), self.ints.mul(self.lane, self.s.vector))
        return [memref.load(array, [self.ints.index(self.ints.add(first, i))]) for i in range(self.s.vector)]

    def tile(self, loaded: list[ir.Value], number: Integer, carry: list[ir.Value] | Callable | None) -> list[ir.Value]:
        """Scan and store a tile; the running values behind it if ``carry`` are those in front of it."""
        c = self.combiner
        columns = [self.running(list(each)) for each in zip(*self.terms(loaded, number))]
        behind = self.scan_lanes([c.to_total(found[-1]) for found in columns], self.inside, self.within, self.s.lanes)
        front = self.before(behind, self.inside, self.s.lanes) if self.within > 1 else None
        known = []
        if self.parts > 1 or carry is not None:
            self.of_parts(behind)
            known.append(self.own(self.arrays[1], self.part))
        if carry is not None:
            before = carry() if callable(carry) else carry
            known.append(before)
            if not callable(carry):
                carry = [c.combine(a, b) for a, b in zip(before, self.own(self.arrays[2]))]
        if front is not None:
            known.insert(0, front)
        starts = [c.from_total(reduce(c.combine, each)) for each in zip(*reversed(known))]
        if self.s.group and self.s.stages:
            self.put_again(number, starts)
            return carry
        if starts:
            columns = [[c.combine(start, x) for x in found] for start, found in zip(starts, columns)]
        for item, values in enumerate(zip(*columns)):
            self.put(list(values), item, self.conditions(number, item))
        return carry

    def put_again(self, number: Integer, starts: list[ir.Value]) -> None:
        """Read a tile that waits in shared memory again, and store it item by item: registers hold nothing of it while what is in front is found."""
        c, found = self.combiner, None
        apart = c.sums and c.narrow.width > 16  # one rounding to what is in front, and not one for each place
        for item in range(self.s.items):
            self.fetch_item(number, 0, item)
            terms, before = self.term(item), found if apart else found or starts
            found = list(map(c.combine, before, terms)) if before else terms
            self.put(list(map(c.combine, starts, found)) if apart else found, item, self.conditions(number, item))

    def of_parts(self, behind: list[ir.Value]) -> None:
        """Fill the shared arrays: threads scan the parts of a column, one each."""
        ints, s = self.ints, self.s
        with only_if(ints.equal(self.inside, self.within - 1)):
            first = ints.add(ints.mul(self.part, self.columns + 1), ints.mul(self.lane, s.vector))
            for i, value in enumerate(behind):
                memref.store(value, self.arrays[0], [ints.index(ints.add(first, i))])
        gpu.barrier()
        count = self.columns * self.parts
        for begin in range(0, count, s.threads):
            self.of_part(ints.add(self.thread, begin), begin + s.threads > count)
        gpu.barrier()

    def of_part(self, number: Integer, more: bool) -> None:
        """A thread's part of a column; with ``more`` some have none."""
        ints, (sums, fronts, totals) = self.ints, self.arrays[:3]
        column, part = ints.div(number, self.parts), ints.rem(number, self.parts)
        at = ints.add(ints.mul(part, self.columns + 1), ints.min(column, self.columns - 1) if more else column)
        (value,) = self.scan_lanes([memref.load(sums, [ints.index(at)])], part, self.parts)
        (front,) = self.before([value], part) if self.parts > 1 else [self.combiner.identity(value.type)]
        last = ints.equal(part, self.parts - 1)
        if more:
            inside = ints.less(column, self.columns)
            last = arith.andi(last, inside)
            with only_if(inside):
                memref.store(front, fronts, [ints.index(at)])
        else:
            memref.store(front, fronts, [ints.index(at)])
        with only_if(last):
            memref.store(value, totals, [ints.index(column)])

    def conditions(self, tile: Integer, item: int) -> list[ir.Value]:
        """Under which an item is one of the rows'."""
        found = [self.ints.less(self.row(tile, item), self.c.length)] if self.ragged else []
        return found + ([self.mine] if self.mine is not None else [])
