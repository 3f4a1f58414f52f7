"""Gradients of depthwise convolutions' weights on CUDA cores: a sum over the places of all images for each channel and tap.

A thread has the sums of all taps of its channels in registers.  Asynchronous copies bring a tile of the image, with zeros for what is outside of it, and of
the gradient to shared memory.  There a thread reads the gradient at a few places, and then each element of the image that their windows reach once,
to multiply it with all of these places that see it, each product for its tap.  So nothing has a condition but copies.  At a block's end its threads' sums meet
in shared memory, in an order that is always the same; of several blocks of a channel a second kernel adds what they have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, splat
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, launcher, pointer, temporary
from inferno.codegen.convolution.tap_results import SUMMING, Results, deep
from inferno.codegen.convolution.tap_tiles import Tiles
from inferno.codegen.convolution.window_sums import widened
from inferno.codegen.convolution.window_tensors import WindowTensors
from inferno.codegen.nvvm.builder import WRITTEN_BUFFER, Device, Words, device_kernel, device_module, load_shared, loop, special_register
from inferno.codegen.nvvm.global_memory import Elements
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, llvm, nvvm, vector
from inferno.schedule.convolution.tap_kernel import TapKernel, read, seen
from inferno.schedule.convolution.tap_region import Region
from inferno.schedule.convolution.tap_sums import TapSums, fits, keeps_places, resident
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: TapSums, target: Target) -> None:
    """Add the ``gpu.module`` of such sums, with a second kernel where several blocks have parts of them, and make ``kernel`` its launcher."""
    k, s, name = read(kernel, target), schedule, kernel.name.value
    if k is None or not fits(s, k, target):
        raise CompileError(f"@{name} is not a gradient of depthwise weights that {s} computes")
    if k.contraction.epilogue is not None:
        expand_math(k.contraction.epilogue.generic)
    factors, written, apart = (k.image, k.gradient), [d.access for d in k.contraction.destinations], s.parts > 1
    total = ir.F64Type.get() if k.width == 4 else ir.F32Type.get()  # as which sums of several threads are added
    first = WindowTensors.of(factors, ()) if apart else WindowTensors.of((*factors, *k.contraction.extras), written)
    last = WindowTensors.of(k.contraction.extras, written)
    with device_module(kernel) as module:
        with device_kernel(module, name, [*first.parameters, *_PART[:apart]], s.threads, shared=True, resident=resident(s, k, target)) as device:
            words = Words({})
            tensors = first.elements(words, device.parameters)
            part = Elements(words, device.parameters[-1], total, readonly=False) if apart else None
            _Emitter(k, s, words, device, tensors, total, part, keeps_places(s, k, target)).emit()
        if apart:
            with device_kernel(module, f"{name}_sums", [*last.parameters, *_PART], SUMMING, shared=True) as device:
                words = Words({})
                part = Elements(words, device.parameters[-1], total)
                Results(k, s, words, device.shared, last.elements(words, device.parameters), total, part, special_register("tid.x")).add_parts()
    with launcher(kernel) as arguments:
        count = k.channels * k.taps
        parts = [pointer(temporary([s.parts * count], total))] if apart else []
        given = [*first.given(arguments), *parts]
        launch(f"{name}_gpu", name, given, (s.blocks(k), 1, 1), (s.threads, 1, 1), shared=s.shared(k))
        if apart:
            given = [*last.given(arguments), *parts]
            blocks = -(-count // (SUMMING // deep(s.parts)))
            launch(f"{name}_gpu", f"{name}_sums", given, (blocks, 1, 1), (SUMMING, 1, 1), shared=SUMMING * total.width // 8)


_PART = [WRITTEN_BUFFER]


@dataclass
class _Emitter:
    """``total`` is the type as which sums of several threads are added, ``part`` where blocks leave theirs."""

    k: TapKernel
    s: TapSums
    words: Words
    device: Device
    tensors: dict[int, Elements]
    total: ir.Type
    part: Elements | None
    keeps_places: bool

    def emit(self) -> None:
        k, s, words = self.k, self.s, self.words
        self.thread = special_register("tid.x")
        group, self.own = words.split(special_register("ctaid.x"), [s.groups(k), s.parts])
        self.tiles = Tiles(k, s, words, self.tensors, self.thread, words.mul(group, s.channels), s.region(k, True), s.region(k, False), self.keeps_places)
        member, self.lane = words.split(self.thread, [s.strips, s.lanes])
        self.strip = words.split(member, [s.images, s.high, s.wide])
        zeros = [splat(ir.VectorType.get([s.vector], ir.F32Type.get()), 0)] * k.taps
        sums = self.one_by_one(zeros) if s.stages == 1 else self.ahead(zeros)
        results = Results(k, s, words, self.device.shared, self.tensors, self.total, self.part, self.thread, self.tiles.channel, self.own)
        results.meet([x for v in sums for x in lanes_of(v)])

    def one_by_one(self, zeros: list[ir.Value]) -> list[ir.Value]:
        """The sums over the block's tiles, each of which is waited for."""
        def tile(number: ir.Value, *sums: ir.Value) -> Sequence[ir.Value]:
            nvvm.BarrierOp()
            self.tiles.bring(number, self.device.shared)
            nvvm.CpAsyncCommitGroupOp()
            nvvm.CpAsyncWaitGroupOp(0)
            nvvm.BarrierOp()
            return self.work(list(sums), self.device.shared)

        return loop(self.words, self.own, prod(self.s.tiles(self.k)), self.s.parts, zeros, tile)

    def ahead(self, zeros: list[ir.Value]) -> list[ir.Value]:
        """The same where the next tile is on its way while one is added."""
        k, s, words = self.k, self.s, self.words
        tiles, size = prod(s.tiles(k)), s.tile_bytes(k)

        def tile(number: ir.Value, place: ir.Value, *sums: ir.Value) -> Sequence[ir.Value]:
            following, other = words.add(number, s.parts), words.sub(size, place)
            with only_if(words.less(following, tiles)):
                self.tiles.bring(following, words.add(self.device.shared, other))
            nvvm.CpAsyncCommitGroupOp()
            nvvm.CpAsyncWaitGroupOp(1)
            nvvm.BarrierOp()
            found = self.work(list(sums), words.add(self.device.shared, place))
            nvvm.BarrierOp()
            return [other, *found]

        self.tiles.bring(self.own, self.device.shared)
        nvvm.CpAsyncCommitGroupOp()
        return loop(words, self.own, tiles, s.parts, [words.value(0), *zeros], tile)[1:]

    def work(self, carried: list[ir.Value], tile: Integer) -> list[ir.Value]:
        """The sums with the products of a tile, which lies there; threads beyond the last strip have none."""
        s, words = self.s, self.words
        if s.strips * s.lanes == s.threads:
            return self.add(carried, tile)
        return if_else(words.less(self.thread, s.strips * s.lanes), [v.type for v in carried], lambda: self.add(carried, tile), lambda: carried)

    def add(self, carried: list[ir.Value], tile: Integer) -> list[ir.Value]:
        k, s, words = self.k, self.s, self.words
        start = [splat(v.type, 0) for v in carried] if s.has_totals(k) else carried
        sums = [start[r * k.along.taps:(r + 1) * k.along.taps] for r in range(k.down.taps)]
        places, places_of_image = (words.add(tile, self.own_places(of_image)) for of_image in (False, True))
        gradient: dict[int, list[ir.Value]] = {}
        for row, there in seen(k.down, s.rows).items():
            for y in (y for y, _ in there if y not in gradient):
                read = self.row(self.tiles.gradient, places, y, s.read(k, False))
                gradient[y] = [read(x) for x in range(s.along)]
            read = self.row(self.tiles.image, places_of_image, row, s.read(k, True))
            for column, here in seen(k.along, s.along).items():
                element = read(column)
                for y, r in there:
                    for x, t in here:
                        sums[r][t] = vector.FMAOp(element, gradient[y][x], sums[r][t]).result
            # LLVM would read all rows first and then multiply, for which there are not enough registers.
            for _, r in there:
                sums[r] = [_in_order(v) for v in sums[r]]
        found = [v for row in sums for v in row]
        return [arith.addf(a, b) for a, b in zip(carried, found)] if s.has_totals(k) else found

    def own_places(self, of_image: bool) -> Integer:
        """How far behind a tile's begin this thread's places are in shared memory."""
        k, s, words = self.k, self.s, self.words
        region, down, along = (self.tiles.image, k.down.stride, k.along.stride) if of_image else (self.tiles.gradient, 1, 1)
        image, high, wide = self.strip
        places = image, words.mul(high, s.rows * down), words.mul(wide, s.along * along), words.mul(self.lane, s.vector)
        elements = words.dot(places, region.strides)
        return words.add(words.mul(elements, k.width), 0 if of_image else self.tiles.image.bytes)

    def row(self, region: Region, places: Integer, row: int, together: int) -> Callable[[int], ir.Value]:
        """What reads the elements of a row by their columns, as vectors of the thread's channels; neighbours come together."""
        k, s, words = self.k, self.s, self.words
        _, down, along, _ = region.strides
        known: dict[int, list[ir.Value]] = {}

        def read(column: int) -> ir.Value:
            first, place = divmod(column + region.lead, together)
            if first not in known:
                address = words.add(places, (row * down + first * together * along) * k.width)
                value = widened(load_shared(words, address, k.image.element, together * s.vector))
                known[first] = [as_vector(x, 1) for x in lanes_of(value)] if together > 1 else [as_vector(value, s.vector)]
            return known[first][place]

        return read


def _in_order(sums: ir.Value) -> ir.Value:
    """A vector of float32 that is what it is before anything that comes behind is read."""
    word = ir.IntegerType.get_signless(32)
    hidden = [llvm.inline_asm(word, [arith.bitcast(word, x)], "", "=r,0", has_side_effects=True) for x in lanes_of(sums)]
    return join([arith.bitcast(ir.F32Type.get(), x) for x in hidden])
