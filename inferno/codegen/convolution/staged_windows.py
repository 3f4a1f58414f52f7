"""Depthwise convolutions on CUDA cores, for which the copy engine (TMA) brings the image's rows to shared memory.

The sums are those of ``windows``: a thread keeps the weights of its channels, walks down the image, and adds each row to all outputs that it is part of.
The rows come through a ring of slots, which one warp fills far ahead, from one tile to the next, so nobody waits for memory.  What is outside of the image
arrives as zeros.  Channels may be the neighbours in memory, of which a thread has one vector, or places, of which a thread reads and stores vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, splat
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.inline import epilogue_arguments, inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, launcher, scalar, tensor_map
from inferno.codegen.convolution.window_sums import Sums, next_sums, widened
from inferno.codegen.convolution.window_tensors import WindowTensors
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import TENSOR_MAP, Device, Words, device_kernel, device_module, elect, load_shared, loop, special_register, uniform
from inferno.codegen.nvvm.global_memory import Elements
from inferno.codegen.nvvm.mbarriers import Position, Ring
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm, scf
from inferno.passes.await_kernels import await_predecessors
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.convolution.staged_windows import StagedWindows, ahead, aligned, channel, dimensions, fits, outer, read
from inferno.schedule.convolution.window_kernel import WindowKernel
from inferno.symbolic import Int
from inferno.target import Target

_FEWEST_TURNS = 3  # that are worth a loop


def generate(kernel: func.FuncOp, schedule: StagedWindows, target: Target) -> None:
    """Add the ``gpu.module`` of a depthwise convolution and make ``kernel`` its launcher."""
    c, s, name = read(kernel, target), schedule, kernel.name.value
    if c is None or not fits(s, c):
        raise CompileError(f"@{name} is not a depthwise convolution that {s} computes")
    if c.contraction.epilogue is not None:
        expand_math(c.contraction.epilogue.generic)
    tensors = WindowTensors.of((c.weight, *c.contraction.extras), (d.access for d in c.contraction.destinations))
    workers, symbols = s.workers(c, target), symbol_arguments(kernel.operation)
    numbers = {symbol: value.arg_number for symbol, value in symbols.items()}
    parameters = [TENSOR_MAP, *tensors.parameters, *["i64"] * len(numbers)]
    with device_module(kernel) as module, device_kernel(module, name, parameters, s.threads, 1, True, s.resident) as device:
        words = Words({})
        words.take(list(numbers), device.parameters[1 + len(tensors.types):])
        _Emitter(c, s, words, device, tensors.elements(words, device.parameters[1:]), workers).emit()
    with launcher(kernel) as arguments:
        width, dims = element_bytes(c.image.element), dimensions(c)
        box = [s.chunk, s.pitch(c), s.box_rows(c)] if c.side_by_side else [s.pitch(c), s.box_rows(c), s.chunk]
        whole = not c.side_by_side or s.chunk == c.sizes[channel(c)]  # lines of memory that no other block reads
        sizes: list[Int] = [n for n, _ in dims]
        if c.images is not None:
            sizes[-1] = c.images
        map_ = tensor_map(
            arguments[c.image.argument], sizes=sizes, strides=[x * width for _, x in dims], box=[*box, *[1] * (len(dims) - 3)],
            element=str(c.image.element), swizzle=0, l2=256 if whole else 128 if s.chunk * width % 128 == 0 else 64,
        )
        given = [map_, *tensors.given(arguments), *(scalar(arguments[n]) for n in numbers.values())]
        launch(f"{name}_gpu", name, given, (s.chunks(c) * workers, 1, 1), (s.threads, 1, 1), shared=s.shared(c))


@dataclass
class _Emitter:
    c: WindowKernel
    s: StagedWindows
    words: Words
    device: Device
    tensors: dict[int, Elements]
    workers: int
    kept: dict[Access, ir.Value] = field(default_factory=dict)  # what the epilogue reads that is the same for all outputs of a thread

    def emit(self) -> None:
        c, s, words = self.c, self.s, self.words
        self.map = self.device.parameters[0]
        self.width, self.step = element_bytes(c.image.element), s.rows_of_turn(c)
        thread, block = special_register("tid.x"), special_register("ctaid.x")
        warp = uniform(words, words.shr(thread, 5))
        self.chunk, self.worker = words.mul(words.rem(block, s.chunks(c)), s.chunk), words.div(block, s.chunks(c))
        barriers = words.add(self.device.shared, s.stages * s.boxes(c) * s.box_bytes(c))
        self.ring = Ring(words, barriers, s.stages, s.consumers // 32)
        with only_if(words.equal(thread, 0)):
            tma.prefetch(self.map)
            self.ring.initialize()
            nvvm.FenceMbarrierInitOp()
        nvvm.BarrierOp()
        await_predecessors()
        role = scf.IfOp(words.equal(warp, 0), has_else=True)
        with ir.InsertionPoint(role.then_block):
            with only_if(elect()):
                self.produce()
            scf.yield_([])
        with ir.InsertionPoint(role.else_block):
            self.consume(words.sub(thread, 32))
            scf.yield_([])

    def first(self, number: Integer) -> dict[int, Integer]:
        """The first output of a tile, by loop."""
        c, s, words = self.c, self.s, self.words
        around = outer(c)
        *others, floor, span = words.split(number, [*(c.sizes[d] for d in reversed(around)), s.floors(c), s.spans(c)])
        at = dict(zip(reversed(around), others))
        return at | {c.down.loop: words.mul(floor, s.height), c.along.loop: words.mul(span, s.along * s.runs)}

    # Copies.

    def produce(self) -> None:
        c, s, words = self.c, self.s, self.words

        def tile(number: ir.Value, *position: ir.Value) -> Sequence[ir.Value]:
            at = self.first(number)
            column = words.add(words.mul(at[c.along.loop], c.along.stride), -c.along.low - ahead(c))
            begin = words.add(words.mul(at[c.down.loop], c.down.stride), -c.down.low)
            images = [at[d] for d in outer(c)]

            def turn(t: Integer, *position: ir.Value) -> Sequence[ir.Value]:
                place = Position(*position)
                self.ring.acquire(place)
                self.ring.full.expect(place.slot, s.boxes(c) * s.copied(c))
                for q in range(s.boxes(c)):
                    row = words.add(words.add(begin, words.mul(t, c.down.step)), q)
                    where = [self.chunk, column, row] if c.side_by_side else [column, row, self.chunk]
                    tma.load_box(words, self.map, [*where, *images], self.slot(place.slot, q), self.ring.full.at(place.slot))
                return self.ring.next(place).values

            return turn(0, *position) if s.strips else loop(words, 0, s.turns(c), 1, position, turn)

        loop(words, self.worker, s.total(c), self.workers, self.ring.start().values, tile)

    def slot(self, number: Integer, box: int) -> Integer:
        words, each = self.words, self.s.box_bytes(self.c)
        return words.add(words.add(self.device.shared, words.mul(number, self.s.boxes(self.c) * each)), box * each)

    # Sums.

    def consume(self, member: Integer) -> None:
        c, s, words = self.c, self.s, self.words
        member_in = words.less(member, s.members) if s.members < s.consumers else None
        member_at = words.min(member, s.members - 1) if member_in is not None else member  # who has nothing to do does what the last one does
        down = [s.strips] if s.strips else []
        if c.side_by_side:
            *strip, run, lane = words.split(member_at, [*down, s.runs, s.lanes])
        else:
            lane, *strip, run = words.split(member_at, [s.lanes, *down, s.runs])
        self.lane = words.rem(member, 32)
        self.channel = words.add(self.chunk, words.mul(lane, s.vector))
        self.run, self.strip = words.mul(run, s.along), words.mul(strip[0], s.rows) if strip else 0
        # Elements in shared memory between channels, places and rows.
        inner, outside, below = (1, s.chunk, s.chunk * s.pitch(c)) if c.side_by_side else (s.pitch(c) * s.box_rows(c), 1, s.pitch(c))
        begin = words.dot([lane, self.run, self.strip], [s.vector * inner, c.along.step * outside, c.down.step * below])
        self.begin, self.between, self.down = words.mul(begin, self.width), outside * self.width, below * self.width
        self.zero = splat(ir.VectorType.get([s.vector], ir.F32Type.get()), 0)
        self.weights = self.load_weights()
        self.keep()

        def tile(number: ir.Value, *position: ir.Value) -> Sequence[ir.Value]:
            at = self.first(number)
            at = {**at, channel(c): self.channel, c.along.loop: words.add(at[c.along.loop], self.run), c.down.loop: words.add(at[c.down.loop], self.strip)}
            inside = [member_in] if member_in is not None else []
            if c.outputs(c.along) % (s.along * s.runs):
                inside.append(words.less(at[c.along.loop], c.outputs(c.along)))
            place = Position(*position)
            if not s.strips:
                return self.tile(at, inside, place).values
            self.ring.await_full(place)
            self.tile(at, inside, place)
            self.release(place)
            return self.ring.next(place).values

        loop(words, self.worker, s.total(c), self.workers, self.ring.start().values, tile)

    def tile(self, at: dict[int, Integer], inside: list[ir.Value], place: Position) -> Position:
        s, words, ages = self.s, self.words, self.s.ages(self.c)
        sums: Sums = [[self.zero] * s.along for _ in range(ages)]
        turns, first, t = s.turns(self.c), ages - 1, 0
        while t < turns:
            if t != first or s.rows - first < _FEWEST_TURNS:
                sums, place = self.turn(t, sums, place, at, inside)
                t += 1
                continue

            def turn(t: ir.Value, slot: ir.Value, parity: ir.Value, *carried: ir.Value) -> Sequence[ir.Value]:
                rest = iter(carried)
                before = [[next(rest) for _ in range(s.along)] for _ in range(ages - 1)]
                after, place = self.turn(t, [*before, [self.zero] * s.along], Position(slot, parity), at, inside)
                return [*place.values, *(x for age in after[:-1] for x in age)]

            carried = [x for age in sums[:-1] for x in age]
            slot, parity, *left = loop(words, first, s.rows, 1, [*place.values, *carried], turn)
            rest, place = iter(left), Position(slot, parity)
            sums = [*([next(rest) for _ in range(s.along)] for _ in range(ages - 1)), [self.zero] * s.along]
            t = s.rows
        return place

    def turn(self, t: Integer, sums: Sums, place: Position, at: dict[int, Integer], inside: list[ir.Value]) -> tuple[Sums, Position]:
        """Add the next rows to the sums of every age, and store those that are done."""
        c, s, words, ages = self.c, self.s, self.words, len(sums)
        if s.strips:
            base = words.add(self.slot(place.slot, 0), words.mul(t, c.down.step * self.down))
            raw = [self.load_row(words.add(base, q * self.down)) for q in range(self.step)]
        else:
            self.ring.await_full(place)
            raw = [self.load_row(self.slot(place.slot, q)) for q in range(self.step)]
        wide = [[[as_vector(x, s.vector) for part in row for x in self.parts(widened(part))]] for row in raw]
        after = next_sums(c, wide, self.weights, sums, self.zero, lambda age: not isinstance(t, int) or 0 <= t - age < s.rows)
        if not s.strips:  # behind the sums: the fence waits for stores, too, of which those of the turn before are done by now
            self.release(place)
        if not isinstance(t, int) or t >= ages - 1:
            self.finish(words.sub(t, ages - 1), after[-1], at, inside)
        return after, place if s.strips else self.ring.next(place)

    def release(self, place: Position) -> None:
        """The warp has read what it needs of a slot."""
        tma.fence_shared()
        nvvm.SyncWarpOp(self.words.value(-1))
        self.ring.release(place.slot, self.lane)

    def parts(self, value: ir.Value) -> list[ir.Value]:
        """Of what was read the columns."""
        return [value] if self.c.side_by_side else lanes_of(value)

    def load_row(self, base: Integer) -> list[ir.Value]:
        """A vector of channels for each column, or vectors of columns."""
        c, s, words, element = self.c, self.s, self.words, self.c.image.element
        begin, columns = words.add(base, self.begin), s.columns(c)
        if c.side_by_side:
            return [load_shared(words, words.add(begin, x * self.between), element, s.vector) for x in range(columns)]
        found, x, end, most = [], ahead(c), ahead(c) + columns, aligned(c)
        while s.along * c.along.step % most:
            most //= 2
        while x < end:
            count = most
            while count > end - x or x % count:
                count //= 2
            found.append(load_shared(words, words.add(begin, x * self.width), element, count))
            x += count
        return found

    def load_weights(self) -> list[list[list[ir.Value]]]:
        """By row and column of the window, in float32."""
        c, s, at = self.c, self.s, self.c.weight
        base, step = self.words.add(self.words.mul(self.channel, at.strides[channel(c)]), at.offset), at.strides[channel(c)]

        def one(r: int, x: int) -> ir.Value:
            plus = sum(n * at.strides[a.tap] for n, a in ((r, c.down), (x, c.along)) if a.tap is not None)
            tensor = self.tensors[at.argument]
            return as_vector(widened(join([tensor.read(base, plus + i * step) for i in range(s.vector)])), s.vector)

        return [[[one(r, x) for x in range(c.taps(c.along))] for r in range(c.taps(c.down))]]

    # Results.

    @property
    def count(self) -> int:
        """Lanes of the vectors of results: channels, or places."""
        return self.s.vector if self.c.side_by_side else self.s.along

    @property
    def innermost(self) -> int:
        """The loop that those lanes are along."""
        return channel(self.c) if self.c.side_by_side else self.c.along.loop

    def keep(self) -> None:
        """Read what the epilogue needs once for all outputs."""
        for access in self.c.contraction.extras:
            if all(n == 0 for d, n in enumerate(access.strides) if d != channel(self.c)):
                self.kept[access] = self.extra(access, {channel(self.c): self.channel})

    def finish(self, done: Integer, sums: list[ir.Value], at: dict[int, Integer], inside: list[ir.Value]) -> None:
        """The epilogue of the outputs of a row, and the stores."""
        c, s, words = self.c, self.s, self.words
        row, conditions = words.add(at[c.down.loop], done), list(inside)
        if c.outputs(c.down) % s.height:
            conditions.append(words.less(row, c.outputs(c.down)))
        at = {**at, c.down.loop: row}
        vectors = sums if c.side_by_side else [join([lanes_of(x)[0] for x in sums])]

        def put(i: int, value: ir.Value) -> None:
            if c.side_by_side and c.outputs(c.along) % s.along:
                with only_if(words.less(words.add(at[c.along.loop], i), c.outputs(c.along))):
                    self.put(at, i, value)
            else:
                self.put(at, i, value)

        if not conditions:
            for i, value in enumerate(vectors):
                put(i, value)
            return
        every = conditions[0]
        for x in conditions[1:]:
            every = arith.andi(every, x)
        with only_if(every):
            for i, value in enumerate(vectors):
                put(i, value)

    def put(self, at: dict[int, Integer], i: int, value: ir.Value) -> None:
        """The epilogue of the ``i``-th vector of a row."""
        k, count = self.c.contraction, self.count
        value = value if count > 1 else lanes_of(value)[0]
        results: list[ir.Value] = []
        if k.epilogue is not None:
            def read_extra(access: Access) -> ir.Value:
                found = self.kept[access] if access in self.kept else self.extra(access, at, i)
                return found if count > 1 else lanes_of(found)[0]

            results = inline_body(k.epilogue.block, epilogue_arguments(k.epilogue, value, read_extra), (), count if count > 1 else 0)
        for d in k.destinations:
            result = as_vector(value if d.source is None else results[d.source], count)
            tensor, step = self.tensors[d.access.argument], d.access.strides[self.innermost]
            offset, plus = self.offset(d.access, at), i * d.access.strides[self.c.along.loop]
            if step == 1:
                tensor.write(result, offset, plus, self.aligned(d.access))
            else:
                for lane, x in enumerate(lanes_of(result)):
                    tensor.write(x, offset, plus + lane * step)

    def extra(self, access: Access, at: dict[int, Integer], i: int = 0) -> ir.Value:
        """What the epilogue reads of another tensor: a vector, or one element for all lanes."""
        tensor, step = self.tensors[access.argument], access.strides[self.innermost]
        offset, plus = self.offset(access, at), i * access.strides[self.c.along.loop]
        if step == 0:
            return tensor.read(offset, plus)
        if step == 1:
            return tensor.read(offset, plus, self.count, self.aligned(access))
        return join([tensor.read(offset, plus + lane * step) for lane in range(self.count)])

    def offset(self, access: Access, at: dict[int, Integer]) -> Integer:
        return self.words.dot(list(at.values()), [access.strides[d] for d in at], access.offset)

    def aligned(self, access: Access) -> int:
        """Lanes that are aligned together."""
        strides = [n for d, n in enumerate(access.strides) if d != self.innermost]
        return next(n for n in (8, 4, 2, 1) if self.count % n == 0 and all(x % n == 0 for x in (access.offset, *strides)))
