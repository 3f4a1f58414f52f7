"""Scans along rows in registers: a thread's total is scanned across lanes by shuffles, across warps by shared memory, across the blocks of a cluster by
distributed shared memory.

A warp has neighbouring vectors of a row at once, several times one behind the other, and the warps of a row lie next to each other, as its blocks do: then
each warp leaves one value for those behind it.  The running values in a vector are computed again where those of the row are read, so that between the two
only what is in front of each vector takes registers, and of 16-bit numbers these as they are.
"""

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, from_memory, join, lanes_of, opaque_vector, to_memory
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.shuffles import from_lane
from inferno.codegen.scans.lane_scans import before, last_lane, running, scan_lanes
from inferno.mlir import arith, gpu, ir, memref
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.row_steps import RowStep
from inferno.target import WARP



class RowScans:
    """What an emitter of ``rows`` does with them; ``_fronts`` has what is in front of a vector, by (the scan's result, chunk)."""

    @property
    def neighbours(self) -> int:
        """Threads of a warp that have one row."""
        return min(WARP, self.s.across)

    def in_order(self) -> tuple[Integer, int]:
        """The number of a thread's first vector in its row, and how far apart its vectors are."""
        ints, lanes, s = self.ints, self.neighbours, self.s
        warp = ints.div(self.lane, lanes) if s.across > lanes else 0
        if s.cluster > 1:
            warp = ints.add(ints.mul(self.rank, s.across // lanes), warp)
        return ints.add(ints.mul(warp, lanes * self.s.chunks(self.c)), ints.rem(self.lane, lanes)), lanes

    @property
    def scanned_number(self) -> int | None:
        """As ``place`` takes it: that any of a thread's vectors may be none of the row's, or that none is."""
        return None if self.s.across * self.s.cluster * self.s.chunks(self.c) > self.s.vectors(self.c) else -1

    def scan(self, steps: list[RowStep]) -> None:
        """What is in front of each of a thread's vectors, once what is scanned is known."""
        ints, lanes, chunks = self.ints, self.neighbours, range(self.s.chunks(self.c))
        lane = ints.rem(self.lane, lanes)
        whole: dict[int, tuple[Combiner, ir.Value | None]] = {}
        for step in steps:
            k, (number,), front = step.scans, step.results, None
            for chunk in chunks:
                (behind,) = scan_lanes(ints, k, [k.to_total(self.inner(step, chunk)[-1])], lane, lanes)
                own = before(ints, k, [behind], lane)[0] if lanes > 1 else None
                self._fronts[number, chunk] = _joined(k, front, own)
                if chunk + 1 < len(chunks) or self.s.across * self.s.cluster > lanes:
                    front = _joined(k, front, from_lane(behind, last_lane(ints, self.thread, lane, lanes)) if lanes > 1 else behind)
                if not self.s.packed:  # or the next phase takes what was read anew
                    key = step.sources[0], chunk
                    self._points[key] = opaque_vector(self._points[key])
            whole[number] = k, front
        bases = self.of_others_before(whole) if self.s.across * self.s.cluster > lanes else {}
        for step in steps:
            k, (number,) = step.scans, step.results
            for chunk in chunks:
                start = _joined(k, bases.get(number), self._fronts[number, chunk])
                self._fronts[number, chunk] = None if start is None else k.from_total(start)

    def of_others_before(self, totals: dict[int, tuple[Combiner, ir.Value]]) -> dict[int, ir.Value]:
        """What the warps and blocks in front of this one come to, of its row, by the scans' results, given what this warp comes to."""
        bases: dict[int, ir.Value] = {}
        if self.s.across > self.neighbours:
            found = self.of_warps_before(totals)
            bases = {n: front for n, (front, _) in found.items()}
            totals = {n: (k, found[n][1]) for n, (k, _) in totals.items()}
        if self.s.cluster > 1:
            bases = {n: _joined(totals[n][0], front, bases.get(n)) for n, front in self.of_blocks_before(totals).items()}
        return bases

    def of_blocks_before(self, totals: dict[int, tuple[Combiner, ir.Value]]) -> dict[int, ir.Value]:
        """What the blocks in front of this one come to, given what each comes to."""
        ints, number, found = self.ints, self.c.phases + self.now, {}
        self.exchange.send(number, [self.places[n] for n in totals], [value for _, value in totals.values()])
        self.exchange.wait(number)
        for n, (k, value) in totals.items():
            front = k.identity(k.total)
            for rank in range(self.s.cluster - 1):
                part = self.exchange.receive(self.places[n], rank, value.type)
                front = arith.select(ints.less(rank, self.rank), k.combine(front, part), front)
            found[n] = front
        return found

    def of_warps_before(self, totals: dict[int, tuple[Combiner, ir.Value]]) -> dict[int, tuple[ir.Value, ir.Value]]:
        """What the warps in front of this one come to, and what all of a block's do, or of a row's where a block has several."""
        ints, warps = self.ints, self.s.across // WARP
        arrays = {n: self.shared[self.places[n]] for n in totals}

        with only_if(ints.equal(ints.rem(self.thread, WARP), 0)):
            for n, (_, value) in totals.items():
                memref.store(to_memory(value), arrays[n], [ints.index(ints.div(self.thread, WARP))])
        gpu.barrier()
        begin = ints.mul(ints.div(self.thread, self.s.across), warps) if self.s.threads > self.s.across else 0
        own, place = ints.div(self.lane, WARP), ints.rem(self.thread, warps)
        has, found = ints.less(0, own), {}
        for n, (k, value) in totals.items():
            each = from_memory(memref.load(arrays[n], [ints.index(ints.add(begin, place))]), value.type)
            (up_to,) = scan_lanes(ints, k, [each], place, warps)
            front = from_lane(up_to, ints.word(arith.select(has, ints.value(ints.sub(own, 1)), ints.value(0))))
            found[n] = arith.select(has, front, k.identity(k.total)), from_lane(up_to, warps - 1)
        return found

    def inner(self, step: RowStep, chunk: object) -> list[ir.Value]:
        """Running values within a vector."""
        k, (source,), inside = step.scans, step.sources, self._chunk[chunk][1]
        value = self.value(source, chunk) if isinstance(source, int) else self.read(source, chunk)
        terms = [k.widen(x) for x in lanes_of(as_vector(value, self.s.vector) if self.s.vector > 1 else value)]
        if isinstance(inside, list):  # a vector's first lanes may be in front of the row; what is behind it is in front of nothing
            terms = [arith.select(i, t, k.identity(t.type)) for i, t in zip(inside, terms)]
        return running(k, terms)

    def scanned(self, step: RowStep, chunk: object) -> list[ir.Value]:
        """The running values of a chunk, as a step's results."""
        k, front = step.scans, self._fronts[step.results[0], chunk]
        values = [k.round(x if front is None else k.combine(front, x)) for x in self.inner(step, chunk)]
        return [values[0] if self.s.vector == 1 else join(values)]


def _joined(combiner: Combiner, a: ir.Value | None, b: ir.Value | None) -> ir.Value | None:
    return b if a is None else a if b is None else combiner.combine(a, b)
