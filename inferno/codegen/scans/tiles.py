"""What scans along memory and across it share: the order of a block's tiles, and how lanes add up what is in front of them."""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.async_copies import await_copies, commit_copies
from inferno.codegen.scans import lane_scans
from inferno.codegen.scans.look_back import LookBack
from inferno.codegen.scans.stages import Stages
from inferno.codegen.scans.values import Values
from inferno.mlir import ir, scf
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.scans.kernel import ScanKernel
from inferno.schedule.scans.scan_schedule import Scans
from inferno.symbolic import Int, is_multiple



@dataclass
class Tiles:
    """Emits a scan's kernel; a subclass says where a tile's items are (``locate``) and how they are scanned."""

    c: ScanKernel
    s: Scans

    @property
    def combiner(self) -> Combiner:
        return self.c.combiner

    @property
    def ragged(self) -> bool:
        """Whether the last tile of a row may be a part of one."""
        return not is_multiple(self.c.length, self.s.tile(self.c))

    def emit(self, ints: Integers, buffers: list[ir.Value], shared: list[ir.Value], dynamic: ir.Value | None, back: LookBack | None) -> None:
        """The whole kernel, at the insertion point."""
        self.ints, self.arrays, self.back = ints, shared, back
        self.values = Values(self.c, ints, buffers, self.s.vector)
        self.thread = ints.thread(self.s.threads)
        tiles = self.s.tiles(self.c)
        self.stages = Stages(self.s, self.s.staged(self.c), self.values, dynamic, self.thread)
        if back is not None:
            chain, tile = back.take(self.thread)
            self.place(chain)
            if self.s.stages:
                self.start(tile, 0)
            self.tile(self.fetch(tile, 0) if self.s.stages else self.load(tile), tile, self.look(chain, tile))
            return
        self.place(ints.block())
        if not self.s.walks(self.c):
            self.tile(self.load(0), 0, None)
            return
        if self.s.stages:
            self.walk(tiles)
            return
        first, carry = self.load(0), self.identities()
        loop = scf.ForOp(ints.value(0), ints.value(tiles), ints.value(1), [*carry, *first])
        with ir.InsertionPoint(loop.body):
            number, carried = loop.induction_variable, list(loop.inner_iter_args)
            following = self.load(ints.min(ints.add(number, 1), tiles - 1))  # under way while this one is scanned
            carry = self.tile(carried[len(carry):], number, carried[:len(carry)])
            scf.yield_([*carry, *following])

    def walk(self, tiles: Int) -> None:
        """All of a block's tiles, of which the next ones wait in shared memory."""
        ints, s = self.ints, self.s
        for stage in range(s.stages):
            self.start(ints.min(stage, tiles - 1), stage)
        loop = scf.ForOp(ints.value(0), ints.value(tiles), ints.value(1), self.identities())
        with ir.InsertionPoint(loop.body):
            number = loop.induction_variable
            stage = ints.rem(number, s.stages)
            loaded = self.fetch(number, stage)
            self.start(ints.min(ints.add(number, s.stages), tiles - 1), stage)
            scf.yield_(self.tile(loaded, number, list(loop.inner_iter_args)))
        await_copies(0)

    def start(self, tile: Integer, stage: Integer) -> None:
        for item in range(self.s.items):
            self.locate(tile, item)
            self.stages.start(stage, item)
        commit_copies()

    def fetch(self, tile: Integer, stage: Integer) -> list[ir.Value]:
        """As ``load``, of a tile that waits or comes."""
        await_copies(self.s.stages - 1)
        for item in range(self.s.items):
            self.fetch_item(tile, stage, item)
        return [self.values.get(at, item) for item in range(self.s.items) for at in self.c.ahead]

    def fetch_item(self, tile: Integer, stage: Integer, item: int) -> None:
        """Know what an item is made of, of a tile that has come."""
        self.locate(tile, item)
        for at in self.stages.staged:
            self.values.know(at, item, self.stages.read(at, stage, item))

    def load(self, tile: Integer) -> list[ir.Value]:
        """What is read of a tile in order to scan it, item by item."""
        for item in range(self.s.items):
            self.locate(tile, item)
        return [self.values.get(at, item) for item in range(self.s.items) for at in self.c.ahead]

    def terms(self, loaded: list[ir.Value], tile: Integer) -> list[list[ir.Value]]:
        """What is scanned: the lanes of each item of the tile that was read."""
        given = iter(loaded)
        for item in range(self.s.items):
            self.locate(tile, item)
            for at in self.c.ahead:
                self.values.know(at, item, next(given))
        return [self.term(item) for item in range(self.s.items)]

    def term(self, item: int) -> list[ir.Value]:
        value = self.values.source(item)
        return [self.combiner.widen(x) for x in lanes_of(as_vector(value, self.s.vector) if self.s.vector > 1 else value)]

    def put(self, values: list[ir.Value], item: int, conditions: list[ir.Value]) -> None:
        """Make and store what follows of an item's running values."""
        rounded = [self.combiner.round(v) for v in values]
        self.values.know(self.c.result, item, rounded[0] if self.s.vector == 1 else join(rounded))
        with only_if(*conditions):
            self.values.write(item)

    def scan_lanes(self, values: list[ir.Value], lane: Integer, lanes: int, step: int = 1) -> list[ir.Value]:
        return lane_scans.scan_lanes(self.ints, self.combiner, values, lane, lanes, step)

    def before(self, values: list[ir.Value], lane: Integer, step: int = 1) -> list[ir.Value]:
        return lane_scans.before(self.ints, self.combiner, values, lane, step)

    def running(self, terms: list[ir.Value]) -> list[ir.Value]:
        return lane_scans.running(self.combiner, terms)
