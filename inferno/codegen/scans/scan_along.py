"""Scans along memory: a warp has neighbouring vectors of a row at once, several times one behind the other; the warps of a row lie next to each other."""

from collections.abc import Callable

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import opaque_vector
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.shuffles import from_lane
from inferno.codegen.scans.lane_scans import last_lane
from inferno.codegen.scans.tiles import Tiles
from inferno.mlir import arith, gpu, ir, memref
from inferno.symbolic import floordiv, is_multiple
from inferno.target import WARP



class Along(Tiles):
    @property
    def lanes(self) -> int:
        """Threads of a warp that have one row."""
        return min(WARP, self.s.lanes)

    @property
    def warps(self) -> int:
        """Of a row."""
        return self.s.lanes // self.lanes

    @property
    def rows(self) -> int:
        """Of a block."""
        return self.s.threads // self.s.lanes

    def place(self, block: Integer) -> None:
        ints, s = self.ints, self.s
        self.lane, self.warp = ints.rem(self.thread, self.lanes), ints.div(ints.rem(self.thread, s.lanes), self.lanes)
        self.group = ints.div(self.thread, s.lanes) if self.rows > 1 else 0
        row, self.mine = ints.add(ints.mul(block, self.rows), self.group), None
        if not is_multiple(self.c.outer, self.rows):  # threads of no row help with the last one, for all must reach the barriers, and write nothing
            self.mine = ints.less(row, self.c.outer)
            row = ints.min(row, self.c.outer - 1)
        self.row = row

    def vector(self, tile: Integer, item: int) -> Integer:
        """The number of one of a thread's vectors in its row."""
        ints, s = self.ints, self.s
        first = ints.add(ints.mul(tile, s.lanes * s.items), ints.mul(self.warp, self.lanes * s.items))
        return ints.add(ints.add(first, item * self.lanes), self.lane)

    def locate(self, tile: Integer, item: int) -> None:
        number = self.vector(tile, item)
        if self.ragged:  # what is behind a row's end is in front of nothing
            number = self.ints.min(number, floordiv(self.c.length, self.s.vector) - 1)
        self.values.place(item, self.row, self.ints.mul(number, self.s.vector), 0)

    def identities(self) -> list[ir.Value]:
        return [self.combiner.identity(self.combiner.total)]

    def look(self, chain: Integer, tile: Integer) -> Callable[[ir.Value], ir.Value]:
        """What is in front of the tile, given what it comes to."""
        def find(total: ir.Value) -> ir.Value:
            self.back.find(self.thread, chain, tile, lambda column: total)
            return memref.load(self.back.carries, [self.ints.index(0)])

        return find

    def tile(self, loaded: list[ir.Value], number: Integer, carry: list[ir.Value] | Callable | None) -> list[ir.Value]:
        """Scan and store a tile; the running value behind it if ``carry`` is the one in front of it."""
        c, s = self.combiner, self.s
        inner = [self.running(terms) for terms in self.terms(loaded, number)]
        behind = [self.scan_lanes([c.to_total(found[-1])], self.lane, self.lanes)[0] for found in inner]
        starts, front = [], None  # in front of each item, of those of this warp
        for item, value in enumerate(behind):
            starts.append(front)
            if item + 1 < s.items or self.warps > 1 or carry is not None:
                of_item = from_lane(value, last_lane(self.ints, self.thread, self.lane, self.lanes))
                front = of_item if front is None else c.combine(front, of_item)
        base, total = self.of_warps(front, number) if self.warps > 1 else (None, front)
        if carry is not None:
            known = carry(total) if callable(carry) else carry[0]
            base = known if base is None else c.combine(known, base)
            total = total if callable(carry) else c.combine(known, total)
        if s.packed:  # until here only what was read takes registers, as it was read
            inner = [self.running(terms) for terms in self.terms([opaque_vector(v) for v in loaded], number)]
        for item, (found, value) in enumerate(zip(inner, behind)):
            (start,) = self.before([value], self.lane)
            front = base if starts[item] is None else starts[item] if base is None else c.combine(base, starts[item])
            start = c.from_total(start if front is None else c.combine(front, start))
            self.put([c.combine(start, x) for x in found], item, self.conditions(number, item))
        return [total]

    def of_warps(self, value: ir.Value, tile: Integer) -> tuple[ir.Value, ir.Value]:
        """What is in front of this warp in the tile, and what the tile comes to."""
        ints, c, array = self.ints, self.combiner, self.arrays[0]
        begin = ints.add(ints.mul(ints.rem(tile, 2), self.warps * self.rows), ints.mul(self.group, self.warps))
        with only_if(ints.equal(self.lane, 0)):
            memref.store(value, array, [ints.index(ints.add(begin, self.warp))])
        gpu.barrier()
        place = ints.rem(self.lane, self.warps)
        (found,) = self.scan_lanes([memref.load(array, [ints.index(ints.add(begin, place))])], place, self.warps)
        total = from_lane(found, self.warps - 1)
        has = ints.less(0, self.warp)
        front = from_lane(found, ints.word(arith.select(has, ints.sub(self.warp, 1), ints.value(0))))
        return arith.select(has, front, c.identity(c.total)), total

    def conditions(self, tile: Integer, item: int) -> list[ir.Value]:
        """Under which an item is one of the row's."""
        found = [self.ints.less(self.vector(tile, item), floordiv(self.c.length, self.s.vector))] if self.ragged else []
        return found + ([self.mine] if self.mine is not None else [])
