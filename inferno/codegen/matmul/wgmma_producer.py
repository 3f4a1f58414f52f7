"""The producer of a kernel of ``wgmma``: one thread, which starts the copies of the operands' tiles into the slots of a ring, step by step along k."""

from collections.abc import Sequence

from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import loop
from inferno.codegen.nvvm.mbarriers import Position
from inferno.mlir import ir
from inferno.schedule.tiles.tiling import BEHIND, Axis
from inferno.symbolic import ceildiv


class Producer:
    """What an emitter of ``wgmma`` does in the thread that starts copies."""

    @property
    def direct_bytes(self) -> int:
        """Bytes of a slot that the copy engine fills."""
        tiles = (self.lhs,) if self.schedule.kept else (self.lhs, self.rhs)
        return self.schedule.chunks * sum(tile.bytes for tile, raw in zip(tiles, self.raw_bytes) if not raw)

    def produce(self) -> None:
        words, carried = self.words, [*self.ring.start().values, *self.raw.start().values]

        def tile(number: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
            grid, m0, n0 = self.tile(number)
            return loop(words, self.first, self.end, 1, at, lambda step, *at: self.fill(
                grid, m0, n0, step, Position(*at[:2]), Position(*at[2:])))

        if self.schedule.kept:
            self.keep_rhs()
        self.each_tile(self.worker, self.workers, carried, tile)

    def keep_rhs(self) -> None:
        """Start the copies of all steps of the rhs, which all tiles have."""
        words, (map_, tile, source, _, base, *_) = self.words, self.operands(0, 0)[1]
        self.kept.expect(0, self.schedule.kept * tile.bytes)
        for step in range(self.schedule.kept):
            where, k0 = self.place((), step)
            outer = [where[a] for a in source.axes[2:]]
            self.copy_tile(map_, tile, outer, 0, k0, words.add(self.device.shared, base + step * tile.bytes), self.kept.at(0), 1)

    def place(self, grid: Sequence[Integer], step: Integer) -> tuple[dict[Axis, Integer], Integer]:
        """Where a step along k is: the positions of all axes that are not tiled, and the first k."""
        t, words = self.tiling, self.words
        chunks = ceildiv(t.k.size, self.depth)
        outer, chunk = (words.div(step, chunks), words.rem(step, chunks)) if t.steps else (0, step)
        where: dict[Axis, Integer] = {BEHIND: 1, **dict(zip(t.grid, grid))}
        where.update(zip(t.steps, words.split(outer, [a.size for a in t.steps])))
        return where, words.mul(chunk, self.depth)

    def operands(self, m0: Integer, n0: Integer) -> list[tuple]:
        """(map, tile, source, first row, offset of its slots, bytes of its raw tile, blocks that share it) of both operands."""
        t, layout, sharing = self.tiling, self.layout, self.schedule.sharing
        return [
            (self.maps[0], self.lhs, t.lhs, m0, layout.lhs, self.raw_bytes[0], sharing[0]),
            (self.maps[1], self.rhs, t.rhs, n0, layout.rhs, self.raw_bytes[1], sharing[1]),
        ]

    def fill(
        self, grid: Sequence[Integer], m0: Integer, n0: Integer, step: ir.Value, at: Position, raw: Position,
    ) -> list[ir.Value]:
        """Start the copies of both tiles of one step along k: raw tiles, and then, when a slot is free, the others."""
        words, ring = self.words, self.ring
        where, k0 = self.place(grid, step)
        operands = self.operands(m0, n0)[:1 if self.schedule.kept else None]
        if self.rewrites:
            self.raw.acquire(raw)
            self.raw.full.expect(raw.slot, sum(self.raw_bytes))
            base = self.raw_slot(raw.slot)
            for map_, _, source, first, _, size, _ in operands:
                if size:
                    outer = [where[a] for a in source.axes[2:]]
                    self.copy_raw(map_, source, outer, first, k0, base, self.raw.full.at(raw.slot))
                    base = words.add(base, size)
            raw = self.raw.next(raw)
        if self.direct_bytes:
            ring.acquire(at)
            ring.full.expect(at.slot, self.direct_bytes)
            for map_, tile, source, first, base, size, blocks in operands:
                if not size:
                    slot = words.add(words.add(self.device.shared, base), words.mul(at.slot, self.schedule.chunks * tile.bytes))
                    outer = [where[a] for a in source.axes[2:]]
                    for i in range(self.schedule.chunks):
                        target = words.add(slot, i * tile.bytes)
                        self.copy_tile(map_, tile, outer, first, words.add(k0, i * tile.depth), target, ring.full.at(at.slot), blocks)
        return [*ring.next(at).values, *raw.values]

    def raw_slot(self, slot: ir.Value) -> Integer:
        words = self.words
        return words.add(words.add(self.device.shared, self.layout.raw), words.mul(slot, sum(self.raw_bytes)))
