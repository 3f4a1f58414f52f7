"""Elements of a kernel's tensors by their numbers (see ``inferno.schedule.scatters.flat_elements``), as many neighbours at a time as a thread
takes together."""

from dataclasses import dataclass

from inferno.codegen.builders.elements import lanes_of, load, load_vector
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.mlir import arith, ir, outside_values
from inferno.passes.shapes import row_major
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.scatters.flat_elements import Computed, Elements


@dataclass(frozen=True)
class Reader:
    """``buffers`` are the kernel's arguments; ``lanes`` neighbours are read from a multiple of that on."""

    ints: Integers
    buffers: list[ir.Value]
    lanes: int = 1

    def read(self, elements: Elements, number: Integer) -> list[ir.Value]:
        """The elements from ``number`` on."""
        ints, lanes = self.ints, self.lanes
        if isinstance(elements, Access):
            return self._neighbours(elements, number)
        if not isinstance(elements, Computed):
            return [arith.constant(elements.type, elements)] * lanes
        flat = row_major(elements.sizes)
        read = [
            self._neighbours(x, number) if isinstance(x, Access) and x.strides == flat and not x.offset else
            None if isinstance(x, Access) else self.read(x, number) for x in elements.sources
        ]
        found, outside = [], {v: self.buffers[ir.BlockArgument(v).arg_number] for v in self._sizes(elements)}
        for lane in range(lanes):
            coordinates = ints.split(ints.add(number, lane), elements.sizes)
            values = [
                load(ints, self.buffers[x.argument], ints.dot(coordinates, x.strides, x.offset), x.element) if known is None else known[lane]
                for x, known in zip(elements.sources, read)
            ]
            unread = arith.constant(ir.IndexType.get(), 0)  # what the destination holds
            found += inline_body(elements.body, [*values, unread], [ints.index(x) for x in coordinates], outside=outside)
        return found

    def _sizes(self, elements: Computed) -> list[ir.Value]:
        """The kernel's sizes that a body takes."""
        return [v for v in outside_values(elements.generic) if isinstance(v.type, ir.IndexType)]

    def _neighbours(self, source: Access, number: Integer) -> list[ir.Value]:
        if self.lanes == 1:
            return [load(self.ints, self.buffers[source.argument], number, source.element)]
        return lanes_of(load_vector(self.ints, self.buffers[source.argument], number, source.element, self.lanes, self.lanes))
