"""Multiply-adds over windows on CUDA cores: depthwise convolutions and those with few channels a group, in any order of dimensions.

A thread keeps all weights of its lanes in registers and walks down the image.  Of each row it reads the elements that its outputs along the row need,
zero outside of the image, and adds their products to the rows of outputs that the row is part of: sums of ``ages`` rows are on their way, each moves to
the next age with the first product of a row, and the oldest are done.  With dilation a thread has the outputs of one phase, which read the elements of
one phase, as if there were no dilation.
"""

import itertools
from dataclasses import dataclass, field
from math import prod

from inferno.codegen.builders.conditions import all_of, if_else, only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, load, load_vector, splat, store, store_vector
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import gpu_function, integers_for, parameters_of
from inferno.codegen.builders.inline import epilogue_arguments, inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.convolution.window_sums import Sums, next_sums, widened
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, scf
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.convolution.window_kernel import Axis, WindowKernel
from inferno.schedule.convolution.windows import Windows, fits, read
from inferno.symbolic import Int, Size, bounds, ceildiv, constant, is_multiple, is_unbounded, product, reach
from inferno.target import Target

_FEWEST_TURNS = 3  # that are worth a loop
_NEAR = 1 << 22
"""Elements up to which a place is a constant away from another: offsets in an instruction have 24 bits."""


