"""The rewriter of a kernel of ``wgmma``: warps that apply prologues to raw tiles in shared memory, or transpose them, on their way to the tensor core's."""

from collections.abc import Sequence

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.rewriting import Rewriting
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import loop
from inferno.codegen.nvvm.mbarriers import Position
from inferno.mlir import ir, nvvm

_BARRIER = 8  # the first of the rewriters' named barriers, one a slice; the consumers have those before


class Rewriter:
    """What an emitter of ``wgmma`` does in the warps behind the first, of the helpers' warpgroups."""

    def rewrite(self) -> None:
        """The part of the warps behind the first."""
        self.rewrite_steps(self.words.sub(self.thread, 32), 128 * self.helpers - 32, 0, 1)

    def rewrite_steps(self, member: ir.Value, threads: int, slice: int, slices: int) -> None:
        """Turn raw tiles into the tensor core's, in the order in which they come, every ``slices``-th step; ``member`` of
        ``threads`` threads."""
        words, rewritings, ring, rounds = self.words, self.rewritings(threads), self.ring, self.raw

        def step(grid: Sequence[Integer], m0: Integer, n0: Integer, number: ir.Value, *values: ir.Value) -> list[ir.Value]:
            at, raw = Position(*values[:2]), Position(*values[2:])
            where, k0 = self.place(grid, number)
            rounds.await_full(raw)
            ring.acquire(at)
            base = self.raw_slot(raw.slot)
            for rewriting, (_, tile, _, first, offset, size, _) in zip(rewritings, self.operands(m0, n0)):
                if rewriting is not None:
                    slot = words.add(words.add(self.device.shared, offset), words.mul(at.slot, self.parts * tile.bytes))
                    rewriting.emit(member, base, slot, first, k0, where)
                base = words.add(base, size)
            tma.fence_shared()
            nvvm.BarrierOp(barrierId=words.value(_BARRIER + slice), numberOfThreads=words.value(threads))
            with only_if(words.equal(member, 0)):
                ring.full.arrive(at.slot)
                rounds.empty.arrive(raw.slot)
            return [*ring.skip(at, slices).values, *rounds.skip(raw, slices).values]

        def tile(number: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
            grid, m0, n0 = self.tile(number)
            start = [*ring.skip(Position(*at[:2]), slice).values, *rounds.skip(Position(*at[2:]), slice).values]
            done = loop(words, words.add(self.first, slice), self.end, slices, start, lambda n, *at: step(grid, m0, n0, n, *at))
            if slices == 1:
                return done
            return [*ring.skip(Position(*at[:2]), self.steps).values, *rounds.skip(Position(*at[2:]), self.steps).values]

        self.each_tile(self.worker, self.workers, [*ring.start().values, *rounds.start().values], tile)

    def rewritings(self, threads: int) -> list[Rewriting | None]:
        """What is rewritten of the lhs and of the rhs, by this number of threads."""
        c, t = self.contraction, self.tiling
        return [
            Rewriting(self.words, operand, source, tile, rows, t.k, self.tensors, threads) if source.raw is not None else None
            for operand, source, tile, rows in ((c.lhs, t.lhs, self.lhs, t.m), (c.rhs, t.rhs, self.rhs, t.n))
        ]
