"""Reductions across a row's threads: lanes of a warp by shuffles, warps by shared memory, the blocks of a cluster by distributed shared memory."""

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import from_memory, to_memory, tree
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.cluster import arrive_in_cluster, read_remote, wait_for_cluster
from inferno.codegen.nvvm.shuffles import exchange
from inferno.mlir import arith, gpu, ir, memref
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.row_steps import RowStep

_FEW = 8  # warps, or blocks, whose parts every thread adds up itself


class RowTotals:
    """What an emitter of ``rows`` does with them."""

    def finish(self, reducing: list[RowStep], running: list[tuple[int, Combiner]], parts: dict[int, ir.Value]) -> None:
        """Of each thread's part the whole, in all of them, and what the reductions began with."""
        parts = self.joined(running, [parts], min(32, self.s.across) // 2)
        if self.s.across > 32:
            parts = self.joined(running, *self.of_warps(parts, running))
        if self.s.cluster > 1:
            parts = self.joined(running, *self.of_blocks(parts, running))
            if self.exchange is None and not any(step.reduces and step.phase > self.now for step in self.c.steps):
                arrive_in_cluster()  # nobody's shared memory is read by this thread any more, and no store is on its way that it would wait for
        for step in reducing:
            for n, k, start in zip(step.results, step.combiners, step.starts):
                if k is not None:
                    self._rows[n] = k.round(k.combine(k.to_total(k.widen(arith.constant(k.narrow, start))), parts[n]))

    def joined(self, running: list[tuple[int, Combiner]], parts: list[dict[int, ir.Value]], distance: int) -> dict[int, ir.Value]:
        """What several parts come to, those of twice as many lanes as ``distance`` says."""
        def whole(k: Combiner, value: ir.Value) -> ir.Value:
            step = distance
            while step:
                value, step = k.combine(value, exchange(value, step)), step // 2
            return value

        return {n: whole(k, tree(k.combine, [p[n] for p in parts])) for n, k in running}

    def of_warps(self, parts: dict[int, ir.Value], running: list[tuple[int, Combiner]]) -> tuple[list[dict[int, ir.Value]], int]:
        """What the warps of a row have, as ``joined`` takes it."""
        ints, warps = self.ints, self.s.across // 32
        arrays = {n: self.shared[self.places[n]] for n, _ in running}

        with only_if(ints.equal(ints.rem(self.thread, 32), 0)):
            for n, _ in running:
                memref.store(to_memory(parts[n]), arrays[n], [ints.index(ints.div(self.thread, 32))])
        gpu.barrier()
        begin = ints.mul(ints.div(self.thread, self.s.across), warps) if self.s.threads > self.s.across else 0

        def get(place: Integer) -> dict[int, ir.Value]:
            return {n: from_memory(memref.load(arrays[n], [ints.index(ints.add(begin, place))]), parts[n].type) for n, _ in running}

        if warps <= _FEW:
            return [get(i) for i in range(warps)], 0
        return [get(ints.rem(self.thread, warps))], warps // 2

    def of_blocks(self, parts: dict[int, ir.Value], running: list[tuple[int, Combiner]]) -> tuple[list[dict[int, ir.Value]], int]:
        """What the blocks of a cluster have, in the same way."""
        if self.exchange is not None:
            self.exchange.send(self.now, [self.places[n] for n, _ in running], [parts[n] for n, _ in running])
            self.exchange.wait(self.now)
            spread = self.s.cluster > _FEW and self.s.cluster & (self.s.cluster - 1) == 0
            ranks = [self.ints.rem(self.thread, self.s.cluster)] if spread else range(self.s.cluster)
            each = [{n: self.exchange.receive(self.places[n], rank, parts[n].type) for n, _ in running} for rank in ranks]
            return each, self.s.cluster // 2 if spread else 0
        ints, own = self.ints, len(self.shared) - len(self.places)
        arrays = {n: self.shared[own + self.places[n]] for n, _ in running}

        with only_if(ints.equal(self.thread, 0)):
            for n, _ in running:
                memref.store(to_memory(parts[n]), arrays[n], [ints.index(0)])
        wait_for_cluster()
        return [{n: from_memory(read_remote(arrays[n], rank), parts[n].type) for n, _ in running} for rank in range(self.s.cluster)], 0
