"""Gradients of depthwise convolutions' weights on CUDA cores: a sum over the places of all images for each channel and tap.

A thread has the sums of all taps of its channels in registers.  Asynchronous copies bring a tile of the image, with zeros for what is outside of it, and of
the gradient to shared memory.  There a thread reads the gradient at a few places, and then each element of the image that their windows reach once,
to multiply it with all of these places that see it, each product for its tap.  So nothing has a condition but copies.  At a block's end its threads' sums meet
in shared memory, in an order that is always the same; of several blocks of a channel a second kernel adds what they have.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import prod

from inferno.codegen.elements import as_vector, lanes_of, splat
from inferno.codegen.expand_math import expand_math
from inferno.codegen.global_memory import Elements
from inferno.codegen.inline import epilogue_arguments, inline_body
from inferno.codegen.integers import Integer
from inferno.codegen.launcher import launch, launcher, pointer, temporary
from inferno.codegen.nvvm_builder import (
    Device, Words, device_kernel, device_module, load_shared, loop, only_if, operation, shared_pointer, special_register, store,
)
from inferno.codegen.window_sums import widened
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm, scf, vector
from inferno.schedule.accesses import Access
from inferno.schedule.tap_sums import Region, Side, TapKernel, TapSums, fits, read, resident
from inferno.target import Target

_BESIDE, _DEEP = 32, 8  # of the second kernel's block: sums side by side, and threads of each
_FEWEST = 4  # bytes of an asynchronous copy
_AT_ONCE = 8  # copies of a thread that are spelled out


def generate(kernel: func.FuncOp, schedule: TapSums, target: Target) -> None:
    """Add the ``gpu.module`` of such sums, with a second kernel where several blocks have parts of them, and make ``kernel`` its launcher."""
    k, s, name = read(kernel, target), schedule, kernel.name.value
    if k is None or not fits(s, k, target):
        raise CompileError(f"@{name}: {s} does not fit a kernel without such sums")
    if k.contraction.epilogue is not None:
        expand_math(k.contraction.epilogue.generic)
    written = {d.access.argument: d.access.element for d in k.contraction.destinations}
    factors = {a.argument: a.element for a in (k.image, k.gradient)}
    beside = {a.argument: a.element for a in k.contraction.extras} | written
    apart = s.parts > 1
    total = ir.F64Type.get() if k.width == 4 else ir.F32Type.get()  # as which sums of several threads are added
    first = factors if apart else factors | beside
    with device_module(kernel) as module:
        with device_kernel(module, name, [*_parameters(first, written), *_PART[:apart]], s.threads, shared=True, resident=resident(s, k, target)) as device:
            words = Words({})
            tensors = _tensors(words, first, written, device)
            part = Elements(words, device.parameters[-1], total, readonly=False) if apart else None
            _Emitter(k, s, words, device, tensors, total, part).emit()
        if apart:
            with device_kernel(module, f"{name}_sums", [*_parameters(beside, written), *_PART], _BESIDE * _DEEP, shared=True) as device:
                words = Words({})
                part = Elements(words, device.parameters[-1], total)
                _Emitter(k, s, words, device, _tensors(words, beside, written, device), total, part).add_parts()
    with launcher(kernel) as arguments:
        count = k.channels * k.taps
        parts = [pointer(temporary([s.parts * count], total))] if apart else []
        given = [*(pointer(arguments[n]) for n in sorted(first)), *parts]
        launch(f"{name}_gpu", name, given, (s.blocks(k), 1, 1), (s.threads, 1, 1), shared=s.shared(k))
        if apart:
            given = [*(pointer(arguments[n]) for n in sorted(beside)), *parts]
            launch(f"{name}_gpu", f"{name}_sums", given, (-(-count // _BESIDE), 1, 1), (_BESIDE * _DEEP, 1, 1), shared=_BESIDE * _DEEP * total.width // 8)


_PART = ["!llvm.ptr<1> {llvm.noalias}"]


def _parameters(tensors: dict[int, ir.Type], written: dict[int, ir.Type]) -> list[str]:
    return [f"!llvm.ptr<1> {{llvm.noalias{'' if n in written else ', llvm.readonly'}}}" for n in sorted(tensors)]


def _tensors(words: Words, tensors: dict[int, ir.Type], written: dict[int, ir.Type], device: Device) -> dict[int, Elements]:
    return {n: Elements(words, p, tensors[n], n not in written) for n, p in zip(sorted(tensors), device.parameters)}


Sums = list[list[ir.Value]]
"""By row and column of the window, a vector of a thread's channels."""


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
    image: Region = field(init=False)
    gradient: Region = field(init=False)

    def emit(self) -> None:
        k, s, words = self.k, self.s, self.words
        self.image, self.gradient = s.region(k, True), s.region(k, False)
        self.thread = special_register("tid.x")
        group, self.own = words.split(special_register("ctaid.x"), [s.groups(k), s.parts])
        self.channel = words.mul(group, s.channels)
        member, self.lane = words.split(self.thread, [s.strips, s.lanes])
        self.strip = words.split(member, [s.images, s.high, s.wide])
        zero = splat(ir.VectorType.get([s.vector], ir.F32Type.get()), 0)
        tiles = s.tiles(k)

        def tile(number: ir.Value, *carried: ir.Value) -> Sequence[ir.Value]:
            at = words.split(number, tiles)
            self.bring(at)
            return self.work(list(carried))

        carried = [zero] * k.taps
        sums = loop(words, self.own, prod(tiles), s.parts, carried, tile)
        self.meet([x for v in sums for x in lanes_of(v)])

    # Copies.

    def bring(self, at: Sequence[Integer]) -> None:
        """Copy a tile, when all threads have done with the one before."""
        k, s, words = self.k, self.s, self.words
        nvvm.BarrierOp()
        images, row, column = (words.mul(n, each) for n, each in zip(at, (s.images, s.rows * s.high, s.along * s.wide)))
        for region, access, of_image, begin in ((self.image, k.image, True, 0), (self.gradient, k.gradient, False, self.image.bytes)):
            strides = [s_.image if of_image else s_.gradient for s_ in (k.down, k.along)]
            offset = k.origin if of_image else access.offset
            self.copy(region, access, [images, row, column], strides, offset, words.add(self.device.shared, begin), of_image)
        nvvm.CpAsyncCommitGroupOp()
        nvvm.CpAsyncWaitGroupOp(0)
        nvvm.BarrierOp()

    def copy(
        self, region: Region, access: Access, first: Sequence[Integer], strides: Sequence[int], origin: int, target: Integer, of_image: bool,
    ) -> None:
        """Start this thread's copies of a tile."""
        k, words = self.k, self.words
        inner = [region.columns, region.channels // region.vector] if region.along_channels else [region.channels, region.columns // region.vector]
        sizes = [region.images, region.rows, *inner]

        def one(number: Integer) -> None:
            image, row, *rest = words.split(number, sizes)
            column, channel = rest if region.along_channels else rest[::-1]
            if region.along_channels:
                channel = words.mul(channel, region.vector)
            else:
                column = words.mul(column, region.vector)
            conditions, offset = [], origin
            which = words.add(first[0], image)
            if k.count % region.images:
                conditions.append(words.less(which, k.count))
            numbers = words.split(which, [k.sizes[d] for d in k.images])
            offset = words.add(words.dot(numbers, [access.strides[d] for d in k.images]), offset)
            for side, begin, place, lead, stride in zip((k.down, k.along), first[1:], (row, column), (0, region.lead), strides):
                where = words.add(words.mul(begin, side.stride if of_image else 1), words.sub(place, lead + (side.low if of_image else 0)))
                conditions.append(words.less(where, side.size if of_image else side.places))
                offset = words.add(offset, words.mul(where, stride))
            own = words.add(self.channel, channel)
            if k.channels % region.channels:
                conditions.append(words.less(own, k.channels))
            offset = words.add(offset, words.mul(own, k.step(access)))
            place = words.dot([image, row, column, channel], [region.rows * region.columns * region.channels, region.columns * region.channels,
                                                             region.channels, 1])
            self.start(access, offset, words.add(target, words.mul(place, k.width)), conditions, region.vector)

        for number in self.each(region.copies):
            one(number)

    def each(self, count: int) -> Iterator[Integer]:
        """The numbers of this thread's pieces of so many, each where the operations on it belong."""
        words, threads = self.words, self.s.threads
        turns = count // threads
        if turns > _AT_ONCE:
            for_ = scf.ForOp(words.value(0), words.value(turns // _AT_ONCE * _AT_ONCE), words.value(_AT_ONCE), [])
            with ir.InsertionPoint(for_.body):
                for i in range(_AT_ONCE):
                    yield words.add(self.thread, words.mul(words.add(for_.induction_variable, i), threads))
                scf.yield_([])
        for i in range(turns // _AT_ONCE * _AT_ONCE * threads if turns > _AT_ONCE else 0, count, threads):
            number = words.add(self.thread, i)
            with only_if(words.less(number, count)) if i + threads > count else nullcontext():
                yield number

    def start(self, access: Access, offset: Integer, target: Integer, conditions: Sequence[ir.Value], vector_: int) -> None:
        """Start a copy of neighbours, or of zeros where a condition does not hold."""
        words, tensor, size = self.words, self.tensors[access.argument], vector_ * self.k.width
        condition = conditions[0]
        for more in conditions[1:]:
            condition = arith.andi(condition, more)
        offset = words.select(condition, offset, 0)
        if size < _FEWEST:
            value = tensor.read(offset)
            store(arith.select(condition, value, arith.constant(value.type, 0.0)), shared_pointer(words, target), size)
            return
        modifier = ir.Attribute.parse(f"#nvvm<load_cache_modifier {'cg' if size == 16 else 'ca'}>")
        nvvm.CpAsyncOp(shared_pointer(words, target), tensor.pointer(offset), size, modifier, cpSize=words.select(condition, size, 0))

    # Sums.

    def work(self, carried: list[ir.Value]) -> list[ir.Value]:
        """The sums with a tile's products; threads beyond the last strip have none."""
        s, words = self.s, self.words
        if s.strips * s.lanes == s.threads:
            return self.add(carried)
        some = scf.IfOp(words.less(self.thread, s.strips * s.lanes), [v.type for v in carried], has_else=True)
        with ir.InsertionPoint(some.then_block):
            scf.yield_(self.add(carried))
        with ir.InsertionPoint(some.else_block):
            scf.yield_(carried)
        return list(some.results)

    def add(self, carried: list[ir.Value]) -> list[ir.Value]:
        k, s = self.k, self.s
        sums = [carried[r * k.along.taps:(r + 1) * k.along.taps] for r in range(k.down.taps)]
        gradient = [self.row(self.gradient, self.address(False, y), range(s.along), s.read(k, False)) for y in range(s.rows)]
        columns = _seen(k.along, s.along)
        for row, seen in _seen(k.down, s.rows).items():
            image = self.row(self.image, self.address(True, row), columns, s.read(k, True))
            for column, here in columns.items():
                for y, r in seen:
                    for x, t in here:
                        sums[r][t] = vector.FMAOp(image[column], gradient[y][x], sums[r][t]).result
        return [v for row in sums for v in row]

    def address(self, of_image: bool, row: int) -> Integer:
        """Where this thread's tile begins in shared memory, ``row`` rows below its first."""
        k, s, words = self.k, self.s, self.words
        region, down, along = (self.image, k.down.stride, k.along.stride) if of_image else (self.gradient, 1, 1)
        image, high, wide = self.strip
        rows = words.add(words.mul(image, region.rows), words.mul(high, s.rows * down))
        columns = words.add(words.mul(rows, region.columns), words.mul(wide, s.along * along))
        elements = words.add(words.mul(columns, region.channels), words.mul(self.lane, s.vector))
        begin = words.add(self.device.shared, 0 if of_image else self.image.bytes)
        return words.add(words.add(begin, words.mul(elements, k.width)), row * region.columns * region.channels * k.width)

    def row(self, region: Region, address: Integer, wanted: Sequence[int], together: int) -> dict[int, ir.Value]:
        """The elements of a row at these columns, as vectors of the thread's channels."""
        k, s, words, found = self.k, self.s, self.words, {}
        if together == 1:
            for x in wanted:
                value = load_shared(words, words.add(address, (x + region.lead) * region.channels * k.width), k.image.element, s.vector)
                found[x] = as_vector(widened(value), s.vector)
            return found
        for begin in sorted({(x + region.lead) // together * together for x in wanted}):
            value = load_shared(words, words.add(address, begin * k.width), k.image.element, together)
            for i, x in enumerate(lanes_of(widened(value))):
                if begin + i - region.lead in wanted:
                    found[begin + i - region.lead] = as_vector(x, 1)
        return found

    # Results.

    def meet(self, sums: list[ir.Value]) -> None:
        """Add what the block's threads have of each sum, some of these at a time."""
        k, s, words = self.k, self.s, self.words
        each = s.meeting(k)
        for first in range(0, len(sums), each):
            some = sums[first:first + each]
            nvvm.BarrierOp()
            mine = words.add(self.device.shared, words.mul(self.thread, 4))
            for i, value in enumerate(some):
                store(value, shared_pointer(words, words.add(mine, i * s.threads * 4)), 4)
            nvvm.BarrierOp()
            if s.lanes == 1:
                self.along_warps(first, len(some))
            else:
                self.across(first, len(some))

    def across(self, first: int, count: int) -> None:
        """A thread for each sum of the block's channels."""
        s, words = self.s, self.words
        for number in self.each(count * s.lanes):
            value, lane = words.split(number, [count, s.lanes])
            begin = words.add(self.device.shared, words.mul(words.add(words.mul(value, s.threads), lane), 4))
            self.leave(words.add(value, first), lane, self.added(begin, s.strips, s.lanes * 4))

    def along_warps(self, first: int, count: int) -> None:
        """A warp for each sum of the block's only channel."""
        s, words, warps = self.s, self.words, self.s.threads // 32
        warp, lane = words.split(self.thread, [warps, 32])
        for i in range(0, count, warps):
            number = words.add(warp, i)
            value = words.min(number, count - 1) if i + warps > count else number
            begin = words.add(self.device.shared, words.mul(words.add(words.mul(value, s.threads), lane), 4))
            found = self.added(begin, s.threads // 32, 128)
            distance = 16
            while distance:
                found = arith.addf(found, _exchange(words, found, distance))
                distance //= 2
            mine = words.equal(lane, 0)
            with only_if(arith.andi(mine, words.less(number, count)) if i + warps > count else mine):
                self.leave(words.add(value, first), 0, found)

    def added(self, begin: Integer, count: int, step: int) -> ir.Value:
        """So many numbers of shared memory, in order."""
        words, f32 = self.words, ir.F32Type.get()

        def one(i: Integer) -> ir.Value:
            return self.as_total(load_shared(words, words.add(begin, words.mul(i, step)), f32, 1))

        if count <= 16:
            found = one(0)
            for i in range(1, count):
                found = arith.addf(found, one(i))
            return found
        return loop(words, 0, count, 1, [arith.constant(self.total, 0.0)], lambda i, sum_: [arith.addf(sum_, one(i))])[0]

    def as_total(self, value: ir.Value) -> ir.Value:
        return arith.extf(self.total, value) if self.total != value.type else value

    def leave(self, value: Integer, lane: Integer, found: ir.Value) -> None:
        """What the block has of a thread's sum ``value`` of the channels of ``lane``: the result, or a part of it."""
        k, s, words = self.k, self.s, self.words
        tap, own = words.split(value, [k.taps, s.vector])
        channel = words.add(self.channel, words.add(words.mul(lane, s.vector), own))
        with only_if(words.less(channel, k.channels)) if k.channels % s.channels else nullcontext():
            if self.part is None:
                self.finish(channel, tap, found)
            else:
                at = words.add(words.mul(self.own, k.channels * k.taps), words.add(words.mul(channel, k.taps), tap))
                self.part.write(found, at)

    def finish(self, channel: Integer, tap: Integer, found: ir.Value) -> None:
        """The epilogue of a sum, and the stores."""
        k, words, c = self.k, self.words, self.k.contraction
        f32 = ir.F32Type.get()
        value = arith.truncf(f32, found) if found.type != f32 else found
        row, column = words.split(tap, [k.down.taps, k.along.taps])
        at = {d: n for d, n in ((k.channel, channel), (k.down.tap, row), (k.along.tap, column)) if d is not None}

        def offset(access: Access) -> Integer:
            return words.dot(list(at.values()), [access.strides[d] for d in at], access.offset)

        results: list[ir.Value] = []
        if c.epilogue is not None:
            arguments = epilogue_arguments(c.epilogue, value, lambda a: self.tensors[a.argument].read(offset(a)))
            results = inline_body(c.epilogue.block, arguments)
        for d in c.destinations:
            self.tensors[d.access.argument].write(value if d.source is None else results[d.source], offset(d.access))

    def add_parts(self) -> None:
        """The second kernel: what blocks have of each sum, added up by a few threads, and the results."""
        k, s, words = self.k, self.s, self.words
        count = k.channels * k.taps
        self.thread = special_register("tid.x")
        deep, beside = words.split(self.thread, [_DEEP, _BESIDE])
        number = words.add(words.mul(special_register("ctaid.x"), _BESIDE), beside)
        mine = words.min(number, count - 1) if count % _BESIDE else number

        def one(i: Integer, sum_: ir.Value) -> list[ir.Value]:
            return [arith.addf(sum_, self.part.read(words.add(words.mul(i, count), mine)))]

        found = loop(words, deep, s.parts, _DEEP, [arith.constant(self.total, 0.0)], one)[0]
        width = self.total.width // 8
        store(found, shared_pointer(words, words.add(self.device.shared, words.mul(self.thread, width))), width)
        nvvm.BarrierOp()
        first = words.equal(deep, 0)
        with only_if(arith.andi(first, words.less(number, count)) if count % _BESIDE else first):
            begin = words.add(self.device.shared, words.mul(beside, width))
            for i in range(1, _DEEP):
                found = arith.addf(found, load_shared(words, words.add(begin, i * _BESIDE * width), self.total, 1))
            channel, tap = words.split(mine, [k.channels, k.taps])
            self.finish(channel, tap, found)


def _seen(side: Side, places: int) -> dict[int, list[tuple[int, int]]]:
    """By element that the windows of so many places reach, from the first one's first, the places that see it and the taps by which they do."""
    found: dict[int, list[tuple[int, int]]] = {}
    for place in range(places):
        for tap in range(side.taps):
            found.setdefault(place * side.stride + tap * side.dilation, []).append((place, tap))
    return dict(sorted(found.items()))


def _exchange(words: Words, value: ir.Value, distance: int) -> ir.Value:
    """The value of the lane whose number differs in the bit ``distance``."""
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)

    def moved(x: ir.Value) -> ir.Value:
        return operation("nvvm.shfl.sync", [i32], [words.value(-1), x, words.value(distance), words.value(31)], kind="#nvvm<shfl_kind bfly>")

    if value.type.width == 32:
        return arith.bitcast(value.type, moved(arith.bitcast(i32, value)))
    whole = arith.bitcast(i64, value)
    low, high = (arith.extui(i64, moved(arith.trunci(i32, x))) for x in (whole, arith.shrui(whole, arith.constant(i64, 32))))
    return arith.bitcast(value.type, arith.ori(low, arith.shli(high, arith.constant(i64, 32))))
