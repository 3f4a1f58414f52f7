"""Elementwise kernels that compute where neighbours are read, and write their results through shared memory where these lie.

A thread has one coordinate along what is read and several along the results, a block's threads apart: what is computed of the former is the same for all.
"""

from dataclasses import dataclass, field

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import branch_together, load, store
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.maps.narrow_index import Offsets
from inferno.codegen.maps.transposing import Transposing, loop_indices
from inferno.element_sizes import element_bytes
from inferno.mlir import gpu, ir
from inferno.passes.shapes import row_major
from inferno.schedule.maps.pointwise import Pointwise
from inferno.schedule.maps.turned_results import row_pitch, rows_of, side_of
from inferno.symbolic import Int, ceildiv


@dataclass
class ResultTurning(Transposing):
    """``shared``: one array for each result; ``first`` are the coordinates of a tile's first point."""

    first: list[Integer] = field(default_factory=list)

    def grid(self) -> list[Int]:
        """Tiles, or single coordinates, along every run."""
        ends = self.ends()
        return [ceildiv(s, ends[r]) if r in ends else s for r, s in enumerate(self.point.run_sizes)]

    def ends(self) -> dict[int, int]:
        """Points of a tile along the two runs that it has several of."""
        return {self.across: side_of(self.point, self.across), len(self.point.runs) - 1: self.schedule.tile}

    def emit(self) -> None:
        ints, ends, threads = self.ints, self.ends(), self.schedule.threads
        side, tile = ends.values()
        thread, block = ints.thread(threads), ints.block()
        if self.schedule.backwards:
            block = ints.sub(self.blocks() - 1, block)
        self.first = [ints.mul(c, ends[r]) if r in ends else c for r, c in enumerate(ints.split(block, self.grid()))]
        rows = rows_of(side, tile, threads)
        i, row = ints.rem(thread, side), ints.div(thread, side)
        with only_if(ints.less(thread, rows * side) if threads != rows * side else None):
            places = [(i, ints.add(row, a)) for a in range(0, tile, rows)]
            wheres = [self.at(i, j) for i, j in places]
            loaded = [[self.operand(n, s, i, j, where) for n, s in enumerate(self.point.sources)] for (i, j), where in zip(places, wheres)]
            for (i, j), where, values in zip(places, wheres, loaded):
                self.keep(self.compute(values, where), i, j)
        gpu.barrier()
        j, row, rows = ints.rem(thread, tile), ints.div(thread, tile), threads // tile
        with only_if(ints.less(thread, rows * tile) if threads % tile else None):
            for a in range(0, side, rows):
                self.put(ints.add(row, a), j)

    def at(self, i: Integer, j: Integer) -> list[Integer]:
        """Coordinates of a tile's point, clamped into the box."""
        ints, ends, found = self.ints, self.ends(), list(self.first)
        for (run, end), x in zip(ends.items(), (i, j)):
            found[run], size = ints.add(found[run], x), self.point.run_sizes[run]
            if size % end:
                found[run] = ints.min(found[run], size - 1)
        return found

    def compute(self, values: list[ir.Value], where: list[Integer]) -> list[ir.Value]:
        """A point's results."""
        offsets, tables = Offsets(self.ints), dict(self.point.tables)

        def extract(op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
            table = ir.RankedTensorType(op.operands[0].type)
            place, constant = offsets.of(operands[1:], row_major(table.shape))
            return load(self.ints, self.buffers[tables[op.operands[0]]], self.ints.add(place, constant), table.element_type)

        branch = lambda op, condition, inline: branch_together(op, condition, 0, inline)  # noqa: E731
        indices = loop_indices(self.point, self.ints, where)
        return inline_body(self.point.block, values, indices, custom={"tensor.extract": extract}, outside=self.point.outside(self.buffers), branch=branch)

    def keep(self, results: list[ir.Value], i: Integer, j: Integer) -> None:
        """Put a point's results where others find them."""
        for d, value, array in zip(self.point.destinations, results, self.shared):
            store(self.ints, value, array, self.place(d.element, i, j))

    def place(self, element: ir.Type, i: Integer, j: Integer) -> Integer:
        """Where a point is in the array of a result."""
        return self.ints.add(self.ints.mul(j, row_pitch(self.ends()[self.across], element_bytes(element))), i)

    def put(self, i: Integer, j: Integer) -> None:
        """Write the results of a point of the tile, if it is one of the box."""
        ints, ends = self.ints, self.ends()
        side, tile = ends.values()
        inside = [ints.less(i, side)] if side % (self.schedule.threads // tile) else []  # (the last ones may be beyond)
        where = list(self.first)
        for (run, end), x in zip(ends.items(), (i, j)):
            where[run], size = ints.add(where[run], x), self.point.run_sizes[run]
            inside += [ints.less(where[run], size)] if size % end else []
        with only_if(*inside):
            found = [load(ints, array, self.place(d.element, i, j), d.element) for d, array in zip(self.point.destinations, self.shared)]
            self.store(found, where)


def result_arrays(point: Pointwise, across: int, tile: int) -> list[tuple[int, ir.Type]]:
    """Count and type of the array that each result needs."""
    return [(tile * row_pitch(side_of(point, across), element_bytes(d.element)), stored_type(d.element)) for d in point.destinations]
