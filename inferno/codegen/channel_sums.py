"""Contractions that also add up the columns of a result: generators ``im2col`` and ``wgmma`` with another end of a tile, and a small kernel behind.

A warp adds up its 16 rows of some columns in registers, by shuffles that leave each thread the totals of as few columns as there are threads for, and adds
these to its own numbers in shared memory.  When a block has no more tiles its warps' numbers are added up and go to the workspace; the kernel behind adds
up those of all blocks that had the columns.  Nothing is added in an order that depends on time.
"""

import functools
from collections.abc import Sequence
from inferno.codegen import im2col, wgmma
from inferno.codegen.elements import join, lanes_of
from inferno.codegen.global_memory import Elements
from inferno.codegen.halo import HaloEmitter
from inferno.codegen.halo_consumer import HaloEpilogue
from inferno.codegen.halo_phases import PhasesEmitter
from inferno.codegen.integers import Integer
from inferno.codegen.launcher import launch, pointer, temporary
from inferno.codegen.nvvm_builder import Words, device_kernel, load_shared, only_if, shared_pointer, special_register, store
from inferno.codegen.shuffles import exchange, from_lane
from inferno.codegen.wgmma_epilogue import Epilogue
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, math, nvvm
from inferno.schedule.channel_sums import WARPS, ChannelSums, Summed, read, takes_schedule, tiling_of
from inferno.schedule.contraction import Contraction
from inferno.schedule.result_parts import columns_together
from inferno.schedule.wgmma_schedule import precision
from inferno.symbolic import ceildiv
from inferno.target import Target

_LANES, _GROUPS = 32, 8  # of the kernel behind: neighbouring columns of a block, and threads that share the blocks' sums of one


