"""Recurrences in one launch: blocks keep their weights in registers or shared memory for all steps, and exchange the new state in each of them.

A step of a block: threads multiply the state's rows, in shared memory, with their columns, each along a part of the terms; lanes and then warps bring
sums together; threads that have an element of the states each compute its new ones, and leave what products read in words that all blocks wait for
(``marked_words.py``).  What a step reads of other tensors is on its way while it waits for the step before.

Blocks wait for each other, so all have to run at once: the launch is a cooperative one.  A block waits for words of the step before alone, which others
leave without waiting for anything later.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import join, lanes_of, load, load_vector, splat, store
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import Buffer, device_module_of, gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.nvvm.builder import Words, load_shared, shared_pointer
from inferno.codegen.nvvm.builder import store as store_shared
from inferno.codegen.nvvm.marked_words import MarkedWords, add_marking, launch_marked
from inferno.codegen.nvvm.shuffles import exchange
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, math, scf
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.recurrence.kernel import Recurrence as Kernel
from inferno.schedule.recurrence.recurrence import ALONG, LANES, Recurrence, read
from inferno.target import WARP, Target


def generate(kernel: func.FuncOp, schedule: Recurrence, target: Target) -> None:
    """Add the ``gpu.module`` of recurrences, each of which has blocks of its own, and make ``kernel`` its launcher."""
    parts, s, name = read(kernel, target), schedule, kernel.name.value
    if not s.fits(parts, target):
        raise CompileError(f"@{name}: {s} does not fit " + (" and ".join(f"{c.rows} rows of {c.units} units" for c in parts) or "it"))
    for c in parts:
        expand_math(c.map.generic)
    buffers = parameters_of(kernel, {h.argument for c in parts for h in c.histories})
    words, threads, shared = [s.words(c) for c in parts], s.threads(parts[0]), max(map(s.shared_bytes, parts))
    width = index_width(buffers, 2 * sum(words))
    marks, blocks = Buffer(ir.IntegerType.get_signless(32), sum(words), False), [prod(s.blocks(c)) for c in parts]
    with gpu_function(kernel, [*buffers, marks], threads, (), 1, dynamic=True) as function:
        ints = integers_for(kernel, width, function.buffers)
        block = ints.block()
        _emit_parts(ints, parts, s, function.buffers, function.dynamic, block, blocks, words)
    device = device_module_of(kernel)
    add_marking(device, f"{name}_mark", sum(words))
    with launcher(kernel) as arguments:
        memory = launch_marked(f"{name}_gpu", f"{name}_mark", sum(words))
        launch(f"{name}_gpu", name, [*map(parameter, arguments), memory], (sum(blocks), 1, 1), (threads, 1, 1), shared=shared, cooperative=True)


def _emit_parts(
    ints: Integers, parts: Sequence[Kernel], s: Recurrence, buffers: list[ir.Value], shared: ir.Value, block: ir.Value, blocks: Sequence[int],
    words: Sequence[int],
) -> None:
    """The first part by the first blocks, and the others by those behind them."""

    def emit(first: int) -> None:
        own = ints.sub(block, sum(blocks[:first]))
        emitter = lambda: _Emitter(ints, parts[first], s, buffers, shared, own, sum(words[:first])).emit()  # noqa: E731
        if first == len(parts) - 1:
            emitter()
            return
        if_else(ints.less(own, blocks[first]), [], emitter, lambda: emit(first + 1))

    emit(0)


@dataclass(frozen=True)
class _Own:
    """An element of the states that a thread has: its row in the block, its unit, both in the whole, clamped, and whether there is one."""

    row: Integer
    unit: Integer
    at: tuple[Integer, Integer]
    inside: ir.Value


@dataclass
class _Emitter:
    ints: Integers
    c: Kernel
    s: Recurrence
    buffers: list[ir.Value]
    shared: ir.Value
    block: Integer
    first_word: int
    words: Words = field(default_factory=Words)

    def emit(self) -> None:
        ints, c, s = self.ints, self.c, self.s
        self.threads, self.line = s.threads(c), s.line(c)
        self.padded = -(-s.rows // s.each) * s.each
        self.thread = ints.thread(self.threads)
        groups, _ = s.blocks(c)
        self.first_row, self.first_unit = ints.mul(ints.rem(self.block, groups), s.rows), ints.mul(ints.div(self.block, groups), s.units)
        self.rows = s.rows if c.rows % s.rows == 0 else ints.min(s.rows, ints.sub(c.rows, self.first_row))
        warp, lane = ints.div(self.thread, WARP), ints.rem(self.thread, WARP)
        self.split, self.lane = ints.rem(warp, s.split), lane
        self.along = ints.rem(lane, ALONG)
        self.column = ints.mul(ints.add(ints.mul(ints.div(warp, s.split), WARP // ALONG), ints.div(lane, ALONG)), s.columns)
        self.marked = MarkedWords(ints, self.buffers[-1])
        self.owned = [self.own(n) for n in range(-(-s.rows * s.units // self.threads))]
        self.weights = self.take_weights()
        self.begin_state()
        extras = list(dict.fromkeys(a for a in c.map.sources if a is not None and 0 <= a.argument < c.first))
        self.moving, self.fixed = [a for a in extras if a in c.strides], [a for a in extras if a not in c.strides]
        known = [{a: self.read(a, own) for a in self.fixed} for own in self.owned]
        states = [[splat(e, 0) if a is None else self.read(a, own) for a, e in zip(c.initial, c.elements)] for own in self.owned]
        for own, values in zip(self.owned, states):
            self.write(own, values, None)
        carried = [*(v for values in states for v in values), *(self.read(a, own) for own in self.owned for a in self.moving)]
        gpu.barrier()
        op = scf.ForOp(ints.value(0), ints.value(c.steps), ints.value(1), carried)
        with ir.InsertionPoint(op.body):
            scf.yield_(self.step(op.induction_variable, list(op.inner_iter_args), known))

    # What a thread has for all steps.

    def own(self, number: int) -> _Own:
        ints, c, s = self.ints, self.c, self.s
        place = ints.add(self.thread, number * self.threads)
        row, unit = ints.div(place, s.units), ints.rem(place, s.units)
        m, j = ints.add(self.first_row, row), ints.add(self.first_unit, unit)
        inside = arith.andi(ints.less(row, self.rows), ints.less(j, c.units))
        return _Own(ints.min(row, s.rows - 1), unit, (ints.min(m, c.rows - 1), ints.min(j, c.units - 1)), inside)

    def take_weights(self) -> dict[tuple[int, int], ir.Value | Integer]:
        """By column of the thread and vector along the terms, in registers; or where they are in shared memory, which only the thread itself looks at."""
        s, words, found = self.s, self.words, {}
        begin = 4 * (self.padded * self.line + s.parts(self.c))
        own = words.add(self.shared, words.mul(self.word(self.thread), 16))
        for chunk in range(s.chunks(self.c)):
            for i in range(s.columns):
                value = self.weight(i, chunk)
                if not s.held:
                    place = words.add(own, begin + 16 * self.threads * (chunk * s.columns + i))
                    store_shared(value, shared_pointer(words, place), 16)
                    value = place
                found[i, chunk] = value
        return found

    def weight(self, i: int, chunk: int) -> ir.Value:
        """A vector of a column's terms, as floats, and zeros behind the last one."""
        ints, c, products = self.ints, self.c, len(self.c.weights)
        column = ints.add(self.column, i)
        unit = ints.min(ints.add(self.first_unit, ints.div(column, products)), c.units - 1)
        number = ints.rem(column, products)
        term = self.term(chunk)
        alike: dict[tuple, list[int]] = {}
        for n, a in enumerate(c.weights):
            alike.setdefault((a.argument, a.strides), []).append(n)
        value = None
        for numbers in alike.values():
            first = c.weights[numbers[0]]
            offset: Integer = first.offset
            for n in numbers[1:]:
                offset = arith.select(ints.equal(number, n), ints.value(c.weights[n].offset), ints.value(offset))
            own = self.terms(first, ints.add(offset, ints.mul(unit, first.strides[1])), term, all(c.weights[n].offset % LANES == 0 for n in numbers))
            if value is None:
                value = own
                continue
            for n in numbers:
                value = arith.select(ints.equal(number, n), own, value)
        return value

    def terms(self, a: Access, offset: Integer, term: Integer, aligned: bool) -> ir.Value:
        ints, c, f32 = self.ints, self.c, ir.F32Type.get()
        type_ = ir.VectorType.get([LANES], f32)
        if a.strides[2] == 1 and c.units % LANES == 0:
            aligned = aligned and a.strides[1] % LANES == 0
            at = ints.min(term, c.units - LANES)
            value = load_vector(ints, self.buffers[a.argument], ints.add(offset, at), a.element, LANES, LANES if aligned else 1)
            value = value if value.type == type_ else arith.extf(type_, value)
            return value if self.line == c.units else arith.select(ints.less(term, c.units), value, splat(type_, 0))
        lanes = []
        for lane in range(LANES):
            at = ints.add(term, lane)
            value = load(ints, self.buffers[a.argument], ints.add(offset, ints.mul(ints.min(at, c.units - 1), a.strides[2])), a.element)
            value = value if value.type == f32 else arith.extf(f32, value)
            lanes.append(value if self.line == c.units else arith.select(ints.less(at, c.units), value, splat(f32, 0)))
        return join(lanes)

    def term(self, chunk: int) -> Integer:
        """The first one of this thread's vector."""
        ints, s = self.ints, self.s
        return ints.mul(ints.add(ints.mul(ints.add(chunk * s.split, self.split), ALONG), self.along), LANES)

    # The state that products read.

    def begin_state(self) -> None:
        """The initial one, among zeros."""
        ints, c, words = self.ints, self.c, self.words
        a, f32 = c.initial[c.product], ir.F32Type.get()
        if a is None or self.padded * self.line > self.s.rows * c.units or c.rows % self.s.rows:
            count, type_ = self.padded * self.line // LANES, ir.VectorType.get([LANES], ir.F32Type.get())
            for n in range(-(-count // self.threads)):
                place = ints.add(self.thread, n * self.threads)
                with only_if(ints.less(place, count)):
                    store_shared(splat(type_, 0), shared_pointer(words, words.add(self.shared, words.mul(self.word(place), 4 * LANES))), 4 * LANES)
            gpu.barrier()
        if a is None:
            return

        def initial(row: Integer, unit: Integer) -> ir.Value:
            lanes = []
            for lane in range(self.vector):
                at = [ints.add(self.first_row, row), ints.add(unit, lane)]
                value = load(ints, self.buffers[a.argument], ints.dot(at, a.strides, a.offset), a.element)
                lanes.append(value if value.type == f32 else arith.extf(f32, value))
            return join(lanes)

        for row, unit, inside in self.places():
            self.keep(row, unit, inside, initial(row, unit))

    @property
    def vector(self) -> int:
        """Neighbours of a row that a thread brings together."""
        return next(n for n in (4, 2, 1) if self.c.units % n == 0)

    def places(self) -> list[tuple[Integer, Integer, ir.Value]]:
        """The vectors that this thread brings: row and unit, and whether there is one; clamped."""
        ints, c, found = self.ints, self.c, []
        each = c.units // self.vector
        count = ints.mul(self.rows, each)
        for n in range(-(-self.s.rows * each // self.threads)):
            place = ints.add(self.thread, n * self.threads)
            inside, place = ints.less(place, count), ints.min(place, ints.sub(count, 1))
            found.append((ints.div(place, each), ints.mul(ints.rem(place, each), self.vector), inside))
        return found

    def keep(self, row: Integer, unit: Integer, inside: ir.Value, value: ir.Value) -> None:
        """In shared memory."""
        words = self.words
        place = words.add(self.shared, words.mul(self.word(self.ints.add(self.ints.mul(row, self.line), unit)), 4))
        with only_if(inside):
            store_shared(value if self.vector > 1 else lanes_of(value)[0], shared_pointer(words, place), 4 * self.vector)

    def bring(self, step: Integer) -> None:
        """What all blocks made in a step, for the next one."""
        ints, c = self.ints, self.c
        places = self.places()
        begin = ints.add(ints.add(ints.mul(step, c.rows * c.units), ints.mul(self.first_row, c.units)), self.first_word)
        at = [ints.add(begin, ints.add(ints.mul(row, c.units), unit)) for row, unit, _ in places]
        for (row, unit, inside), value in zip(places, self.marked.wait(at, self.vector)):
            self.keep(row, unit, inside, value)

    # A step.

    def step(self, step: ir.Value, carried: list[ir.Value], known: list[dict[Access, ir.Value]]) -> list[ir.Value]:
        ints, c, count = self.ints, self.c, len(self.c.initial)
        states = [carried[n * count:(n + 1) * count] for n in range(len(self.owned))]
        read = carried[len(self.owned) * count:]
        following = ints.add(step, 1)
        later = ints.min(following, c.steps - 1)
        ahead = [self.read(a, own, later) for own in self.owned for a in self.moving]
        for first in range(0, self.padded, self.s.each):
            self.multiply(first)
        gpu.barrier()
        last = ints.less(following, c.steps)
        made = []
        for n, (own, old) in enumerate(zip(self.owned, states)):
            values = known[n] | dict(zip(self.moving, read[n * len(self.moving):]))
            new = self.compute(own, old, values)
            with only_if(arith.andi(own.inside, last)):
                word = new[c.product]
                word = word if word.type == ir.F32Type.get() else arith.extf(ir.F32Type.get(), word)
                at = ints.add(ints.mul(own.at[0], c.units), own.at[1])
                self.marked.put(ints.add(ints.add(ints.mul(step, c.rows * c.units), at), self.first_word), word)
            self.write(own, new, step)
            made += new
        with only_if(last):
            self.bring(step)
        gpu.barrier()
        return [*made, *ahead]

    def multiply(self, first: int) -> None:
        """The sums of some rows, as far as this warp has the terms, in shared memory."""
        s, c, words = self.s, self.c, self.words
        zero = splat(ir.F32Type.get(), 0)
        sums = [zero] * (s.each * s.columns)
        for chunk in range(s.chunks(c)):
            term = words.mul(self.word(self.term(chunk)), 4)
            weights = [self.weights[i, chunk] for i in range(s.columns)]
            if not s.held:
                weights = [load_shared(words, w, ir.F32Type.get(), LANES) for w in weights]
            weights = [lanes_of(w) for w in weights]
            for row in range(s.each):
                place = words.add(words.add(self.shared, term), 4 * self.line * (first + row))
                for lane, x in enumerate(lanes_of(load_shared(words, place, ir.F32Type.get(), LANES))):
                    for i in range(s.columns):
                        sums[row * s.columns + i] = math.fma(x, weights[i][lane], sums[row * s.columns + i])
        self.leave(first, sums)

    def leave(self, first: int, sums: list[ir.Value]) -> None:
        """Bring the lanes' sums of a column together, of which each then has some, and leave these."""
        ints, s, words = self.ints, self.s, self.words
        number: Integer = 0
        writes = None
        distance = ALONG // 2
        while distance:
            high = ints.equal(ints.rem(ints.div(self.lane, distance), 2), 1)
            if len(sums) % 2 == 0:
                half = len(sums) // 2
                pairs = list(zip(sums[:half], sums[half:]))
                sums = [arith.addf(arith.select(high, b, a), exchange(arith.select(high, a, b), distance)) for a, b in pairs]
                number = ints.add(number, arith.select(high, ints.value(half), ints.value(0)))
            else:
                sums = [arith.addf(x, exchange(x, distance)) for x in sums]
                low = ints.equal(ints.rem(ints.div(self.lane, distance), 2), 0)
                writes = low if writes is None else arith.andi(writes, low)
            distance //= 2
        with only_if(writes if writes is not None else arith.constant(ir.IntegerType.get_signless(1), 1)):
            for n, x in enumerate(sums):
                place = ints.add(number, n)
                row, i = ints.div(place, s.columns), ints.rem(place, s.columns)
                line = ints.add(ints.add(ints.mul(self.split, self.padded), first), row)
                at = ints.add(ints.mul(line, s.width(self.c)), ints.add(self.column, i))
                address = words.add(words.add(self.shared, words.mul(self.word(at), 4)), 4 * self.padded * self.line)
                store_shared(x, shared_pointer(words, address), 4)

    def totals(self, own: _Own) -> list[ir.Value]:
        """The sums of all products of an element."""
        ints, s, words, products = self.ints, self.s, self.words, len(self.c.weights)
        together = products if products in (1, 2, 4) else 1
        totals: list[ir.Value] = []
        for first in range(0, products, together):
            at = ints.add(ints.mul(own.row, s.width(self.c)), ints.add(ints.mul(own.unit, products), first))
            address = words.add(words.add(self.shared, words.mul(self.word(at), 4)), 4 * self.padded * self.line)
            parts = [
                load_shared(words, words.add(address, 4 * w * self.padded * s.width(self.c)), ir.F32Type.get(), together) for w in range(s.split)
            ]
            while len(parts) > 1:
                parts = [arith.addf(a, b) for a, b in zip(parts[::2], parts[1::2])]
            totals += lanes_of(parts[0])
        return totals

    def compute(self, own: _Own, states: list[ir.Value], values: dict[Access, ir.Value]) -> list[ir.Value]:
        """The new states of an element."""
        totals, arguments = self.totals(own), []
        for a in self.c.map.sources:
            if a is None:
                arguments.append(arith.constant(ir.IntegerType.get_signless(1), 0))
            elif a.argument < 0:
                arguments.append(totals[-1 - a.argument])
            else:
                number = self.c.state(a)
                arguments.append(values[a] if number is None else states[number])
        return inline_body(self.c.map.block, arguments)

    # Elements in memory.

    def read(self, a: Access, own: _Own, step: Integer = 0) -> ir.Value:
        """Of a tensor, in a step."""
        ints = self.ints
        at = ints.dot(list(own.at), a.strides, a.offset)
        return load(ints, self.buffers[a.argument], ints.add(at, ints.mul(step, self.c.strides.get(a, 0))), a.element)

    def write(self, own: _Own, states: list[ir.Value], step: Integer | None) -> None:
        """To the histories of the states: a step's, or the initial ones."""
        ints, c = self.ints, self.c
        with only_if(own.inside):
            for h in c.histories:
                if step is None and not h.order.initial:
                    continue
                slot: Integer = h.order.place(-1, c.steps)
                if step is not None:
                    slot = ints.sub(c.steps - 1, step) if h.order.backwards else ints.add(step, int(h.order.initial))
                at = ints.add(ints.mul(own.at[0], c.units), own.at[1])
                store(ints, states[h.state], self.buffers[h.argument], ints.add(ints.mul(slot, c.rows * c.units), at))

    def word(self, x: Integer) -> Integer:
        """As 32 bits."""
        return x if isinstance(x, int) or x.type == self.words.type else arith.trunci(self.words.type, x)
