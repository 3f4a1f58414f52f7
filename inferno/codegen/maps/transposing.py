"""Elementwise kernels that transpose: square tiles go through shared memory, so that reads and writes are both coalesced.

A block takes a tile of two runs of loops: ``across``, in which the transposed inputs are contiguous, and the last one, in
which the destination is.  Inputs that are not transposed are read directly.
"""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import load, store
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.element_sizes import element_bytes
from inferno.mlir import arith, gpu, ir, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.maps.pointwise import Pointwise
from inferno.symbolic import Int, ceildiv, product


def pitch(tile: int, element: ir.Type) -> int:
    """Elements from one row of a tile to the next: an odd number of 4-byte banks more than none."""
    return tile + max(1, 4 // element_bytes(element))


@dataclass
class Transposing:
    """``buffers`` are the kernel's parameters, ``shared`` one array for each transposed input."""

    point: Pointwise
    schedule: Elementwise
    across: int
    transposed: tuple[int, ...]
    ints: Integers
    buffers: list[ir.Value]
    shared: list[ir.Value]

    def blocks(self) -> Int:
        return product(self.grid())

    def grid(self) -> list[Int]:
        """Tiles, or single coordinates, along every run."""
        sizes, last = self.point.run_sizes, len(self.point.runs) - 1
        sides = dict(zip((self.across, last), self.schedule.sides))
        return [ceildiv(s, sides[r]) if r in sides else s for r, s in enumerate(sizes)]

    def emit(self) -> None:
        ints, tile, threads = self.ints, self.schedule.tile, self.schedule.threads
        last = len(self.point.runs) - 1
        thread = ints.thread(threads)
        block = ints.block()
        if self.schedule.backwards:
            block = ints.sub(self.blocks() - 1, block)
        # Blocks run over the tiles; multiplied up, they are the coordinates of a tile's first point.
        first = [ints.mul(c, tile) if r in (self.across, last) else c for r, c in enumerate(ints.split(block, self.grid()))]
        lane, row = ints.rem(thread, 32), ints.div(thread, 32)
        sizes = self.point.run_sizes

        def at(i: Integer, j: Integer) -> list[Integer]:
            """Coordinates of a tile's point, clamped into the box."""
            found = list(first)
            for run, x in ((self.across, i), (last, j)):
                found[run] = ints.add(found[run], x)
                if sizes[run] % tile != 0:
                    found[run] = ints.min(found[run], sizes[run] - 1)
            return found

        places = [(ints.add(row, a), ints.add(lane, b)) for a in range(0, tile, threads // 32) for b in range(0, tile, 32)]
        for number, array in zip(self.transposed, self.shared):
            source = self.point.sources[number]
            values = [self.read(source, at(i, j)) for j, i in places]
            for (j, i), value in zip(places, values):
                store(ints, value, array, ints.add(ints.mul(j, pitch(tile, source.element)), i))
        gpu.barrier()
        loaded = [[self.operand(n, s, i, j, at(i, j)) for n, s in enumerate(self.point.sources)] for i, j in places]
        for (i, j), values in zip(places, loaded):
            where = at(i, j)
            results = inline_body(self.point.block, values, loop_indices(self.point, self.ints, where), outside=self.point.outside(self.buffers))
            self.write(results, where, ints.add(first[self.across], i), ints.add(first[last], j))

    def read(self, source: Access, where: list[Integer]) -> ir.Value:
        offset = self.ints.dot(where, self.point.run_strides(source), source.offset)
        return load(self.ints, self.buffers[source.argument], offset, source.element)

    def operand(self, number: int, source: Access | None, i: Integer, j: Integer, where: list[Integer]) -> ir.Value:
        if source is None:
            return arith.constant(ir.IntegerType.get_signless(1), 0)
        if number not in self.transposed:
            return self.read(source, where)
        begin = self.ints.add(self.ints.mul(j, pitch(self.schedule.tile, source.element)), i)
        return load(self.ints, self.shared[self.transposed.index(number)], begin, source.element)

    def write(self, results: list[ir.Value], where: list[Integer], i: Integer, j: Integer) -> None:
        """Store where the unclamped coordinates ``i`` and ``j`` lie inside the box."""
        ints, sizes, last = self.ints, self.point.run_sizes, len(self.point.runs) - 1
        ends = zip((self.across, last), (i, j), self.schedule.sides)
        conditions = [ints.less(x, sizes[r]) for r, x, side in ends if sizes[r] % side != 0]
        with only_if(*conditions):
            self.store(results, where)

    def store(self, results: list[ir.Value], where: list[Integer]) -> None:
        for destination, value in zip(self.point.destinations, results):
            offset = self.ints.dot(where, self.point.run_strides(destination), destination.offset)
            store(self.ints, value, self.buffers[destination.argument], offset)


def loop_indices(point: Pointwise, ints: Integers, where: list[Integer]) -> list[ir.Value]:
    """What a body may ask for that is computed at these coordinates along runs of loops; nothing if it does not ask."""
    if not walk(point.generic, "linalg.index"):
        return []
    found: list[Integer] = [0] * len(point.sizes)
    for run, c in zip(point.runs, where):
        for d, x in zip(run, ints.split(c, [point.sizes[d] for d in run])):
            found[d] = x
    return [ints.index(x) for x in found]


def shared_arrays(elements: list[ir.Type], tile: int) -> list[tuple[int, ir.Type]]:
    """Count and type of the array that each transposed input needs."""
    return [(tile * pitch(tile, e), stored_type(e)) for e in elements]
