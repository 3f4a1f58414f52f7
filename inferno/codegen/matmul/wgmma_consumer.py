"""The consumers of a kernel of ``wgmma``: warpgroups that multiply what comes to the ring's slots, and then apply the epilogue to their sums."""

from collections.abc import Sequence

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.wgmma_epilogue import Epilogue, Warpgroup
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import loop, opaque
from inferno.codegen.nvvm.mbarriers import Position
from inferno.codegen.nvvm.tensor_core import Multiplier, matrix_address
from inferno.mlir import ir


class Consumer:
    """What an emitter of ``wgmma`` does in a warpgroup that multiplies."""

    def consume(self) -> None:
        s, words, layout = self.schedule, self.words, self.layout
        self.begin_consumer()
        self.multiplier = Multiplier(words, self.kind, self.lhs, self.rhs)
        own = 0 if s.pingpong else words.mul(self.number, s.rows)
        # In MN-major order a panel of 64 rows is as large as 64 rows of 128 bytes, so both orders begin at the same place.
        self.lhs_base = matrix_address(words, words.add(words.add(self.device.shared, layout.lhs), words.mul(own, self.lhs.row)))
        self.rhs_base = matrix_address(words, words.add(self.device.shared, layout.rhs))
        if s.kept:
            self.kept.wait(0, 0)
        start = self.ring.start()
        if s.pingpong:
            second = words.equal(self.number, 1)
            skipped = self.ring.skip(start, self.steps)
            carried = [
                words.select(second, skipped.slot, start.slot), words.select(second, skipped.parity, start.parity),
                words.select(second, 0, 1),
            ]
            self.each_tile(*self.tiles_of(self.number), carried, self.take_turn)
        else:
            self.each_tile(*self.tiles_of(self.number), start.values, lambda n, *at: self.compute(n, Position(*at)).values)
        self.end_consumer()

    def begin_consumer(self) -> None:
        """Which consumer this is, and its epilogue."""
        s, words = self.schedule, self.words
        self.number = words.sub(self.warpgroup, self.helpers)
        self.member = words.mask(self.thread, 127)
        staging = words.add(words.add(self.device.shared, self.layout.results), words.mul(self.number, s.staging))
        group = Warpgroup(self.number, self.member, words.mask(self.warp, 3), words.mask(self.thread, 31), staging)
        maps = {i: m for i, m in zip(self.stores, self.maps[len(self.factors):])}
        self.epilogue = self.epilogue_type(words, self.contraction, self.tiling, self.finished, self.tensors, group, maps)
        if self.epilogue_type.emit is Epilogue.emit:
            self.epilogue.lines = self.lines
            self.epilogue.quads = s.by_threads
        if self.brought:
            self.epilogue.brought = self.brought_parts(group)

    def end_consumer(self) -> None:
        if self.stores or self.schedule.line:
            with only_if(self.words.equal(self.member, 0)):
                tma.await_stores(0, read=True)  # a block's shared memory goes when it ends

    def take_turn(self, number: ir.Value, slot: ir.Value, parity: ir.Value, turn: ir.Value) -> list[ir.Value]:
        """Ping-pong: multiply when the other consumer has started its epilogue, and pass over its slots."""
        self.turns.wait(self.number, turn)
        at = self.ring.skip(self.compute(number, Position(slot, parity)), self.steps)
        return [*at.values, self.words.xor(turn, 1)]

    def compute(self, number: ir.Value, at: Position) -> Position:
        """One tile, from the first slot at ``at``; returns where the next one begins."""
        s, words, ring, multiplier = self.schedule, self.words, self.ring, self.multiplier
        grid, m0, n0 = self.tile(number)
        m0 = m0 if s.pingpong else words.add(m0, words.mul(self.number, s.rows))
        if self.brought:
            self.epilogue.brought.begin(self.tile_of_consumer(number))
        if s.line:
            turn = words.rem(self.tile_of_consumer(number), s.buffers)
            self.epilogue.piece = words.add(self.epilogue.group.staging, words.mul(turn, s.staging // s.buffers))
        self.epilogue.begin_early(grid, m0, n0, self.registers[1] - self.rhs.rows * s.rows // 128)
        ring.await_full(at)
        sums = self.multiply(at.slot, multiplier.start(s.rows // 64), 0, first=True)
        previous, at = at.slot, ring.next(at)

        def step(number: ir.Value, slot: ir.Value, parity: ir.Value, previous: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            here = Position(slot, parity)
            ring.await_full(here)
            sums = self.multiply(slot, sums, number, first=False)
            multiplier.await_groups(1)
            ring.release(previous, self.member)
            return [*ring.next(here).values, slot, *sums]

        if self.steps != 1:
            slot, parity, previous, *sums = loop(words, words.add(self.first, 1), self.end, 1, [*at.values, previous, *sums], step)
            at = Position(slot, parity)
        if s.pingpong:
            with only_if(words.equal(self.member, 0)):
                self.turns.arrive(words.sub(1, self.number))
        if s.split > 1:
            self.add_up_parts(multiplier.finish(sums), grid, m0, n0)
            return at
        self.complete(sums, previous, grid, m0, n0)
        return at

    def complete(self, sums: list[ir.Value], previous: ir.Value, grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """The end of a tile, whose last slot is ``previous``."""
        self.epilogue.begin(grid, m0, n0)
        values = self.multiplier.finish(sums)
        self.ring.release(previous, self.member)
        self.epilogue.emit(values)

    def multiply(self, slot: ir.Value, sums: Sequence[ir.Value], step: Integer, first: bool) -> list[ir.Value]:
        """Add what is in a slot, and of a rhs that is kept in shared memory the tile of this ``step``."""
        words, s = self.words, self.schedule
        lhs = words.add(self.lhs_base, words.mul(slot, s.chunks * self.lhs.bytes >> 4))
        rhs = words.add(self.rhs_base, words.mul(step if s.kept else slot, s.chunks * self.rhs.bytes >> 4))
        # By steps LLVM would count the whole descriptor up, of which ptxas 13.0 then forgets the upper half (UIMAD.WIDE and a sum of the lower half alone).
        rhs = opaque(words, rhs) if s.kept else rhs
        return self.multiplier.multiply(sums, lhs, rhs, first, s.chunks)
