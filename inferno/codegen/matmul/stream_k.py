"""Contractions on Hopper's tensor cores whose last tiles are dealt out by their terms, so that every multiprocessor gets as many of them
(stream-K: Osama, Merrill, Cecka, Garland, Owens, "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", PPoPP 2023; here with its "two-tile" hybrid).

Blocks first walk over whole tiles, as always, but for the last round, full or not, and the one before it.  The steps of those tiles, in a
row, are cut into equal runs, one for each block, a tile long at least and less than two: the end of a tile, perhaps a whole one, the
beginning of another.  The block with a tile's end leaves its sums in the workspace and raises a flag; that is the first thing it does, so
the one with the beginning, which comes to it last, finds them there, adds them and finishes the tile: always the same two sums.
Where there are fewer tiles than blocks runs are shorter than a tile, and those of its middle leave their sums like that of its end.
With ``parts`` each tile is dealt out to as many blocks, all of which run at once, evenly but for a ``lead`` of the one that adds the others' sums.

Blocks of a cluster, which share what they copy, have the same runs, of tiles side by side, and each has its place in the workspace.

A block waits only for one with a lower number, which is on the GPU already, and which waits for none before it raises its flag: blocks
cannot wait for each other in a circle, however many of them are there (blocks start in the order of their numbers, as they do on every
GPU so far).  A kernel in front lowers the flags, for each launch its own.

Measured on an H200, 89 times of 35 matmuls of bf16: as fast as the best other schedule for three of them, else slower, as blocks at different terms
find less of the operands in L2.  So no model chooses it, but for ``parts`` of few tiles with many terms, and few rows of TF32 by registers, whose tiles are
few and read once; the tuner tries it.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, pointer, temporary
from inferno.codegen.matmul.wgmma import Emitter
from inferno.codegen.matmul.wgmma_registers import RegisterEmitter
from inferno.codegen.nvvm.builder import (
    WRITTEN_BUFFER, Device, Words, assembly, device_kernel, integer_type, loop, opaque, operation, special_register, store, widen_pointer,
)
from inferno.errors import CompileError
from inferno.mlir import arith, ir, scf
from inferno.schedule.matmul.wgmma_schedule import Wgmma, deals, parts_run_at_once
from inferno.symbolic import Int, ceildiv
from inferno.target import clusters_at_once


class StreamEmitter(Emitter):
    """A block's number is counted from the last: ``self.worker`` 0 is the one that the hardware starts last."""

    scratch: ClassVar[tuple[str, ...]] = ("!llvm.ptr<1>", "!llvm.ptr<1>")  # other blocks write there: they may alias for all LLVM knows

    def prepare(self) -> None:
        super().prepare()
        s = self.schedule
        at_once = clusters_at_once(s.cluster, self.target.multiprocessors)
        dealt = parts_run_at_once(s, self.tiles, self.steps, at_once) if s.parts else deals(self.tiles, self.steps, at_once)
        if self.contraction.varies or s.split > 1 or s.pingpong or not s.persistent or not dealt:
            raise CompileError(f"@{self.name}: {s} cannot deal out {self.steps} steps of {self.tiles} tiles")
        self.workers = s.parts * self.tiles or at_once
        rounds = 0 if s.parts else max(0, self.tiles // self.workers - 1)
        self.whole = rounds, rounds * self.workers  # rounds of whole tiles, and tiles
        self.floats = s.tile_m * s.tile_n // (128 * s.consumers)  # of a thread

    # The host's side.

    @property
    def clearing(self) -> str:
        return f"{self.name}_flags"

    @property
    def grid(self) -> Int:
        return self.workers

    def launch_scratch(self) -> list[ir.Value]:
        s = self.schedule
        sums = temporary((self.workers * s.cluster * s.tile_m * s.tile_n,), ir.F32Type.get())
        flags = temporary((self.flag_count,), integer_type(32))
        launch(f"{self.name}_gpu", self.clearing, [pointer(flags)], (1, 1, 1), (self.flag_count, 1, 1))
        return [pointer(sums), pointer(flags)]

    @property
    def flag_count(self) -> int:
        return self.workers * self.schedule.cluster * self.schedule.consumers

    def emit(self, module: ir.Block) -> None:
        with device_kernel(module, self.clearing, [WRITTEN_BUFFER], self.flag_count) as device:
            words = Words({})
            store(words.value(0), widen_pointer(words, device.parameters[0], special_register("tid.x"), 0, words.type), 4)
        super().emit(module)

    # The kernel.

    def begin(self, device: Device, maps: int) -> None:
        super().begin(device, maps)
        words = self.words
        self.partial, self.flags = device.parameters[-2:]
        self.worker = words.sub(self.workers - 1, self.worker)
        if self.schedule.parts:
            return
        # This block's run of steps of the last tiles.
        rest = (self.tiles - self.whole[1]) * self.steps
        each, more = divmod(rest, self.workers)

        def start(worker: Integer) -> Integer:
            return words.add(words.mul(worker, each), words.min(worker, more))

        self.run, self.runs = (start(self.worker), start(words.add(self.worker, 1))), (each, more)

    def each_tile(self, first: Integer, step: int, carried: Sequence[ir.Value], body: Callable) -> None:
        """Whole tiles, and then those that this block has steps of, ``self.first`` to ``self.end``."""
        words, parts, lead = self.words, self.schedule.parts, self.schedule.lead
        if parts:
            each, part = ceildiv(self.steps - lead, parts), words.rem(self.worker, parts)
            begin = words.add(words.mul(part, each), lead)
            self.first = words.select(words.equal(part, 0), 0, begin) if lead else begin
            self.end = words.min(words.add(begin, each), self.steps)
            body(words.div(self.worker, parts), *carried)
            return
        (rounds, whole), (begin, end) = self.whole, self.run
        from_, to = words.div(begin, self.steps), words.div(words.sub(end, 1), self.steps)

        def part(number: ir.Value, *carried: ir.Value) -> Sequence[ir.Value]:
            early = words.less(number, rounds)
            run = words.add(from_, words.sub(number, rounds))
            base = words.mul(run, self.steps)
            self.last = words.add(base, self.steps - 1)
            tile = words.select(early, words.add(self.worker, words.mul(number, self.workers)), words.add(run, whole))
            # Signed, since a run may begin or end in another tile.
            self.first = words.select(early, 0, arith.maxsi(words.sub(begin, base), words.value(0)))
            self.end = words.select(early, self.steps, words.min(words.sub(end, base), self.steps))
            return body(tile, *carried)

        loop(words, 0, words.add(words.add(words.sub(to, from_), 1), rounds), 1, carried, part)

    def complete(self, sums: list[ir.Value], previous: ir.Value, grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        values = self.multiplier.finish(sums)
        self.ring.release(previous, self.member)
        self.end_tile(values, grid, m0, n0)

    def end_tile(self, values: Sequence[Sequence[ir.Value]], grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        """Of the sums of this block's part of a tile."""
        words = self.words
        beginning = scf.IfOp(words.equal(self.first, 0), has_else=True)
        with ir.InsertionPoint(beginning.then_block):
            self.epilogue.begin(grid, m0, n0)
            count, flat = len(values[0]), [x for block in values for x in block]
            flat = self.add_others(flat) if self.schedule.parts else self.add_end(flat)
            self.epilogue.emit([flat[i:i + count] for i in range(0, len(flat), count)])
            scf.yield_([])
        with ir.InsertionPoint(beginning.else_block):
            self.leave([x for block in values for x in block])
            scf.yield_([])

    def add_end(self, sums: list[ir.Value]) -> list[ir.Value]:
        """``sums``, of a tile's first steps, plus those of its other steps, if there are any."""
        return if_else(self.words.equal(self.end, self.steps), [x.type for x in sums], lambda: sums, lambda: self.add_others(sums))

    # Sums on their way through the workspace: a consumer's threads lie side by side, 16 bytes of each.

    def sums_at(self, worker: Integer, number: int) -> ir.Value:
        words = self.words
        at = words.add(words.mul(self.place_of(worker), 128 * self.floats), words.shl(self.member, 2))
        return widen_pointer(words, self.partial, at, number * 128 * 16, ir.F32Type.get())

    def flag(self, worker: Integer) -> ir.Value:
        return widen_pointer(self.words, self.flags, self.place_of(worker), 0, self.words.type)

    def place_of(self, worker: Integer) -> Integer:
        """Of a consumer like this one, in a block like this one of its cluster."""
        words, s = self.words, self.schedule
        block = words.add(words.mul(worker, s.cluster), self.rank)
        return words.add(words.mul(block, s.consumers), self.number)

    def leave(self, sums: Sequence[ir.Value]) -> None:
        """Write a tile's sums, and say so when all threads of the consumer have."""
        words = self.words
        for i in range(len(sums) // 4):
            store(join(sums[4 * i:4 * i + 4]), self.sums_at(self.worker, i), 16)
        self.epilogue.barrier()
        with only_if(words.equal(self.member, 0)):
            assembly("fence.acq_rel.gpu; st.release.gpu.global.u32 [$0], 1;", [self.flag(self.worker)])

    def add_others(self, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """``sums``, of a tile's first steps, plus those of its other steps, which the next worker has left, or the next ones where runs are shorter
        than tiles."""
        words, parts = self.words, self.schedule.parts
        if parts:
            end = opaque(words, words.add(self.worker, parts))  # a loop also of one: otherwise all that is read is held at once, which spills
            return loop(words, words.add(self.worker, 1), end, 1, list(sums), lambda other, *sums: self.add_worker(other, sums))
        each, more = self.runs
        if each >= self.steps:
            return self.add_worker(words.add(self.worker, 1), sums)
        # The worker that has the tile's last step: of the first ones each has a step more.
        long = more * (each + 1)
        behind = words.add(words.div(words.sub(self.last, long), each), more)
        last = words.select(words.less(self.last, long), words.div(self.last, each + 1), behind) if more else words.div(self.last, each)
        return loop(words, words.add(self.worker, 1), words.add(last, 1), 1, list(sums), lambda other, *sums: self.add_worker(other, sums))

    def add_worker(self, other: Integer, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """``sums`` plus those that one worker has left."""
        words = self.words
        with only_if(words.equal(self.member, 0)):
            assembly(
                "{ .reg .pred p; .reg .u32 r; AGAIN: ld.acquire.gpu.global.u32 r, [$0]; setp.eq.u32 p, r, 0; @p bra AGAIN; }", [self.flag(other)],
            )
        self.epilogue.barrier()
        vector, alignment = ir.VectorType.get([4], ir.F32Type.get()), ir.IntegerAttr.get(integer_type(64), 16)
        parts = [operation("llvm.load", [vector], [self.sums_at(other, i)], alignment=alignment) for i in range(len(sums) // 4)]
        return [arith.addf(x, y) for x, y in zip(sums, [y for part in parts for y in lanes_of(part)])]


class StreamRegisterEmitter(StreamEmitter, RegisterEmitter):
    """With a lhs that goes to the tensor core by registers."""


def emitter_for(schedule: Wgmma) -> type[Emitter]:
    """What emits a kernel whose last tiles are dealt out, or whose lhs goes by registers, or both."""
    if not schedule.stream:
        return RegisterEmitter
    return StreamRegisterEmitter if schedule.registers else StreamEmitter
