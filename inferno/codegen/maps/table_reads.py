"""Elements of tables at places that a body computes: by vectors where the places of neighbouring points are known to be neighbours."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd

from inferno.codegen.builders.elements import join, lanes_of, load, load_lanes, load_vector
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.lane_patterns import Pattern, uniform
from inferno.codegen.maps.branches import Branches
from inferno.codegen.maps.clamped_places import ClampedPlaces
from inferno.codegen.maps.narrow_index import Offsets
from inferno.mlir import ir
from inferno.passes.shapes import row_major, shape
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.maps.pointwise import Pointwise
from inferno.symbolic import Int, divisor, product


_LANES = 16  # neighbours that may be aligned together, at most: of a vector of bytes


class TableReads:
    """Of an ``Emitter`` of elementwise kernels: ``tensor.extract``."""

    point: Pointwise
    schedule: Elementwise
    ints: Integers
    buffers: list[ir.Value]
    loops: dict[ir.Value, int]
    loaded: dict
    first: list[Integer]
    places: ClampedPlaces
    begins: dict[tuple, ir.Value]
    run: int | None
    offsets: Offsets
    branches: Branches
    run_patterns: Callable[[int], list[Pattern] | None]

    def extract(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        """``tensor.extract`` from a table, which is a kernel argument."""
        argument = dict((v, a) for v, a in self.point.tables)[op.operands[0]]
        table, buffer, where = ir.RankedTensorType(op.operands[0].type), self.buffers[argument], operands[1:]
        sizes = shape(op.operands[0])
        strides, element, count = row_major(sizes), table.element_type, product(sizes)
        vectors = [v for v in where if isinstance(v.type, ir.VectorType)]
        if not vectors:
            return load(self.ints, buffer, self.inside(self.ints.add(*self.offsets.of(where, strides)), count), element)
        lanes = ir.VectorType(vectors[0].type).shape[0]
        if (found := self.extract_channels(op, buffer, where, strides, lanes, element)) is not None:
            return found
        if (pattern := self.table_pattern(where, strides, lanes)) is not None:
            first, constant = self.offsets.of(where, strides)
            return load_lanes(self.ints, buffer, first, pattern, element, count, self.branches.active, self.branches.clamped, constant, self.loaded)
        if (found := self.extract_clamped(op, buffer, where, strides, lanes, element, count)) is not None:
            return found
        offsets = [self.ints.add(*self.offsets.of(where, strides, i)) for i in range(lanes)]
        live = [i for i in range(lanes) if self.branches.active is None or self.branches.active[i]]
        read = {i: load(self.ints, buffer, self.inside(offsets[i], count), element) for i in live}
        return join([read.get(i, read[live[0]]) for i in range(lanes)])

    def extract_channels(
        self, op: ir.Operation, buffer: ir.Value, where: list[ir.Value], strides: Sequence[Int], lanes: int, element: ir.Type,
    ) -> ir.Value | None:
        """The same by vectors of all channels of a point, where these lie side by side and a thread has them."""
        channels, width = self.schedule.across, self.schedule.vector
        if self.run is None or channels != self.point.run_sizes[self.run] or self.run != self.point.channels:
            return None
        aligned = gcd(_LANES, *(divisor(s) for s in strides[:-1]))
        points = []
        for i in range(width):
            first, constant = self.offsets.of(where[:-1], strides[:-1], i)
            points.append(lanes_of(load_vector(self.ints, buffer, first, element, channels, gcd(aligned, constant), constant)))
        return join([points[i % width][i // width] for i in range(lanes)])

    def extract_clamped(
        self, op: ir.Operation, buffer: ir.Value, where: list[ir.Value], strides: Sequence[Int], lanes: int, element: ir.Type, count: Int,
    ) -> ir.Value | None:
        """The same by vectors, where neighbours are read but for what is kept inside of the table; what is not where its neighbours say comes alone."""
        place, width = self.places.of(op.operands[len(op.operands) - 1]), self.schedule.vector
        if place is None or self.branches.clamped or self.places.dims[place.loop].modulus != width or (any(place.apart) and not self.schedule.windows):
            return None
        rest, active = self.table_pattern(where[:-1], strides[:-1], lanes), self.branches.active or (True,) * lanes
        whole = [i for i in range(lanes) if active[i] and place.apart[i] is None]
        begin = self.begin(place.loop, place.pattern.modulus)
        if rest is None or begin is None:
            return None
        known: dict[int, ir.Value] = {}
        if whole:
            first, constant = self.offsets.of([*where[:-1], begin], strides)
            found = rest.plus(place.pattern)
            beside = replace(found, residues=(rest.residues[0], *(found.residues[i] for i in whole)))
            read = load_lanes(self.ints, buffer, first, beside, element, count, (False, *(True for _ in whole)), False, constant, self.loaded)
            known = dict(zip(whole, lanes_of(read)[1:] if isinstance(read.type, ir.VectorType) else [read] * len(whole)))
        alone: dict[tuple, ir.Value] = {}
        for i in (i for i in range(lanes) if active[i] and i not in known):
            key = place.apart[i], rest.residues[i]
            if key not in alone:
                alone[key] = load(self.ints, buffer, self.ints.add(*self.offsets.of(where, strides, i)), element)
            known[i] = alone[key]
        return join([known.get(i, next(iter(known.values()))) for i in range(lanes)])

    def begin(self, loop: int, modulus: int) -> ir.Value | None:
        """The place in a table that has moved by ``modulus`` from vector to vector along a loop."""
        width, key = self.schedule.vector, (loop, modulus, ir.InsertionPoint.current.block)
        if not modulus or (modulus % width and width % modulus):
            return None
        if key not in self.begins:
            first = self.first[loop]
            moved = self.ints.div(first, width // modulus) if modulus < width else self.ints.mul(first, modulus // width)
            self.begins[key] = self.ints.value(moved)
        return self.begins[key]

    def inside(self, offset: Integer, count: Int) -> Integer:
        """An offset that is inside of a buffer where the lane may be one that does not take the branch."""
        return self.ints.min(offset, self.ints.value(count - 1)) if self.branches.clamped else offset

    def table_pattern(self, where: list[ir.Value], strides: Sequence[Int], lanes: int) -> Pattern | None:
        found, at = Pattern(0, (0,) * lanes), 0
        while at < len(where):
            run = self.run_at(where, strides, at)
            pattern = self.branches.patterns.of(where[at], lanes) if run is None else (self.run_patterns(lanes) or {run: None})[run]
            at += 1 if run is None else len(self.point.runs[run])
            stride = strides[at - 1]
            if pattern is None or (not isinstance(stride, int) and not pattern.same):
                return None
            found = found.plus(pattern.times(stride) if isinstance(stride, int) else uniform(lanes).times(divisor(stride)))
        return found

    def run_at(self, where: list[ir.Value], strides: Sequence[Int], at: int) -> int | None:
        """The run whose loops' coordinates are those from ``at`` on, if the table is walked like it."""
        for number, run in enumerate(self.point.runs):
            if len(run) > 1 and [self.loops.get(v) for v in where[at:at + len(run)]] == list(run):
                walked = strides[at:at + len(run)]
                if all(a == b * self.point.sizes[d] for a, b, d in zip(walked, walked[1:], run[1:])):
                    return number
        return None
