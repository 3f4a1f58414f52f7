"""Convolutions in groups on tensor cores: mma.sync on the places of an image where they lie in shared memory.

Asynchronous copies bring a tile of the image, with zeros for what is outside of it, and the weights of the block's features.  A row of the left factor
is an output: a lane of ldmatrix gives the address of its window's first tap, to which each tap and piece of channels adds a constant, so that there is
no address arithmetic between the products.  A step takes two pieces of eight channels, of one tap or of two; where their number is odd the last one is
with a piece of zeros, on both sides.  Sums go through shared memory, warp by warp, to be stored by vectors of features.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from inferno.codegen.builders.conditions import all_of, only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, launcher
from inferno.codegen.convolution.group_sums import exact_sums
from inferno.codegen.convolution.vector_results import VECTOR, VectorResults
from inferno.codegen.convolution.window_tensors import WindowTensors
from inferno.codegen.matmul.mma_tile import Lane, Multiplier
from inferno.codegen.nvvm.builder import (
    Device, Words, device_kernel, device_module, integer_type, load_shared, loop, shared_pointer, special_register, store, widen_pointer,
)
from inferno.codegen.nvvm.global_memory import Elements
from inferno.codegen.nvvm.tensor_core import load_matrices
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm, scf
from inferno.passes.generics import float32
from inferno.schedule.convolution.group_tile import BYTES, Side
from inferno.schedule.convolution.group_windows import PIECE, ROWS, GroupKernel, GroupWindows, fits, read
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: GroupWindows, target: Target) -> None:
    """Add the ``gpu.module`` of a convolution in groups and make ``kernel`` its launcher."""
    k, name = read(kernel, target), kernel.name.value
    if k is None or not fits(schedule, k, target):
        raise CompileError(f"@{name} is not a convolution in groups that {schedule} computes")
    c = k.window
    if c.contraction.epilogue is not None:
        expand_math(c.contraction.epilogue.generic)
    tensors = WindowTensors.of((c.image, c.weight, *c.contraction.extras), (d.access for d in c.contraction.destinations))
    with device_module(kernel) as module, device_kernel(module, name, tensors.parameters, schedule.threads, shared=True) as device:
        words = Words({})
        _Emitter(k, schedule, words, device, tensors.elements(words, device.parameters)).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, tensors.given(arguments), (prod(schedule.grid(k)), 1, 1), (schedule.threads, 1, 1), shared=sum(schedule.regions(k)))


@dataclass
class _Rows:
    """What a warp's lanes read of one tile of outputs: by how far the second piece of a step is from the first, this lane's address where the turn begins."""

    first: Integer
    by_jump: dict[int, Integer] = field(default_factory=dict)


@dataclass
class _Emitter:
    k: GroupKernel
    s: GroupWindows
    words: Words
    device: Device
    tensors: dict[int, Elements]

    def emit(self) -> None:
        k, s, words = self.k, self.s, self.words
        self.c, self.tile = k.window, s.tile(k)
        self.results = VectorResults(words, self.c, self.tensors)
        self.thread, self.lane = special_register("tid.x"), Lane.make(words)
        self.warp = words.shr(self.thread, 5)
        image, weights, stage, _ = s.regions(k)
        self.image = self.device.shared
        self.weights = words.add(self.image, image)
        self.stage = words.add(words.add(self.weights, weights), words.mul(self.warp, stage // s.warps))
        self.zeros = words.add(self.image, image + weights + stage)
        numbers = words.split(special_register("ctaid.x"), s.grid(k))
        self.first = [words.mul(n, each) for n, each in zip(numbers, (s.images, s.rows, s.columns, s.features, s.groups))]
        self.own, self.part = words.mul(words.div(self.warp, s.parts), s.own), words.rem(self.warp, s.parts)
        self.copy_image()
        self.copy_weights()
        with only_if(words.less(self.thread, BYTES // 4)):
            store(words.value(0), shared_pointer(words, words.add(self.zeros, words.shl(self.thread, 2))), 4)
        nvvm.CpAsyncCommitGroupOp()
        self.lanes = [self.lane_of(i) for i in range(0, s.own * s.features // VECTOR, s.beside)]
        self.constant = [self.results.constant(at, k.moving) if k.last == VECTOR else {} for at, _ in self.lanes]  # they are on their way as well
        nvvm.CpAsyncWaitGroupOp(0)
        nvvm.BarrierOp()
        sums, each = self.multiply(), s.own * s.features // 8
        for i in range(s.tiles):
            self.finish(i, sums[i * each:(i + 1) * each])

    # Coordinates.

    def coordinates(self, image: Integer, row: Integer, column: Integer) -> tuple[dict[int, Integer], list[ir.Value]]:
        """Of an output of the block, by loop, and what makes it one of the result."""
        k, words = self.k, self.words
        numbers = [words.add(n, at) for n, at in zip(self.first, (image, row, column))]
        sizes, own = (k.count, *k.places), (self.s.images, self.s.rows, self.s.columns)
        inside = [words.less(n, size) for n, size, each in zip(numbers, sizes, own) if size % each]
        at = dict(zip(k.images, words.split(numbers[0], [k.size(d) for d in k.images])))
        at |= {a.loop: n for a, n in zip((self.c.down, self.c.along), numbers[1:]) if a is not None}
        return at, inside

    # Copies.

    def each(self, count: int) -> Iterator[Integer]:
        """The numbers of this thread's pieces of so many, each where the operations on it belong."""
        for i in range(0, count, self.s.threads):
            number = self.words.add(self.thread, i)
            with only_if(self.words.less(number, count) if i + self.s.threads > count else None):
                yield number

    def copy(self, argument: int, offset: Integer, target: Integer, condition: ir.Value | None, count: int = BYTES) -> None:
        """Start a copy of so many bytes to shared memory, or of zeros where the condition, if there is one, does not hold."""
        words, size = self.words, None
        if count < 4:  # what asynchronous copies are too large for
            value = self.tensors[argument].read(offset if condition is None else words.select(condition, offset, 0))
            value = value if condition is None else arith.select(condition, value, arith.constant(value.type, 0.0))
            store(value, shared_pointer(words, target), count)
            return
        if condition is not None:
            offset, size = words.select(condition, offset, 0), words.select(condition, count, 0)
        modifier = ir.Attribute.parse(f"#nvvm<load_cache_modifier {'cg' if count == BYTES else 'ca'}>")
        nvvm.CpAsyncOp(shared_pointer(words, target), self.tensors[argument].pointer(offset), count, modifier, cpSize=size)

    def copy_image(self) -> None:
        k, s, c, tile, words = self.k, self.s, self.c, self.tile, self.words
        parts, channels = PIECE // k.together, k.unit * k.size(k.channel)
        sizes = [s.images, tile.down.places, tile.along.places, s.groups, k.pieces * parts]
        for number in self.each(prod(sizes)):
            image, row, column, group, part = words.split(number, sizes)
            which = words.add(self.first[0], image)
            conditions = [words.less(which, k.count)] if k.count % s.images else []
            at = words.split(which, [k.size(d) for d in k.images])
            offset = words.dot(at, [c.image.strides[d] for d in k.images], c.image.offset)
            for axis, first, place, size in ((c.down, self.first[1], row, s.rows), (c.along, self.first[2], column, s.columns)):
                if axis is not None:  # (the offset of a tensor that is padded is that of what is in front of it)
                    padded = words.add(words.mul(first, axis.stride), place)
                    offset = words.add(offset, words.mul(padded, c.image.strides[axis.tap] // axis.dilation))
                    if axis.checked or k.outputs(axis) % size:
                        conditions.append(words.less(words.sub(padded, axis.low), axis.size))
            if k.group is not None:
                offset = words.add(offset, words.mul(words.add(self.first[4], group), c.image.strides[k.group] * k.unit))
            offset = words.add(offset, words.mul(part, k.together))
            if channels % PIECE:
                conditions.append(words.less(part, channels // k.together))
            slots = words.dot([image, self.slot(row, tile.down), self.slot(column, tile.along)], [tile.image, tile.row, 1])
            target = words.add(words.mul(slots, tile.pitch), words.mul(words.add(words.mul(group, k.pieces * parts), part), BYTES // parts))
            self.copy(c.image.argument, offset, words.add(self.image, target), all_of(*conditions), BYTES // parts)

    def slot(self, place: Integer, side: Side) -> Integer:
        """Of a place along one side of the tile."""
        words, each = self.words, side.slots // side.stride
        return words.add(words.mul(words.rem(place, side.stride), each), words.div(place, side.stride))

    def copy_weights(self) -> None:
        k, s, c, words = self.k, self.s, self.c, self.words
        turns, steps, terms = s.turns(k), s.steps(k), s.terms(k)
        channels, features, parts = k.size(k.channel), k.size(c.lane), PIECE // k.grain
        sizes = [s.groups, s.features, turns, 2 * steps, parts]
        rows, columns = k.taps
        for number in self.each(prod(sizes)):
            group, feature, turn, term, part = words.split(number, sizes)
            row, column, piece = words.split(term, [rows // turns, columns, k.pieces])
            row = words.add(words.mul(turn, rows // turns), row)
            taps = [(a.tap, at) for a, at in ((c.down, row), (c.along, column)) if a is not None]
            lane, channel = words.add(self.first[3], feature), words.add(words.mul(piece, PIECE), words.mul(part, k.grain))
            conditions = [words.less(term, terms)] if terms < 2 * steps else []
            first = words.mul(words.add(self.first[4], group), k.unit)
            if channels * k.unit % PIECE:
                conditions.append(words.less(channel, channels))
            if features * k.unit % PIECE:
                conditions.append(words.less(lane, features))
            if k.unit > 1:  # a feature's own channels, and zeros beside them
                mine = words.div(lane, features)
                conditions.append(words.equal(words.div(channel, channels), mine))
                first, lane, channel = words.add(first, mine), words.rem(lane, features), words.rem(channel, channels)
            taps += [(k.group, first), (c.lane, lane)]
            offset = words.dot([n for d, n in taps if d is not None], [c.weight.strides[d] for d, _ in taps if d is not None], c.weight.offset)
            offset = words.add(offset, channel)
            target = words.mul(words.add(words.mul(group, s.features), feature), s.weight_pitch(k))
            target = words.add(target, words.mul(words.add(words.mul(turn, 2 * steps), term), BYTES))
            target = words.add(target, words.mul(part, BYTES // parts))
            self.copy(c.weight.argument, offset, words.add(self.weights, target), all_of(*conditions), BYTES // parts)

    # Products.

    def multiply(self) -> list[list[ir.Value]]:
        """Four sums for each 16 outputs and 8 features of the warp's groups."""
        k, s, tile, words = self.k, self.s, self.tile, self.words
        rows, columns = k.taps
        turns, eights = s.turns(k), s.own * s.features // 8
        terms = [tile.tap(r, x) + BYTES * i for r in range(rows // turns) for x in range(columns) for i in range(k.pieces)]
        half = words.shr(self.lane.number, 4)
        outputs = [self.first_tap(i) for i in range(s.tiles)]
        weights = self.weight_rows()
        kind = str(self.c.image.element)
        multiplier = Multiplier((kind, kind), ir.F32Type.get(), False)
        zeros = [float32(0.0)] * (4 * s.tiles * eights)

        def turn(number: Integer, *carried: ir.Value) -> list[ir.Value]:
            sums = [list(carried[i:i + 4]) for i in range(0, len(carried), 4)]
            # A turn is a row of the window: with a stride, rows side by side in the image are apart in the tile.
            row = words.mul(self.slot(words.mul(number, tile.down.dilation), tile.down), tile.row * tile.pitch) if turns > 1 else 0
            lines = [_Rows(words.add(first, row)) for first in outputs]
            begin = words.mul(number, 2 * s.steps(k) * BYTES)
            for step in range(s.steps(k)):
                pair = terms[2 * step:2 * step + 2]
                for own in range(s.own):
                    found = [self.pointer(words.add(first, begin), own * s.features * s.weight_pitch(k) + 2 * step * BYTES) for first in weights]
                    rhs = [x for pointer in found for x in load_matrices(pointer)]
                    for i, line in enumerate(lines):
                        lhs = load_matrices(self.lines(line, [n + own * k.pieces * BYTES for n in pair], half))
                        for j in range(s.features // 8):
                            at = i * eights + own * (s.features // 8) + j
                            sums[at] = multiplier.multiply(sums[at], lhs, (rhs[2 * j], rhs[2 * j + 1]))
            return [x for four in sums for x in four]

        done = turn(0, *zeros) if turns == 1 else loop(words, 0, turns, 1, zeros, turn)
        return [done[i:i + 4] for i in range(0, len(done), 4)]

    def first_tap(self, i: int) -> Integer:
        """The address of the first tap of this lane's output of the warp's tile ``i``, of which 16 lanes give the rows, those of one half of the terms."""
        s, tile, words = self.s, self.tile, self.words
        number = words.min(words.add(words.mul(words.add(words.mul(self.part, s.tiles), i), ROWS), words.mask(self.lane.number, 15)), tile.outputs - 1)
        slots = words.dot(words.split(number, [s.images, s.rows, s.columns]), [tile.image, tile.row, 1])
        return words.add(words.add(self.image, words.mul(slots, tile.pitch)), words.mul(self.own, self.k.pieces * BYTES))

    def lines(self, rows: _Rows, terms: Sequence[int], half: Integer) -> ir.Value:
        """Where a lane reads its row of a step's two pieces, which are so far from the first tap."""
        words = self.words
        if len(terms) == 1:
            second = words.equal(half, 1)
            return self.pointer(words.select(second, self.zeros, words.add(rows.first, terms[0])), 0)
        jump = terms[1] - terms[0]
        if jump not in rows.by_jump:
            rows.by_jump[jump] = words.add(rows.first, words.mul(half, jump))
        return self.pointer(rows.by_jump[jump], terms[0])

    def weight_rows(self) -> list[Integer]:
        """Where a lane reads its row of the right factor, for each 16 features; of the last eight alone the rows come twice."""
        k, s, words = self.k, self.s, self.words
        line, half, second = words.mask(self.lane.number, 7), words.mask(words.shr(self.lane.number, 3), 1), words.shr(self.lane.number, 4)
        first = words.add(self.weights, words.mul(words.mul(self.own, s.features), s.weight_pitch(k)))
        found = []
        for at in range(0, s.features, 16):
            row = words.add(at, words.add(line, words.shl(second, 3)) if at + 16 <= s.features else line)
            found.append(words.add(words.add(first, words.mul(row, s.weight_pitch(k))), words.shl(half, 4)))
        return found

    def pointer(self, address: Integer, plus: int) -> ir.Value:
        return widen_pointer(self.words, shared_pointer(self.words, address), 0, plus, integer_type(8))

    # Results.

    def finish(self, i: int, sums: Sequence[Sequence[ir.Value]]) -> None:
        """The epilogue and stores of the warp's tile ``i``: register ``2 * h + e`` has output ``pair + 8 * h`` and feature ``2 * quad + e`` of eight."""
        s, words = self.s, self.words
        nvvm.SyncWarpOp(words.value(-1))  # all lanes have read what was there before
        column = words.xor(self.lane.quad, words.shl(self.swizzled(self.lane.pair), 1))
        begin = words.add(self.stage, words.shl(words.add(words.mul(self.lane.pair, s.stage), words.shl(column, 1)), 2))
        for j, four in enumerate(sums):
            for h in range(2):
                store(join(four[2 * h:2 * h + 2]), self.pointer(begin, 4 * (8 * h * s.stage + 8 * j)), 8)
        nvvm.SyncWarpOp(words.value(-1))
        count, vectors = 32 // s.beside, s.own * s.features // VECTOR
        for first in range(0, ROWS, count):
            output = words.add(words.div(self.lane.number, s.beside), first)
            if count > ROWS:
                output = words.mask(output, ROWS - 1)
            number = words.add(words.mul(words.add(words.mul(self.part, s.tiles), i), ROWS), output)
            at, inside = self.coordinates(*words.split(number, [s.images, s.rows, s.columns]))
            if self.tile.outputs % (ROWS * s.tiles * s.parts):
                inside.append(words.less(number, self.tile.outputs))
            if count > ROWS:
                inside.append(words.less(self.lane.number, ROWS))
            source, swizzled = words.add(self.stage, words.shl(words.mul(output, s.stage), 2)), words.shl(self.swizzled(output), 4)
            for j, (lane, vector), constant in zip(range(0, vectors, s.beside), self.lanes, self.constant):
                conditions = [*inside, words.less(vector, vectors)] if j + s.beside > vectors else inside
                place = words.add(source, words.mul(words.min(vector, vectors - 1) if j + s.beside > vectors else vector, VECTOR * 4))
                parts = [load_shared(words, words.add(place, words.xor(swizzled, 16 * n)), ir.F32Type.get(), 4) for n in range(2)]
                with only_if(*conditions):
                    sums = self.exact(join([x for p in parts for x in lanes_of(p)]), {**at, **lane})
                    self.finish_vector(sums, {**at, **lane}, constant)

    def finish_vector(self, sums: ir.Value, at: dict[int, Integer], constant: dict) -> None:
        """The last one of a group may have fewer features."""
        if self.k.last == VECTOR:
            self.results.finish(sums, at, constant)
            return
        last = scf.IfOp(self.words.at_least(at[self.c.lane], self.k.features - VECTOR), has_else=True)
        for block, lanes in ((last.then_block, self.k.last), (last.else_block, VECTOR)):
            with ir.InsertionPoint(block):
                replace(self.results, lanes=lanes).finish(sums, at, constant)
                scf.yield_([])

    def swizzled(self, output: Integer) -> Integer:
        """Whether halves of vectors of an output change places, so that lanes that read together, of one or of several outputs, read from all banks."""
        return self.words.mask(output if self.s.beside > 1 else self.words.shr(output, 2), 1)

    def lane_of(self, first: int) -> tuple[dict[int, Integer], Integer]:
        """Of the vectors of a warp's features from ``first`` on this lane's: where it begins, by loop, and its number, which may be that of none."""
        k, s, words = self.k, self.s, self.words
        vector, vectors = words.add(words.rem(self.lane.number, s.beside), first), s.own * s.features // VECTOR
        number = words.min(vector, vectors - 1) if first + s.beside > vectors else vector
        group, feature = words.split(number, [s.own, s.features // VECTOR])
        group = words.add(words.add(self.first[4], self.own), group)
        found = {self.c.lane: words.add(self.first[3], words.mul(feature, VECTOR))}
        return found if k.group is None else {**found, k.group: words.mul(group, k.unit)}, vector

    def exact(self, sums: ir.Value, at: dict[int, Integer]) -> ir.Value:
        """A vector of sums, of several groups together computed again where one may be another group's infinity, times zero."""
        return exact_sums(self.words, self.k, self.tensors, sums, at) if self.k.unit > 1 else sums
