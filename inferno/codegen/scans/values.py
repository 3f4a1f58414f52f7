"""What a scan's kernel reads, and what its maps make, of some neighbouring points at a time, each once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.elements import as_vector, join, lanes_of, load, load_vector, splat, store, store_vector
from inferno.codegen.builders.gathered_values import GatheredValues
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.mlir import arith, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.row_steps import RowStep
from inferno.schedule.scans.kernel import ScanKernel
from inferno.schedule.scans.scan_schedule import first_offset
from inferno.symbolic import alignment


@dataclass
class Values:
    """Of items, each ``vector`` neighbours along the last loop."""

    c: ScanKernel
    ints: Integers
    buffers: list[ir.Value]
    vector: int
    _places: dict[int, list[Integer]] = field(default_factory=dict)
    _known: dict[tuple[int | Access, int], ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._gathered = GatheredValues(self.ints, self.buffers, self.vector)

    def place(self, item: int, outer: Integer, position: Integer, column: Integer) -> None:
        """Where an item begins, in the order of the scan; what was known of it is forgotten."""
        c, ints = self.c, self.ints
        parts = (outer, c.sizes[:c.begin]), (position, c.sizes[c.begin:c.end]), (column, c.sizes[c.end:])
        self._places[item] = [x for value, sizes in parts for x in ints.split(value, sizes)]
        self._known = {key: value for key, value in self._known.items() if key[1] != item}

    def know(self, what: int | Access, item: int, value: ir.Value) -> None:
        self._known[what, item] = value

    def source(self, item: int) -> ir.Value:
        """What is scanned."""
        return self.get(self.c.source, item)

    def get(self, what: int | Access, item: int) -> ir.Value:
        if (what, item) not in self._known:
            if isinstance(what, Access):
                self.know(what, item, self._read(what, item))
            else:
                step = next(s for s in self.c.steps if what in s.results)
                for number, value in zip(step.results, self._body(step, item)):
                    if number is not None:
                        self.know(number, item, value)
        return self._known[what, item]

    def write(self, item: int) -> None:
        """Store all destinations."""
        found = [(d.access, self.get(d.source, item)) for d in self.c.destinations]
        for at, value in found:
            buffer, offset = self.buffers[at.argument], self.offset(at, item)
            if self.vector == 1:
                store(self.ints, value, buffer, offset)
            else:
                store_vector(self.ints, self.as_stored(at, as_vector(value, self.vector)), buffer, offset, self._alignment(at))

    def offset(self, at: Access, item: int) -> Integer:
        """Of an item, or of the neighbour of it that comes first in memory."""
        return self.ints.dot(self._places[item], at.strides, first_offset(at, self.vector))

    def as_stored(self, at: Access, value: ir.Value) -> ir.Value:
        """An item's neighbours in the order of memory, or those that lie so in the order of points."""
        return join(lanes_of(value)[::-1]) if self.vector > 1 and at.strides[-1:] == (-1,) else value

    def _alignment(self, at: Access) -> int:
        """Neighbouring elements that are aligned together."""
        return alignment((first_offset(at, self.vector), *at.strides[:-1]), self.vector)

    def _read(self, at: Access, item: int) -> ir.Value:
        buffer, offset = self.buffers[at.argument], self.offset(at, item)
        inner = at.strides[-1] if at.strides else 0
        if self.vector == 1 or inner == 0:
            return load(self.ints, buffer, offset, at.element)
        return self.as_stored(at, load_vector(self.ints, buffer, offset, at.element, self.vector, self._alignment(at)))

    def _body(self, step: RowStep, item: int) -> list[ir.Value]:
        arguments = [splat(ir.IntegerType.get_signless(1), 0) if s is None else self.get(s, item) for s in step.sources]
        arguments += [splat(ir.IntegerType.get_signless(1), 0) for _ in step.results]
        gathered, lanes = self._gathered, self.vector if self.vector > 1 else 0
        custom, branch = ({"tensor.extract": gathered.extract}, gathered.branch) if step in self.c.gathering else (None, None)
        return inline_body(step.block, arguments, self._indices(step, item), lanes, custom, branch=branch)

    def _indices(self, step: RowStep, item: int) -> Sequence[ir.Value]:
        """For ``linalg.index``: the numbers of a step's own loops, vectors for the last of the kernel's."""
        found, ints = [], self.ints
        for d in step.indices:
            if d is None:
                found.append(arith.constant(ir.IndexType.get(), 0))
            elif d == len(self.c.sizes) - 1 and self.vector > 1:
                found.append(join([ints.index(self._places[item][d], i) for i in range(self.vector)]))
                self._gathered.know(found[-1], self.c.sizes[d])
            else:
                found.append(ints.index(self._places[item][d]))
        return found
