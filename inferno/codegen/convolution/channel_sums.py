"""Contractions that also add up the columns of a result: generators ``im2col`` and ``wgmma`` with another end of a tile, and a small kernel behind.

A warp adds up its 16 rows of some columns in registers, by shuffles that leave each thread the totals of as few columns as there are threads for, and adds
these to its own numbers in shared memory.  When a block has no more tiles its warps' numbers are added up and go to the workspace; the kernel behind adds
up those of all blocks that had the columns.  Nothing is added in an order that depends on time.
"""

from collections.abc import Sequence

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, pointer, temporary
from inferno.codegen.convolution import im2col
from inferno.codegen.convolution.halo import HaloEmitter
from inferno.codegen.convolution.halo_phases import PhasesEmitter
from inferno.codegen.convolution.summing_epilogue import SummingEpilogue, SummingHaloEpilogue
from inferno.codegen.matmul import wgmma
from inferno.codegen.nvvm.builder import READ_BUFFER, WRITTEN_BUFFER, Words, device_kernel, load_shared, shared_pointer, special_register, store
from inferno.codegen.nvvm.global_memory import Elements
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm
from inferno.schedule.convolution.channel_sums import WARPS, ChannelSums, takes_schedule, tiling_of
from inferno.schedule.convolution.summed_columns import Summed, parse_summed
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.wgmma_schedule import precision
from inferno.schedule.tiles.result_parts import columns_together
from inferno.symbolic import ceildiv
from inferno.target import Target

_LANES, _GROUPS = 32, 8  # of the kernel behind: neighbouring columns of a block, and threads that share the blocks' sums of one


def generate(kernel: func.FuncOp, schedule: ChannelSums, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction with sums of its columns and make ``kernel`` its launcher."""
    found = parse_summed(kernel, target, schedule.windows)
    tiling = tiling_of(found.contraction) if found is not None else None
    if tiling is None or schedule.sums != len(found.squares) or not takes_schedule(schedule, found.contraction, tiling):
        raise CompileError(f"@{kernel.name.value} is not a contraction with sums of its columns by {schedule}")
    c = found.contraction
    wgmma.prepare_bodies(c)
    made = _emitter_for(schedule, c)(kernel.name.value, c, tiling, schedule, target, precision(found.head, c))
    made.take(found)
    wgmma.emit(kernel, made)


class _Columns:
    """What an emitter does beside: all tiles of a block have the same columns."""

    scratch = (WRITTEN_BUFFER,)

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
        """Which sum, and of which column of a tile, the ``number``th of a warp's in shared memory is: see ``SummingEpilogue.add_up``."""
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
        parameters = [READ_BUFFER, *[WRITTEN_BUFFER] * s.sums]
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
    epilogue_type = SummingEpilogue


class _WindowsEmitter(_Columns, im2col.Emitter):
    epilogue_type = SummingEpilogue


class _HaloEmitter(_Columns, HaloEmitter):
    epilogue_type = SummingHaloEpilogue


class _PhasesEmitter(_Columns, PhasesEmitter):
    epilogue_type = SummingHaloEpilogue


def _emitter_for(s: ChannelSums, c: Contraction) -> type[_Columns]:
    if s.patch:
        return _HaloEmitter if im2col.halo_emitter(c) is HaloEmitter else _PhasesEmitter
    return _PlainEmitter if c.windows is None else _WindowsEmitter