def generate(kernel: func.FuncOp, schedule: Windows, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel with windows and make ``kernel`` its launcher."""
    c, name = read(kernel, target), kernel.name.value
    if c is None or not fits(schedule, c):
        raise CompileError(f"@{name} is not a sum over windows that {schedule} computes")
    if c.contraction.epilogue is not None:
        expand_math(c.contraction.epilogue.generic)
    c = c.sized or c
    buffers = parameters_of(kernel, {d.access.argument for d in c.contraction.destinations})
    blocks, width = schedule.blocks(c), 32 if _within_words(c, schedule) else 64
    with gpu_function(kernel, buffers, schedule.threads) as function:
        symbols = integers_for(kernel, width, function.buffers).symbols
        _Emitter(c, schedule, Signed(width, symbols), function.buffers).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (blocks, 1, 1), (schedule.threads, 1, 1))


def _within_words(c: WindowKernel, s: Windows) -> bool:
    """Whether 32 bits hold all offsets, and the numbers of all threads: there are not more than results, but for those of phases that have none."""
    phases = prod(a.phases for a in (c.down, c.along) if a is not None)
    threads = reach(s.count(c)) * (phases if is_unbounded(s.count(c)) else 1)
    return max(threads, *(reach(product(a.shape)) for a in c.accesses)) + s.threads < 2**31


class Signed(Integers):
    """Offsets of places in front of an image may be negative before a constant is added to them."""

    def index(self, x: Integer, plus: int = 0) -> ir.Value:
        index = ir.IndexType.get()
        if isinstance(x, int):
            return arith.constant(index, x + plus)
        wide = arith.index_cast(index, self.value(x))
        return arith.addi(wide, arith.constant(index, plus)) if plus else wide


Row = list[list[ir.Value]]
"""Of each further term and column what was loaded: a vector, or one element for all lanes."""


@dataclass
class _Emitter:
    c: WindowKernel
    s: Windows
    ints: Integers
    buffers: list[ir.Value]
    kept: dict[Access, ir.Value] = field(default_factory=dict)  # what the epilogue reads that is the same all along a thread's way

    def emit(self) -> None:
        c, s, ints = self.c, self.s, self.ints
        thread = ints.thread(s.threads)
        block = ints.block()
        number = ints.add(ints.mul(block, s.threads), thread)
        with only_if(None if is_multiple(s.count(c), s.threads) else ints.less(number, s.count(c))):
            self.strip(number)

    def strip(self, number: Integer) -> None:
        """The outputs of one thread."""
        c, s = self.c, self.s
        self.locate(number)
        self.ages, self.columns = s.ages(c), s.columns(c)
        self.step = c.down.step if c.down is not None else 1
        self.terms = list(itertools.product(*(range(c.sizes[d]) for d in c.further)))
        self.zero = splat(ir.VectorType.get([s.vector], ir.F32Type.get()), 0)
        self.inside_row = [self.inside(c.along, x) for x in range(self.columns)]
        self.inside_further = [self.inside_term(term) for term in self.terms]
        row = self.load_row(0) if s.ahead else None
        self.weights = self.load_weights()
        self.keep()
        turns, first = s.rows + self.ages - 1, self.ages - 1
        sums: Sums = [[self.zero] * s.along for _ in range(self.ages)]
        looped = s.rows - first >= _FEWEST_TURNS
        t = 0
        while t < turns:
            if t == first and looped:
                sums, row = self.loop(first, s.rows, sums, row)
                t = s.rows
                continue
            sums, row = self.turn(t, sums, row, last=t == turns - 1)
            t += 1

    def locate(self, number: Integer) -> None:
        """The thread's place in each parallel loop: in ``along`` and ``down`` its first output."""
        c, s, ints = self.c, self.s, self.ints
        self.at: dict[int, Integer] = {}
        inner, outer = ([("lane", n)] if c.lane is not None else [] for n in (s.across, s.lanes(c) // s.across))
        along, down = (
            [(axis, axis.phases), (axis, ceildiv(c.outputs(axis), each))] if axis is not None else [] for axis, each in ((c.along, s.along), (c.down, s.rows))
        )
        images = [*along, *outer, *down] if c.side_by_side else [*along, *down, *outer]
        parts = [*inner, *images, *((d, c.sizes[d]) for d in c.others)]
        found: dict[object, list[Integer]] = {}
        for (what, _), place in zip(parts, reversed(ints.split(number, [n for _, n in reversed(parts)]))):
            found.setdefault(what, []).append(place)
        for what, places in found.items():
            if what == "lane":
                self.at[c.lane] = ints.mul(ints.add(ints.mul(places[1], s.across), places[0]), s.vector)
            elif isinstance(what, Axis):
                each = s.along if what is c.along else s.rows
                self.at[what.loop] = ints.add(ints.mul(places[1], each * what.phases), places[0])
            else:
                self.at[what] = places[0]
        every = (c.image, c.weight, *c.contraction.extras, *(d.access for d in c.contraction.destinations))
        # Where the thread's first element of each tensor is, or would be.
        self.base = {at: ints.add(ints.dot([*self.at.values()], [at.strides[d] for d in self.at]), at.offset) for at in every}

    # What is inside of the image.

    def coordinate(self, axis: Axis, place: int | Integer) -> Integer:
        """Of the ``place``-th of the coordinates that the thread reads along an axis; it wraps below zero."""
        ints = self.ints
        first = ints.mul(self.at[axis.loop], axis.stride) if axis.loop in self.at else 0
        return ints.add(ints.add(first, ints.mul(place, axis.dilation)), -axis.low)

    def inside(self, axis: Axis | None, place: Integer) -> ir.Value | None:
        """Whether such a coordinate is inside; None where it always is."""
        if axis is None:
            return None
        last = axis.stride * (self.last(axis) if axis.loop is not None else 0) + axis.dilation * (self.reach(axis) - 1) - axis.low
        if axis.low <= 0 and bounds(axis.size - last)[0] > 0:
            return None
        return self.ints.less(self.coordinate(axis, place), axis.size)

    def last(self, axis: Axis) -> Int:
        """The largest number that a thread's first output along an axis has."""
        each = {id(self.c.along): self.s.along, id(self.c.down): self.s.rows}.get(id(axis), 1)
        return (ceildiv(self.c.outputs(axis), each) - 1) * each * axis.phases + axis.phases - 1

    def reach(self, axis: Axis) -> int:
        """Coordinates that a thread reads along an axis, one a dilation."""
        each = {id(self.c.along): self.s.along, id(self.c.down): self.s.rows + self.s.ages(self.c)}.get(id(axis), 1)
        return (each - 1) * axis.step + self.c.taps(axis)

    def inside_term(self, term: tuple[int, ...]) -> ir.Value | None:
        taps = dict(zip(self.c.further, term))
        further = [a for a in self.c.axes if a is not self.c.along and a is not self.c.down]
        return all_of(*(self.inside(a, taps.get(a.tap, 0)) for a in further))

    # Reading.

    def load_weights(self) -> list[list[list[ir.Value]]]:
        """By further term, row and column of the window, in float32."""
        c, at = self.c, self.c.weight
        base = self.base[at]

        def one(term: tuple[int, ...], r: int, x: int) -> ir.Value:
            plus = sum(n * at.strides[d] for n, d in zip(term, c.further))
            plus += sum(n * at.strides[a.tap] for n, a in ((r, c.down), (x, c.along)) if a is not None and a.tap is not None)
            return as_vector(widened(self.lanes(at, base, plus)), self.s.vector)

        return [[[one(t, r, x) for x in range(c.taps(c.along))] for r in range(c.taps(c.down))] for t in self.terms]

    def load_row(self, t: Integer) -> list[Row]:
        """The ``step`` rows that turn ``t`` adds, as far as windows reach into them."""
        return [self.load_one(t, q) for q in range(min(self.step, self.c.taps(self.c.down)))]

    def load_one(self, t: Integer, q: int) -> Row:
        c, ints, at = self.c, self.ints, self.c.image
        place = ints.add(ints.mul(t, self.step), q)
        row = self.inside(c.down, place) if c.down is not None else None
        begin, more = self.moved(self.base[at], ints.mul(place, self.unit(c.down)))
        found = []
        for term, further in zip(self.terms, self.inside_further):
            plus = more + sum(n * at.strides[d] for n, d in zip(term, c.further))
            found.append([
                self.where(all_of(row, further, column), at, begin, plus + x * self.unit(c.along)) for x, column in enumerate(self.inside_row)
            ])
        return found

    def moved(self, base: Integer, by: Integer) -> tuple[Integer, int]:
        """A place so far away, as one and a constant that is to be added."""
        near = constant(by) if isinstance(by, (int, Size)) else 0
        near = near if abs(near) < _NEAR else 0
        return self.ints.add(base, self.ints.sub(by, near)), near

    def unit(self, axis: Axis | None) -> Int:
        """Elements in memory between two coordinates that are a dilation apart."""
        if axis is None:
            return 0
        return self.c.image.strides[axis.tap] if axis.tap is not None else self.c.image.strides[axis.loop]

    def where(self, condition: ir.Value | None, at: Access, base: Integer, plus: Int) -> ir.Value:
        """Lanes where a condition holds, zeros where not."""
        if condition is None:
            return self.lanes(at, base, plus)
        type_ = at.element if self.step_of(at) == 0 else ir.VectorType.get([self.s.vector], at.element)
        return if_else(condition, [type_], lambda: [self.lanes(at, base, plus)], lambda: [splat(type_, 0)])[0]

    def step_of(self, at: Access) -> Int:
        return at.strides[self.c.lane] if self.c.lane is not None else 1

    def lanes(self, at: Access, base: Integer, plus: Int = 0) -> ir.Value:
        """A vector of the thread's lanes at a place; one element where they have it in common."""
        return self.read(at, base, plus, self.aligned(at, plus))

    def read(self, at: Access, base: Integer, plus: Int, aligned: int) -> ir.Value:
        """The same, of which every run of ``aligned`` is aligned."""
        ints, buffer, step, count = self.ints, self.buffers[at.argument], self.step_of(at), self.s.vector
        first = self.moved(base, plus)
        if step == 0:
            return load(ints, buffer, first[0], at.element, first[1])
        if step == 1 or count == 1:
            return load_vector(ints, buffer, first[0], at.element, count, aligned, first[1])
        places = [self.moved(base, plus + i * step) for i in range(count)]
        return join([load(ints, buffer, place, at.element, more) for place, more in places])

    def aligned(self, at: Access, plus: Int) -> int:
        """Lanes that are aligned together: all that the thread's place is made of are multiples of it."""
        found, strides = 1, [at.strides[d] for d in self.at if d != self.c.lane]
        strides += [self.unit(self.c.down)] if at is self.c.image else []
        while found < self.s.vector and all(is_multiple(n, 2 * found) for n in (at.offset + plus, *strides)):
            found *= 2
        return found

    # Going over the rows.

    def loop(self, begin: int, end: int, sums: Sums, row: list[Row] | None) -> tuple[Sums, list[Row] | None]:
        """The turns in which every age is of this thread."""
        carried = [x for age in sums[:-1] for x in age]
        loaded = [x for one in row for term in one for x in term] if row is not None else []
        ints = self.ints
        for_ = scf.ForOp(ints.value(begin), ints.value(end), ints.value(1), [*carried, *loaded])
        with ir.InsertionPoint(for_.body):
            sums, row = self.unpack(list(for_.inner_iter_args), row)
            sums, row = self.turn(for_.induction_variable, sums, row)
            scf.yield_([*(x for age in sums[:-1] for x in age), *([x for one in row for term in one for x in term] if row is not None else [])])
        return self.unpack(list(for_.results), row)

    def unpack(self, values: list[ir.Value], row: list[Row] | None) -> tuple[Sums, list[Row] | None]:
        rest = iter(values)
        sums = [[next(rest) for _ in range(self.s.along)] for _ in range(self.ages - 1)] + [[self.zero] * self.s.along]
        return sums, None if row is None else [[[next(rest) for _ in term] for term in one] for one in row]

    def turn(self, t: Integer, before: Sums, row: list[Row] | None, last: bool = False) -> tuple[Sums, list[Row] | None]:
        """Add the next rows to the sums of every age, and store those that are done."""
        c, s = self.c, self.s
        if not s.ahead:
            row = self.load_row(t)
        wide = [[[as_vector(widened(x), s.vector) for x in term] for term in one] for one in row]
        following = self.load_row(self.ints.add(t, 1)) if s.ahead and not last else None
        after = next_sums(c, wide, self.weights, before, self.zero, lambda age: not isinstance(t, int) or 0 <= t - age < s.rows)
        done = self.ints.sub(t, self.ages - 1)
        if not isinstance(t, int) or t >= self.ages - 1:
            for i, total in enumerate(after[-1]):
                self.finish(done, i, total)
        return after, following

    # Results.

    def keep(self) -> None:
        """Read what the epilogue needs once for all outputs."""
        moving = [a.loop for a in (self.c.down, self.c.along) if a is not None]
        for at in self.c.contraction.extras:
            if all(at.strides[d] == 0 for d in moving if d is not None):
                self.kept[at] = self.lanes(at, self.base[at])

    def finish(self, done: Integer, i: int, sums: ir.Value) -> None:
        """The epilogue of the ``i``-th output in a row, and the store."""
        c, s, ints = self.c, self.s, self.ints
        conditions = []
        for axis, each, place in ((c.down, s.rows, done), (c.along, s.along, i)):
            if axis is not None and axis.loop in self.at and not is_multiple(c.sizes[axis.loop], each * axis.phases):
                at = ints.add(self.at[axis.loop], ints.mul(place, axis.phases))
                conditions.append(ints.less(at, c.sizes[axis.loop]))
        with only_if(*conditions):
            self.put(done, i, sums)

    def put(self, done: Integer, i: int, sums: ir.Value) -> None:
        k, count = self.c.contraction, self.s.vector
        results: list[ir.Value] = []
        value = sums if count > 1 else lanes_of(sums)[0]
        if k.epilogue is not None:
            arguments = epilogue_arguments(k.epilogue, value, lambda at: self.scalar(self.extra(at, done, i)))
            results = inline_body(k.epilogue.block, arguments, (), count if count > 1 else 0)
        for d in k.destinations:
            result = value if d.source is None else results[d.source]
            base, plus = self.output(d.access, done, i)
            buffer, step = self.buffers[d.access.argument], self.step_of(d.access)
            if count == 1:
                store(self.ints, result, buffer, self.ints.add(base, plus))
            elif step == 1:
                base, near = self.moved(base, plus)
                store_vector(self.ints, as_vector(result, count), buffer, base, self.aligned_output(d.access), near)
            else:
                for lane, x in enumerate(lanes_of(as_vector(result, count))):
                    store(self.ints, x, buffer, self.ints.add(base, plus + lane * step))

    def scalar(self, value: ir.Value) -> ir.Value:
        return lanes_of(value)[0] if self.s.vector == 1 else value

    def extra(self, at: Access, done: Integer, i: int) -> ir.Value:
        if at in self.kept:
            return self.kept[at]
        return self.read(at, *self.output(at, done, i), self.aligned_output(at))

    def output(self, at: Access, done: Integer, i: int) -> tuple[Integer, Int]:
        """Where an output is in a tensor: a place and what is to be added to it."""
        base, plus, (down, along) = self.base[at], 0, (self.c.down, self.c.along)
        if down is not None and down.loop is not None:
            base, plus = self.moved(base, self.ints.mul(done, down.phases * at.strides[down.loop]))
        if along is not None and along.loop is not None:
            plus = plus + i * along.phases * at.strides[along.loop]
        return base, plus

    def aligned_output(self, at: Access) -> int:
        found = 1
        while found < 16 and all(is_multiple(n, 2 * found) for n in (at.offset, *(at.strides[d] for d in self.at if d != self.c.lane))):
            found *= 2
        return found