def generate(kernel: func.FuncOp, schedule: ChannelSums, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction with sums of its columns and make ``kernel`` its launcher."""
    found = read(kernel, target, schedule.windows)
    tiling = tiling_of(found.contraction) if found is not None else None
    if tiling is None or schedule.sums != len(found.squares) or not takes_schedule(schedule, found.contraction, tiling):
        raise CompileError(f"@{kernel.name.value} is not a contraction with sums of its columns by {schedule}")
    c = found.contraction
    wgmma.prepare_bodies(c)
    made = _emitter_for(schedule, c)(kernel.name.value, c, tiling, schedule, target, precision(found.head, c))
    made.take(found)
    wgmma.emit(kernel, made)


class _Sums:
    """What an epilogue does with them."""

    def sum_columns(self, found: Summed, base: Integer) -> None:
        """``base``: where this thread's are in shared memory."""
        self.summed, self.squares, self.centered, self.base = found.source, found.squares, found.centered, base
        self._open: dict[int, list[ir.Value]] = {}  # of some columns the sums of this thread's rows, and behind them what was taken off
        self._rows: ir.Value | None = None

    def apply_pairs(self, block: int, j: int, values: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """As everywhere; and adds the results to those of the other rows of these columns that are on their way."""
        results = super().apply_pairs(block, j, values)
        inside = [self.is_inside(block, half) for half in self.halves]
        pairs = [_wide(results[half][self.summed]) for half in self.halves]
        center = self.center(pairs[0], inside[0]) if self.centered else None
        pairs = pairs if center is None else [arith.subf(pair, center) for pair in pairs]
        pairs = [pair if condition is None else arith.select(condition, pair, _zero(pair.type)) for pair, condition in zip(pairs, inside)]
        terms = [[arith.mulf(pair, pair) if square else pair for square in self.squares] for pair in pairs]
        self._open[j] = [functools.reduce(arith.addf, each) for each in zip(*terms)] + ([center] if self.centered else [])
        if self.centered and self.hangs_over:
            self._rows = functools.reduce(arith.addf, (arith.uitofp(ir.F32Type.get(), c) for c in inside))
        return results

    def center(self, pair: ir.Value, inside: ir.Value | None) -> ir.Value:
        """Of a warp's rows of two columns the first, if it is finite and there is one: what is like it loses nothing when it is taken off."""
        words, zero = self.words, arith.constant(ir.F32Type.get(), 0.0)
        first, most = words.value(words.mask(self.group.lane, 3)), arith.constant(ir.F32Type.get(), 3.4028234663852886e38)
        found = []
        for x in lanes_of(pair):
            x = x if inside is None else arith.select(inside, x, zero)
            x = from_lane(x, first)
            found.append(arith.select(arith.cmpf(arith.CmpFPredicate.OLE, math.absf(x), most), x, zero))
        return join(found)

    def is_inside(self, block: int, half: int) -> ir.Value | None:
        """Whether a row is one of the result's; None where all are."""
        if not self.hangs_over:
            return None
        return self.words.less(self.words.add(self.row, self.down(block, half)), self.tiling.m.size)

    def stage(self, number: int, block: int, begin: int, pairs: Sequence[Sequence[ir.Value]], buffer: int, pending: int) -> None:
        super().stage(number, block, begin, pairs, buffer, pending)
        if number == self.summed:
            self.add_up(begin)

    def add_up(self, begin: int) -> None:
        """What there is of the columns from ``begin`` on: of 8 threads with the same columns each has an eighth of the totals in the end."""
        words, wide = self.words, ir.F64Type.get()
        columns = [self._open[j] for j in sorted(self._open)]
        values = [x for i in range(len(self.squares)) for each in columns for x in lanes_of(each[i])]
        for bit in (2, 3, 4):
            low, high = values[:len(values) // 2], values[len(values) // 2:]
            given = [exchange(arith.select(self.has(bit), a, b), 1 << bit) for a, b in zip(low, high)]
            values = [arith.addf(arith.select(self.has(bit), b, a), x) for a, b, x in zip(low, high, given)]
        totals = self.uncentered(values, [x for each in columns for x in lanes_of(each[-1])]) if self.centered else [arith.extf(wide, x) for x in values]
        for i, total in enumerate(totals):
            at = words.add(self.base, 8 * 32 * (len(self.squares) * begin // 32 + i))
            store(arith.addf(load_shared(words, at, wide, 1), total), shared_pointer(words, at), 8)
        self._open = {}

    def has(self, bit: int) -> ir.Value:
        """Whether this lane's number has it."""
        words = self.words
        return words.equal(words.mask(words.shr(self.group.lane, bit), 1), 1)

    def uncentered(self, values: Sequence[ir.Value], centers: Sequence[ir.Value]) -> list[ir.Value]:
        """Sums of numbers, or in the other lanes of their squares, of what was taken ``centers`` off, in float64; the centers are those of all columns."""
        wide, upper = ir.F64Type.get(), self.has(2)
        for bit in (3, 4):
            half = len(centers) // 2
            centers = [arith.select(self.has(bit), b, a) for a, b in zip(centers[:half], centers[half:])]
        rows = self._rows
        for bit in (2, 3, 4) if rows is not None else ():
            rows = arith.addf(rows, exchange(rows, 1 << bit))
        rows = arith.constant(wide, 16.0) if rows is None else arith.extf(wide, rows)
        found = []
        for value, center in zip(values, centers):
            other = exchange(value, 4)
            own, sum_, center = (arith.extf(wide, x) for x in (value, arith.select(upper, other, value), center))
            taken = arith.mulf(rows, center)
            of_squares = arith.mulf(center, arith.addf(arith.addf(sum_, sum_), taken))
            found.append(arith.addf(own, arith.select(upper, of_squares, taken)))
        return found


def _wide(pair: ir.Value) -> ir.Value:
    wide = ir.VectorType.get([2], ir.F32Type.get())
    return pair if pair.type == wide else arith.extf(wide, pair)


def _zero(type_: ir.Type) -> ir.Value:
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(ir.F32Type.get(), 0.0)))


class _PlainEpilogue(_Sums, Epilogue):
    pass


class _HaloEpilogue(_Sums, HaloEpilogue):
    def is_inside(self, block: int, half: int) -> ir.Value | None:
        words, patch = self.words, self.patch
        if not self.hangs_over:
            return None
        (down, across), (further, beside) = patch.place(block), divmod(self.apart * half, patch.width)
        first, (*_, y, x) = words.shl(self.group.warp, 4), self.place_in_image
        row = words.add(words.add(y, words.div(first, patch.width)), down + further)
        column = words.add(words.add(words.add(x, words.rem(first, patch.width)), words.shr(self.group.lane, 2)), across + beside)
        rows, columns = patch.window.counts[-2:]
        return arith.andi(words.less(row, rows), words.less(column, columns))


class _Columns:
    """What an emitter does beside: all tiles of a block have the same columns."""

    scratch = ("!llvm.ptr<1> {llvm.noalias}",)

    def take(self, found: Summed) -> None:
        """What there are sums of, and where these go."""
        self.found = found

    def prepare(self) -> None:
        super().prepare()
        if not all(isinstance(n, int) for n in (self.tiles, self.columns, self.workers)):
            raise CompileError(f"@{self.name}: {self.schedule} needs to know how many tiles there are")
        self.workers = max(self.columns, self.workers // self.columns * self.columns)

    # In a warpgroup that multiplies.

    @property
    def sums_at(self) -> Integer:
        return self.words.add(self.device.shared, self.layout.barriers - self.schedule.sums_bytes)

    def begin_consumer(self) -> None:
        super().begin_consumer()
        words, s, group = self.words, self.schedule, self.epilogue.group
        warp = words.add(words.mul(group.number, WARPS), group.warp)
        own = words.add(words.mul(warp, s.sums_bytes // (WARPS * s.consumers)), words.shl(group.lane, 3))
        self.epilogue.sum_columns(self.found, words.add(self.sums_at, own))
        zero = arith.constant(ir.F64Type.get(), 0.0)
        for i in range(s.sums * s.tile_n // 32):
            store(zero, shared_pointer(words, words.add(self.epilogue.base, 8 * 32 * i)), 8)

    def end_consumer(self) -> None:
        """The sums of the block's warps, by number of the sum and column, to the workspace."""
        super().end_consumer()
        words, s, wide = self.words, self.schedule, ir.F64Type.get()
        self.meet_consumers()
        threads, count = 128 * s.consumers, s.sums * s.tile_n
        member = words.sub(self.thread, 128 * self.helpers)
        target = Elements(words, self.device.parameters[-1], wide, readonly=False)
        for begin in range(0, count, threads):
            number = words.add(member, begin)
            with only_if(words.less(number, count)):
                at = words.add(self.sums_at, words.shl(number, 3))
                parts = [load_shared(words, words.add(at, 8 * count * i), wide, 1) for i in range(WARPS * s.consumers)]
                total = parts[0]
                for part in parts[1:]:
                    total = arith.addf(total, part)
                which, column = self.column_of(number)
                place = words.add(words.mul(which, s.tile_n), column)
                target.write(total, words.add(words.mul(self.worker, count), place))

    def column_of(self, number: Integer) -> tuple[Integer, Integer]:
        """Which sum, and of which column of a tile, the ``number``th of a warp's in shared memory is: see ``_Sums.add_up``."""
        words, width = self.words, columns_together(self.contraction, self.tiling, self.schedule)
        each = self.schedule.sums * width // 32  # of a thread, of a part
        lane, line = words.mask(number, 31), words.shr(number, 5)
        part, own = words.div(line, each), words.rem(line, each)
        bits = [words.mask(words.shr(lane, bit), 1) for bit in (2, 3, 4)]
        eighth = words.add(words.add(words.shl(bits[0], 2), words.shl(bits[1], 1)), bits[2])
        inside = words.add(words.mul(eighth, each), own)
        which, pair = words.div(inside, width // 4), words.rem(inside, width // 4)
        column = words.add(words.add(words.shl(words.shr(pair, 1), 3), words.shl(words.mask(lane, 3), 1)), words.mask(pair, 1))
        return which, words.add(words.mul(part, width), column)

    # The kernel behind.

    @property
    def adding(self) -> str:
        return f"{self.name}_sums"

    def emit(self, module: ir.Block) -> None:
        super().emit(module)
        s, wide, count = self.schedule, ir.F64Type.get(), self.schedule.sums * self.schedule.tile_n
        parameters = ["!llvm.ptr<1> {llvm.noalias, llvm.readonly}", *["!llvm.ptr<1> {llvm.noalias}"] * s.sums]
        with device_kernel(module, self.adding, parameters, _LANES * _GROUPS, shared=True) as device:
            words = Words({})
            thread = special_register("tid.x")
            lane, group = words.mask(thread, 31), words.shr(thread, 5)
            block = special_register("ctaid.x")
            which, column = words.rem(block, s.sums), words.add(words.mul(words.div(block, s.sums), _LANES), lane)
            inside = words.min(column, self.tiling.n.size - 1)
            tile, own = words.div(inside, s.tile_n), words.rem(inside, s.tile_n)
            source = Elements(words, device.parameters[0], wide)
            of_tile = self.workers // self.columns
            place = words.add(words.add(words.mul(tile, count), words.mul(which, s.tile_n)), own)
            zero, total = arith.constant(wide, 0.0), None
            for i in range(ceildiv(of_tile, _GROUPS)):  # all are on their way at once
                row = words.add(group, _GROUPS * i)
                there = words.less(row, of_tile)
                value = source.read(words.add(place, words.mul(words.min(row, of_tile - 1), self.columns * count)))
                value = arith.select(there, value, zero)
                total = value if total is None else arith.addf(total, value)
            store(total, shared_pointer(words, words.add(device.shared, words.shl(thread, 3))), 8)
            nvvm.BarrierOp()
            with only_if(words.less(thread, _LANES)):
                for i in range(1, _GROUPS):
                    total = arith.addf(total, load_shared(words, words.add(device.shared, words.shl(words.add(thread, _LANES * i), 3)), wide, 1))
                with only_if(words.less(column, self.tiling.n.size)):
                    for i, (base, element) in enumerate(zip(device.parameters[1:], self.found.elements)):
                        with only_if(words.equal(which, i)):
                            value = total if element == wide else arith.truncf(element, total)
                            Elements(words, base, element, readonly=False).write(value, column)

    # The host's side.

    def launch_scratch(self) -> list[ir.Value]:
        self.partial = temporary((self.workers * self.schedule.sums * self.schedule.tile_n,), ir.F64Type.get())
        return [pointer(self.partial)]

    def launch(self, arguments: Sequence[ir.Value], copies: dict) -> None:
        super().launch(arguments, copies)
        blocks = self.schedule.sums * ceildiv(self.tiling.n.size, _LANES)
        parameters = [pointer(self.partial), *(pointer(arguments[a]) for a in self.found.into)]
        launch(f"{self.name}_gpu", self.adding, parameters, (blocks, 1, 1), (_LANES * _GROUPS, 1, 1), shared=8 * _LANES * _GROUPS)


class _PlainEmitter(_Columns, wgmma.Emitter):
    epilogue_type = _PlainEpilogue


class _WindowsEmitter(_Columns, im2col.Emitter):
    epilogue_type = _PlainEpilogue


class _HaloEmitter(_Columns, HaloEmitter):
    epilogue_type = _HaloEpilogue


class _PhasesEmitter(_Columns, PhasesEmitter):
    epilogue_type = _HaloEpilogue


def _emitter_for(s: ChannelSums, c: Contraction) -> type[_Columns]:
    if s.patch:
        return _HaloEmitter if im2col.halo_emitter(c) is HaloEmitter else _PhasesEmitter
    return _PlainEmitter if c.windows is None else _WindowsEmitter
