"""Elementwise kernels that read another order in short pieces: boxes go through shared memory, so that reads and writes are both of whole lines.

Threads walk a box twice: in the order of the inputs, to bring them, and in the order of the result.  Shared memory has a box in the result's order, each
128 bytes of it a word farther than the ones before, or what is read at once: lanes that walk across the lines are in other banks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, load, load_vector, lanes_of, store, store_vector
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import gpu_function, integers_for, parameters_of, stored_type
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.maps.transposing import loop_indices
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.maps.boxes import Box, Boxes, box_of
from inferno.schedule.maps.pointwise import Pointwise, parse_pointwise
from inferno.symbolic import ceildiv, product
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Boxes, target: Target) -> None:
    """Add the ``gpu.module`` of an elementwise kernel and make ``kernel`` its launcher."""
    point = parse_pointwise(kernel)
    box = box_of(point, schedule) if point is not None else None
    if box is None:
        raise CompileError(f"@{kernel.name.value} is no elementwise kernel that reads short pieces")
    expand_math(point.generic)
    buffers, name = parameters_of(kernel, {d.argument for d in point.destinations}), kernel.name.value
    width = 32 if max(b.count for b in buffers if b is not None) < 2**30 else 64
    arrays = [(_position(box, box.points, a.element) + 1, stored_type(a.element)) for a in _shared(point, box)]
    with gpu_function(kernel, buffers, schedule.threads, arrays) as function:
        emitter = _Emitter(point, box, schedule.threads, integers_for(kernel, width, function.buffers), function.buffers, function.shared)
        emitter.emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (product(emitter.grid), 1, 1), (schedule.threads, 1, 1))


def _shared(point: Pointwise, box: Box) -> list[Access]:
    """What goes through shared memory."""
    return list(point.destinations) if box.results else [point.sources[n] for n in box.inputs]


def _line(box: Box, element: ir.Type) -> tuple[int, int]:
    """Elements of 128 bytes, and of what is left free behind them: of a word at least, and so many that vectors stay aligned."""
    width = element_bytes(element)
    return 128 // width, max(box.vector, 4 // width)


def _position(box: Box, number: int, element: ir.Type) -> int:
    """Where a box's ``number``-th element is in shared memory."""
    line, free = _line(box, element)
    return number + number // line * free


@dataclass
class _Emitter:
    point: Pointwise
    box: Box
    threads: int
    ints: Integers
    buffers: list[ir.Value]
    shared: list[ir.Value]

    @property
    def grid(self) -> list[int]:
        return [ceildiv(s, e) for s, e in zip(self.point.run_sizes, self.box.extents)]

    def emit(self) -> None:
        ints, box = self.ints, self.box
        self.thread = ints.thread(self.threads)
        block = ints.block()
        self.first = [ints.mul(c, e) for c, e in zip(ints.split(block, self.grid), box.extents)]
        self.bring()
        gpu.barrier()
        for number, left in self.rounds(box.points // box.vector):
            coordinates = ints.split(ints.mul(number, box.vector), box.extents)
            ends = zip(self.first, coordinates, self.point.run_sizes, box.extents)
            with only_if(left, *(ints.less(ints.add(f, c), s) for f, c, s, e in ends if s % e != 0)):
                self.points(ints.mul(number, box.vector), coordinates)

    def rounds(self, count: int) -> Iterator[tuple[Integer, ir.Value | None]]:
        """The numbers below ``count`` of a thread, and whether there is such a one where not each thread has it."""
        for begin in range(0, count, self.threads):
            number = self.ints.add(self.thread, begin)
            yield number, self.ints.less(number, count) if begin + self.threads > count else None

    def bring(self) -> None:
        """All loads of a thread are under way before the first one is stored."""
        ints, box, found = self.ints, self.box, []
        inner = box.reading[-1]
        for number, left in self.rounds(box.points // box.lanes):
            number = number if left is None else ints.min(number, box.points // box.lanes - 1)
            at = dict(zip(box.reading, ints.split(ints.mul(number, box.lanes), [box.extents[r] for r in box.reading])))
            coordinates = [at[r] for r in range(len(box.extents))]
            where = [
                ints.add(f, c) if s % e == 0 else ints.min(ints.add(f, c), s - (box.lanes if r == inner else 1))
                for r, (f, c, s, e) in enumerate(zip(self.first, coordinates, self.point.run_sizes, box.extents))
            ]
            found.append((left, self.number(coordinates), where, [self.read_lanes(self.point.sources[n], where) for n in box.inputs]))
        step = product(box.extents[inner + 1:])
        for left, number, where, values in found:
            with only_if(left):
                for lane in range(box.lanes):
                    own, at = [v[lane] for v in values], ints.add(number, lane * step)
                    if box.results:
                        own = self.computed([ints.add(x, lane) if r == inner else x for r, x in enumerate(where)], dict(zip(box.inputs, own)))
                    for value, array, access in zip(own, self.shared, _shared(self.point, box)):
                        store(ints, value, array, self.place(at, access.element))

    def read_lanes(self, source: Access, where: list[Integer]) -> list[ir.Value]:
        """Neighbours in memory."""
        if self.box.lanes == 1:
            return [self.read(source, where)]
        offset = self.ints.dot(where, self.point.run_strides(source), source.offset)
        return lanes_of(load_vector(self.ints, self.buffers[source.argument], offset, source.element, self.box.lanes, self.box.lanes))

    def computed(self, where: list[Integer], held: dict[int, ir.Value]) -> list[ir.Value]:
        """A point's results, of what is ``held`` of its inputs and what is read where it lies."""
        values = [
            held[n] if n in held else arith.constant(ir.IntegerType.get_signless(1), 0) if s is None else self.read(s, where)
            for n, s in enumerate(self.point.sources)
        ]
        return inline_body(self.point.block, values, loop_indices(self.point, self.ints, where), outside=self.point.outside(self.buffers))

    def number(self, coordinates: list[Integer]) -> Integer:
        """Of a box's point, in the result's order."""
        strides = [product(self.box.extents[r + 1:]) for r in range(len(coordinates))]
        return self.ints.dot(coordinates, strides)

    def place(self, number: Integer, element: ir.Type) -> Integer:
        line, free = _line(self.box, element)
        return self.ints.add(number, self.ints.mul(self.ints.div(number, line), free))

    def read(self, source: Access, where: list[Integer]) -> ir.Value:
        return load(self.ints, self.buffers[source.argument], self.ints.dot(where, self.point.run_strides(source), source.offset), source.element)

    def points(self, number: Integer, coordinates: list[Integer]) -> None:
        """Store ``vector`` neighbours of the results, which are computed here if they are not yet."""
        ints, box = self.ints, self.box
        first = [ints.add(f, c) for f, c in zip(self.first, coordinates)]
        held = []
        for access, array in zip(_shared(self.point, box), self.shared):
            at = self.place(number, access.element)
            held.append(lanes_of(load_vector(ints, array, at, access.element, box.vector, box.vector)) if box.vector > 1 else [
                load(ints, array, at, access.element)])
        if not box.results:
            places = [[*first[:-1], ints.add(first[-1], lane)] for lane in range(box.vector)]
            held = list(zip(*(self.computed(where, dict(zip(box.inputs, own))) for where, own in zip(places, zip(*held)))))
        for destination, values in zip(self.point.destinations, held):
            offset = ints.dot(first, self.point.run_strides(destination), destination.offset)
            if box.vector > 1:
                store_vector(ints, join(values), self.buffers[destination.argument], offset, box.vector)
            else:
                store(ints, values[0], self.buffers[destination.argument], offset)
