"""Elementwise kernels that transpose what they gather in branches: a concatenation's pieces, which are contiguous along another loop than the result.

As in ``transposing``, what is gathered goes through a tile in shared memory; where a point's branch is not taken, its element is one that caches have, and
nobody gathers it.  Tiles that the box's end does not cut are apart: their places are sums of one that is computed once and of numbers.  With ``vector`` = 2
neighbours of 16 bits are brought by words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import load, load_vector, store, store_vector
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.maps.transposing import Transposing, loop_indices, pitch
from inferno.mlir import arith, dim_of, gpu, ir, owner
from inferno.passes.shapes import row_major
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.maps.transposed_gathers import Gather, taken_branches
from inferno.symbolic import product


@dataclass
class GatherTransposing(Transposing):
    """``shared``: one array for each transposed input, and behind these one for each gather; ``first`` are the coordinates of a tile's first point, and a
    thread's are in the tile's row ``row`` and column ``lane``, and so many further on."""

    gathers: tuple[Gather, ...] = ()
    first: list[Integer] = field(default_factory=list)
    lane: Integer = 0
    row: Integer = 0

    def emit(self) -> None:
        ints, tile, threads = self.ints, self.schedule.tile, self.schedule.threads
        self.last, self.sizes = len(self.point.runs) - 1, self.point.run_sizes
        thread = ints.thread(threads)
        block = ints.block()
        self.first = [ints.mul(c, tile) if r in (self.across, self.last) else c for r, c in enumerate(ints.split(block, self.grid()))]
        self.lane, self.row = ints.rem(thread, 32), ints.div(thread, 32)
        self.for_tiles(self.bring)
        gpu.barrier()
        self.for_tiles(self.make)

    def for_tiles(self, emit: Callable[[bool], None]) -> None:
        """``emit``, which is told whether a tile is whole along the last run, for those that are and those that are not."""
        size, tile = self.sizes[self.last], self.schedule.tile
        if size % tile == 0 or size < tile:
            emit(size % tile == 0)
            return
        if_else(self.ints.less(self.first[self.last], size - tile + 1), [], lambda: emit(True), lambda: emit(False))

    def at(self, i: Integer, j: Integer, whole: bool, lanes: int = 1) -> list[Integer]:
        """Coordinates of a tile's point, of which so many neighbours along ``across`` are meant, clamped into the box."""
        ints, tile, found = self.ints, self.schedule.tile, list(self.first)
        found[self.across], found[self.last] = ints.add(found[self.across], i), ints.add(found[self.last], j)
        if self.sizes[self.across] % tile != 0:
            found[self.across] = ints.min(found[self.across], self.sizes[self.across] - lanes)
        if not whole:
            found[self.last] = ints.min(found[self.last], self.sizes[self.last] - 1)
        return found

    # What goes into the tiles.

    def bring(self, whole: bool) -> None:
        ints, tile, lanes = self.ints, self.schedule.tile, self.schedule.vector
        columns = [ints.add(ints.mul(self.lane, lanes), b) for b in range(0, tile, 32 * lanes)]
        every = [(self.point.sources[n], None) for n in self.transposed] + [(p.access, p) for p in self.gathers]
        read = []
        for (source, gather), array in zip(every, self.shared):
            step, taken = self.point.run_strides(source)[self.last], taken_branches(gather.op, self.point.generic) if gather is not None else []
            inside = 0 <= step * (tile - 1) <= product(source.shape) - lanes  # from the first element on, where a branch is not taken
            by_steps = whole and inside and taken is not None and not self.follows_last(taken) and not (gather is not None and gather.moved)
            for i in columns:
                base = self.place(source, taken, self.at(i, self.row, True, lanes)) if by_steps else None
                for a in range(0, tile, self.schedule.threads // 32):
                    where = base if by_steps else self.place(source, taken, self.at(i, ints.add(self.row, a), whole, lanes), gather)
                    read.append((source, array, i, a, self.read_at(source, where, step * a if by_steps else 0)))
        for source, array, i, a, value in read:
            side = pitch(tile, source.element)
            begin = ints.add(ints.mul(self.row, side), i)
            if lanes == 1:
                store(ints, value, array, ints.add(begin, a * side))
            else:
                store_vector(ints, value, array, begin, lanes, a * side)

    def read_at(self, source: Access, offset: Integer, plus: int) -> ir.Value:
        buffer, lanes = self.buffers[source.argument], self.schedule.vector
        if lanes == 1:
            return load(self.ints, buffer, offset, source.element, plus)
        return load_vector(self.ints, buffer, offset, source.element, lanes, lanes, plus)

    def place(self, source: Access, taken: list[tuple[ir.Value, bool]] | None, where: list[Integer], gather: Gather | None = None) -> Integer:
        """Where a point's element is, if it is gathered there; otherwise anywhere."""
        ints = self.ints
        if gather is not None and gather.moved:
            indices, known = loop_indices(self.point, ints, where), {}
            offset = self.offset(gather.op, [self.evaluate(v, indices, where, known) for v in list(gather.op.operands)[1:]])
        else:
            offset = ints.dot(where, self.point.run_strides(source), source.offset)
        if taken is None:
            return ints.min(offset, product(source.shape) - self.schedule.vector)
        indices = loop_indices(self.point, ints, where) if taken else []
        for condition, holds in taken:
            known, zero = _evaluate(condition, indices), ints.value(0)
            offset = arith.select(known, ints.value(offset), zero) if holds else arith.select(known, zero, ints.value(offset))
        return offset

    def evaluate(self, value: ir.Value, indices: list[ir.Value], where: list[Integer], known: dict[ir.Value, ir.Value]) -> ir.Value:
        """What is computed of loops' numbers and of operands, for a point; ``known``: what was before."""
        if value in known:
            return known[value]
        if isinstance(value, ir.BlockArgument):
            source = self.point.sources[value.arg_number]
            offset = self.ints.dot(where, self.point.run_strides(source), source.offset)
            known[value] = load(self.ints, self.buffers[source.argument], offset, source.element)
        elif (op := owner(value)).name == "tensor.extract":
            known[value] = self.look_up(op, [self.evaluate(v, indices, where, known) for v in list(op.operands)[1:]])
        else:
            known[value] = _computed(op, indices, lambda v: self.evaluate(v, indices, where, known))
        return known[value]

    def offset(self, op: ir.Operation, places: Sequence[ir.Value]) -> Integer:
        """Where an extract reads in its table."""
        return self.ints.dot([self.ints.narrow(v) for v in places], row_major(ir.RankedTensorType(op.operands[0].type).shape))

    def look_up(self, op: ir.Operation, places: Sequence[ir.Value]) -> ir.Value:
        """What an extract reads of its table."""
        return load(self.ints, self.buffers[dict(self.point.tables)[op.operands[0]]], self.offset(op, places), op.results[0].type)

    def follows_last(self, taken: list[tuple[ir.Value, bool]]) -> bool:
        """Whether conditions depend on the last run."""
        return any(_reads_loops(condition) & set(self.point.runs[self.last]) for condition, _ in taken)

    # What is made of them.

    def make(self, whole: bool) -> None:
        ints, tile = self.ints, self.schedule.tile
        for a in range(0, tile, self.schedule.threads // 32):
            for b in range(0, tile, 32):
                i, j = ints.add(self.row, a), ints.add(self.lane, b)
                where = self.at(i, j, whole)
                values = [self.operand(n, s, i, j, where) for n, s in enumerate(self.point.sources)]
                results = self.compute(values, where, i, j)
                self.put(results, where, ints.add(self.first[self.across], i), ints.add(self.first[self.last], j), whole)

    def compute(self, values: list[ir.Value], where: list[Integer], i: Integer, j: Integer) -> list[ir.Value]:
        """A point's results; ``i`` and ``j`` are its coordinates in the tile."""
        ints = self.ints
        tiles = {p.op: array for p, array in zip(self.gathers, self.shared[len(self.transposed):])}

        def extract(op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
            if op in tiles:
                element = op.results[0].type
                return load(ints, tiles[op], ints.add(ints.mul(j, pitch(self.schedule.tile, element)), i), element)
            return self.look_up(op, operands[1:])

        indices = loop_indices(self.point, ints, where)
        return inline_body(
            self.point.block, values, indices, custom={"tensor.extract": extract}, outside=self.point.outside(self.buffers), branch=_branch,
        )

    def put(self, results: list[ir.Value], where: list[Integer], i: Integer, j: Integer, whole: bool) -> None:
        """Store where the unclamped coordinates lie inside the box."""
        if not whole:
            self.write(results, where, i, j)
        elif self.sizes[self.across] % self.schedule.tile == 0:
            self.store(results, where)
        else:
            with only_if(self.ints.less(i, self.sizes[self.across])):
                self.store(results, where)


def _branch(op: ir.Operation, condition: ir.Value, inline: Callable[[ir.Region], list[ir.Value]]) -> Sequence[ir.Value]:
    then, other = op.regions
    return if_else(condition, [r.type for r in op.results], lambda: inline(then), lambda: inline(other))


def _evaluate(value: ir.Value, indices: list[ir.Value]) -> ir.Value:
    """What is computed of loops' numbers, for a point."""
    return _computed(owner(value), indices, lambda v: _evaluate(v, indices))


def _computed(op: ir.Operation, indices: list[ir.Value], operand: Callable[[ir.Value], ir.Value]) -> ir.Value:
    if op.name == "linalg.index":
        return indices[dim_of(op)]
    operands = [operand(v) for v in op.operands]
    new = op.clone()
    for n, v in enumerate(operands):
        new.operands[n] = v
    return new.results[0]


def _reads_loops(value: ir.Value) -> set[int]:
    op = owner(value)
    if op.name == "linalg.index":
        return {dim_of(op)}
    return set().union(*map(_reads_loops, op.operands))
