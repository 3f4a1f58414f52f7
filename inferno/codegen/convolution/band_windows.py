"""Depthwise convolutions on tensor cores: along a row, a convolution is a product with a band matrix.

A row of the left factor is a run of 16 elements of the image, of one channel; of eight columns of the right factor each has the window's row one place
further down.  So a product of 16 x 16 by 16 x 8 has 8 outputs of each of 16 runs, and the products of a window's rows add up.  A warp has two or
four channels.  The block goes down the image: of each row the threads load runs of all channels, turn pairs of places with eight channels each into pairs of
places by channel on the way to shared memory, and multiply them by all rows of the windows: to the sums of as many rows of outputs, of which the oldest
are done.  Those go through shared memory too, to be stored by vectors of channels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of, splat
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, launcher
from inferno.codegen.convolution.finite_sums import unless_finite
from inferno.codegen.convolution.vector_results import VECTOR, VectorResults
from inferno.codegen.convolution.window_tensors import WindowTensors
from inferno.codegen.nvvm.builder import (
    Device, Words, device_kernel, device_module, integer_type, load_shared, loop, operation, shared_pointer, special_register, store,
)
from inferno.codegen.nvvm.global_memory import Elements
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, llvm, nvvm
from inferno.passes.generics import float32
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.convolution.band_windows import CHANNELS, LINES, OUTPUTS, BandWindows, fits, read
from inferno.schedule.convolution.window_kernel import Axis, WindowKernel
from inferno.target import Target

# Words between a register's lanes and the next one's, and between channels: writing, lanes that are four vectors of eight pairs, and reading are free of
# bank conflicts.
_REGISTER, _CHANNEL = 34, 137
_COLUMN, _LINE = CHANNELS + 4, OUTPUTS * (CHANNELS + 4) + 4  # words between results side by side, and between their runs
_SHARED = 4 * (2 * CHANNELS * _CHANNEL + LINES * _LINE)  # bytes: two rows of the image by channel, and one of results


def generate(kernel: func.FuncOp, schedule: BandWindows, target: Target) -> None:
    """Add the ``gpu.module`` of a depthwise convolution and make ``kernel`` its launcher."""
    c, name = read(kernel, target), kernel.name.value
    if c is None or not fits(schedule, c):
        raise CompileError(f"@{name} is not a depthwise convolution that {schedule} computes")
    if c.contraction.epilogue is not None:
        expand_math(c.contraction.epilogue.generic)
    tensors = WindowTensors.of((c.image, c.weight, *c.contraction.extras), (d.access for d in c.contraction.destinations))
    with device_module(kernel) as module, device_kernel(module, name, tensors.parameters, schedule.threads, shared=True) as device:
        words = Words({})
        _Emitter(c, schedule, words, device, tensors.elements(words, device.parameters)).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, tensors.given(arguments), (schedule.blocks(c), 1, 1), (schedule.threads, 1, 1), shared=_SHARED)


@dataclass(frozen=True)
class _Item:
    """A pair of places of the image that a thread brings: where it would be in turn 0, where its row is, which of the places are in the row, and its
    address in shared memory."""

    offset: Integer
    row: Integer
    inside: tuple[ir.Value, ir.Value]
    target: Integer


@dataclass(frozen=True)
class _Result:
    """A vector of outputs that a thread stores: coordinates by loop, in turn 0 of those that are done, and where the sums are in shared memory."""

    at: dict[int, Integer]
    source: Integer


Raw = list[ir.Value]
"""Words of all items: of each place as many as a vector has."""


@dataclass
class _Emitter:
    c: WindowKernel
    s: BandWindows
    words: Words
    device: Device
    tensors: dict[int, Elements]

    def emit(self) -> None:
        c, s, words = self.c, self.s, self.words
        self.vectors = VectorResults(words, c, self.tensors)
        self.pairs = {n: Elements(words, p, integer_type(32)) for n, p in zip(self.tensors, self.device.parameters)}
        self.thread, block = special_register("tid.x"), special_register("ctaid.x")
        self.warp, self.lane = words.shr(self.thread, 5), words.mask(self.thread, 31)
        self.pair, self.quad = words.shr(self.lane, 2), words.mask(self.lane, 3)
        # The last channels are some that another block has, too, where there are not enough; so are the last lines.
        chunk = words.rem(block, s.chunks(c))
        self.channel = words.min(words.mul(chunk, CHANNELS), c.sizes[c.lane] - CHANNELS)
        self.first = words.mul(words.div(block, s.chunks(c)), LINES)
        self.half = CHANNELS * _CHANNEL * 4  # bytes of a row
        self.out = words.add(self.device.shared, 2 * self.half)
        self.items, self.results = [self.item(i) for i in range(s.items)], [self.result(i) for i in range(s.items)]
        ages = s.ages(c)
        raw = self.load(0)
        bands = self.load_bands()
        self.put(raw, 0)
        raw = self.load(1)
        zeros = [float32(0.0)] * ((ages - 1) * s.own * 4)

        def turn(t: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            nvvm.BarrierOp()
            half = words.mul(words.mask(t, 1), self.half)
            self.put(list(carried[len(zeros):]), words.sub(self.half, half))
            following = self.load(words.add(t, 2))
            sums = self.multiply(half, list(carried[:len(zeros)]), bands)
            self.leave(sums[-1])
            nvvm.BarrierOp()
            with only_if(words.at_least(t, ages - 1)):
                for result in self.results:
                    self.finish(result, words.sub(t, ages - 1))
            return [*(x for age in sums[:-1] for own in age for x in own), *following]

        loop(words, 0, s.rows + ages - 1, 1, [*zeros, *raw], turn)

    # The thread's places.

    def line(self, number: Integer) -> dict[int, Integer]:
        """The first output of a line of the block, by loop."""
        c, s, words = self.c, self.s, self.words
        number = words.min(words.add(self.first, number), s.lines(c) - 1)
        sizes = [*(c.sizes[d] for d in reversed(c.others)), s.strips(c), s.tiles(c)]
        *others, strip, tile = words.split(number, sizes)
        at = dict(zip(reversed(c.others), others))
        return at | {c.down.loop: words.mul(strip, s.rows), c.along.loop: words.mul(tile, OUTPUTS)}

    def item(self, i: int) -> _Item:
        c, words = self.c, self.words
        number, vectors = words.add(self.thread, i * self.s.threads), CHANNELS // VECTOR
        vector, rest = words.rem(number, vectors), words.div(number, vectors)
        place, line = words.mask(rest, 7), words.shr(rest, 3)
        at = self.line(line)
        column, row = words.add(at[c.along.loop], words.shl(place, 1)), at[c.down.loop]
        offset = words.dot([at[d] for d in at], [c.image.strides[d] for d in at], c.image.offset)
        offset = words.add(offset, words.mul(words.shl(place, 1), c.image.strides[c.along.tap]))
        offset = words.add(words.add(offset, self.channel), words.mul(vector, VECTOR))
        inside = tuple(words.less(words.add(column, k - c.along.low), c.along.size) for k in range(2))
        register = words.add(words.shr(line, 3), words.shl(words.shr(place, 2), 1))
        lane = words.add(words.shl(words.mask(line, 7), 2), words.mask(place, 3))
        word = words.add(words.add(words.mul(vector, VECTOR * _CHANNEL), words.mul(register, _REGISTER)), lane)
        return _Item(offset, words.add(row, -c.down.low), inside, words.add(self.device.shared, words.shl(word, 2)))

    def result(self, i: int) -> _Result:
        c, words = self.c, self.words
        number, vectors = words.add(self.thread, i * self.s.threads), CHANNELS // VECTOR
        vector, rest = words.rem(number, vectors), words.div(number, vectors)
        column, line = words.mask(rest, 7), words.shr(rest, 3)
        at = self.line(line)
        at = {**at, c.along.loop: words.add(at[c.along.loop], column), c.lane: words.add(self.channel, words.mul(vector, VECTOR))}
        word = words.add(words.add(words.mul(line, _LINE), words.mul(column, _COLUMN)), words.mul(vector, VECTOR))
        return _Result(at, words.add(self.out, words.shl(word, 2)))

    # The image.

    def load(self, t: Integer) -> Raw:
        """The places of the items in the row of a turn, zeros where they are outside of the image."""
        c, words, found = self.c, self.words, []
        tensor, none = self.pairs[c.image.argument], arith.constant(integer_type(32), 0)
        for item in self.items:
            row = words.less(words.add(item.row, t), c.down.size)
            begin = words.add(item.offset, words.mul(t, c.image.strides[c.down.tap]))
            for k in range(2):
                inside = arith.andi(row, item.inside[k])
                offset = words.select(inside, words.add(begin, k * c.image.strides[c.along.tap]), 0)
                value = tensor.read(words.shr(offset, 1), 0, VECTOR // 2, VECTOR // 2)
                found += [arith.select(inside, x, none) for x in lanes_of(value)]
        return found

    def put(self, raw: Raw, half: Integer) -> None:
        """Store the items' pairs of places by channel."""
        words, each = self.words, VECTOR // 2
        for i, item in enumerate(self.items):
            left, right = (raw[(2 * i + k) * each:(2 * i + k + 1) * each] for k in range(2))
            target = words.add(item.target, half)
            for channel, value in enumerate(x for a, b in zip(left, right) for x in self.transposed(a, b)):
                store(value, shared_pointer(words, words.add(target, channel * _CHANNEL * 4)), 4)

    def transposed(self, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Of two words of two halves each the lower halves, and the upper ones."""
        words = self.words
        lower = words.either(words.mask(a, 0xFFFF), words.shl(b, 16))
        return lower, words.either(words.shr(a, 16), words.mask(b, -0x10000))

    def load_bands(self) -> list[list[tuple[ir.Value, ir.Value]]]:
        """For each channel of the warp and row of the window this lane's pairs of the right factor: of terms ``2 * quad`` and on, and of eight more, in
        column ``pair``."""
        c, words, at = self.c, self.words, self.c.weight
        tensor, none, taps = self.pairs[at.argument], arith.constant(integer_type(32), 0), c.taps(c.along)
        base = words.add(words.add(self.channel, words.mul(self.warp, self.s.own)), at.offset)
        found: list[list[tuple[ir.Value, ir.Value]]] = [[] for _ in range(self.s.own)]
        for r in range(c.taps(c.down)):
            columns = []
            for term in (0, 1, 8, 9):
                tap = words.sub(words.add(words.shl(self.quad, 1), term), self.pair)
                inside = words.less(tap, taps)
                step = at.strides[c.along.tap] if c.along.tap is not None else 0
                down = at.strides[c.down.tap] if c.down.tap is not None else 0
                offset = words.add(words.add(base, r * down), words.mul(words.select(inside, tap, 0), step))
                columns.append([arith.select(inside, x, none) for x in lanes_of(tensor.read(words.shr(offset, 1), 0, self.s.own // 2, self.s.own // 2))])
            for word in range(self.s.own // 2):
                halves = [self.transposed(columns[k][word], columns[k + 1][word]) for k in (0, 2)]
                for odd in range(2):
                    found[2 * word + odd].append((halves[0][odd], halves[1][odd]))
        return found

    # The products.

    def multiply(self, half: Integer, carried: Sequence[ir.Value], bands: list) -> list[list[list[ir.Value]]]:
        """Add the row's products to the sums of each age, the youngest first: by age, channel of the warp and register."""
        words, ages = self.words, self.s.ages(self.c)
        begin = words.add(words.add(self.device.shared, half), words.shl(words.add(words.mul(self.warp, self.s.own * _CHANNEL), self.lane), 2))
        zero = float32(0.0)
        own = range(self.s.own)
        fours = [list(carried[i:i + 4]) for i in range(0, len(carried), 4)]
        before = [[[zero] * 4 for _ in own], *([fours[a * self.s.own + q] for q in own] for a in range(ages - 1))]
        after: list[list[list[ir.Value]]] = [[] for _ in range(ages)]
        for q in own:
            image = [load_shared(words, words.add(begin, (q * _CHANNEL + i * _REGISTER) * 4), integer_type(32), 1) for i in range(4)]
            for age in reversed(range(ages)):
                after[age].append(self.product(image, bands[q][age], before[age][q]))
        return after

    def product(self, lhs: list[ir.Value], rhs: tuple[ir.Value, ir.Value], sums: list[ir.Value]) -> list[ir.Value]:
        """16 x 8 sums of 16 terms more; the sums move to the next age by the way, so that they are not where they were."""
        kind = str(self.c.image.element)
        text = f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, {{$10, $11, $12, $13}};"
        struct = ir.Type.parse("!llvm.struct<(f32, f32, f32, f32)>")
        made = llvm.InlineAsmOp(struct, [*lhs, *rhs, *sums], text, ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)).results[0]
        return [operation("llvm.extractvalue", [ir.F32Type.get()], [made], position=ir.DenseI64ArrayAttr.get([i])) for i in range(4)]

    # Results.

    def leave(self, sums: list[list[ir.Value]]) -> None:
        """Store the sums that are done: register ``2 * h + e`` has line ``pair + 8 * h`` and column ``2 * quad + e``."""
        words = self.words
        begin = words.add(words.mul(self.pair, _LINE), words.add(words.mul(self.quad, 2 * _COLUMN), words.mul(self.warp, self.s.own)))
        begin = words.add(self.out, words.shl(begin, 2))
        for h, e in product(range(2), range(2)):
            value = join([own[2 * h + e] for own in sums])
            store(value, shared_pointer(words, words.add(begin, 4 * (8 * h * _LINE + e * _COLUMN))), 4 * self.s.own)

    def finish(self, result: _Result, done: Integer) -> None:
        """The epilogue of a vector of outputs, and the store."""
        c, words = self.c, self.words
        at = {**result.at, c.down.loop: words.add(result.at[c.down.loop], done)}
        inside = arith.andi(*(words.less(at[a.loop], c.sizes[a.loop]) for a in (c.down, c.along)))
        parts = [load_shared(words, words.add(result.source, 16 * i), ir.F32Type.get(), 4) for i in range(2)]
        sums = self.exact(join([x for p in parts for x in lanes_of(p)]), at)
        with only_if(inside):
            self.vectors.finish(sums, at)

    def exact(self, sums: ir.Value, at: dict[int, Integer]) -> ir.Value:
        """The sums, computed again where one is not finite: it may be so by an element of the image that is beside the window, times zero."""
        return unless_finite(sums, lambda: self.directly(at, sums.type))

    def directly(self, at: dict[int, Integer], type_: ir.Type) -> ir.Value:
        """The sums of one vector of outputs, one product after the other."""
        c, words = self.c, self.words
        image, weight = self.vectors.offset(c.image, at), words.add(at[c.lane], c.weight.offset)
        taps = c.taps(c.along)

        def step(access: Access, axis: Axis) -> int:
            return access.strides[axis.tap] if axis.tap is not None else 0

        def read(access: Access, offset: Integer) -> ir.Value:
            return arith.extf(type_, self.tensors[access.argument].read(offset, 0, VECTOR, VECTOR))

        def add(number: ir.Value, total: ir.Value) -> list[ir.Value]:
            r, x = words.div(number, taps), words.rem(number, taps)
            inside = arith.andi(*(words.less(words.add(words.add(at[a.loop], k), -a.low), a.size) for a, k in ((c.down, r), (c.along, x))))
            place = words.add(image, words.dot([r, x], [step(c.image, c.down), step(c.image, c.along)]))
            value = arith.select(inside, read(c.image, words.select(inside, place, 0)), splat(type_, 0))
            factor = read(c.weight, words.add(weight, words.dot([r, x], [step(c.weight, c.down), step(c.weight, c.along)])))
            return [arith.addf(total, arith.mulf(value, factor))]

        return loop(words, 0, c.taps(c.down) * taps, 1, [splat(type_, 0)], add)[0]
