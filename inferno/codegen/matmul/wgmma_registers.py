"""TF32 contractions whose lhs has its terms outermost in memory, on Hopper's tensor cores: the lhs goes to them by registers.

The tensor core reads TF32 tiles with their terms innermost only; but of the lhs a thread's part of a product, four numbers, may also come from
its registers.  So tiles of such a lhs lie in shared memory as the copy engine brings them, lines of 32 rows for each term, and consumers load
what they need of a step while the one before is multiplied.  For few rows of ``x @ w`` that is the transposed product: ``w``, read once, is
the lhs, and all rows of ``x`` are the columns of a tile.

Which of a tile's rows is which of the tensor core's is free.  Here the rows of a thread, 8 apart there, are neighbours, loaded as one pair, and the
eight of a term are apart by what lets 16 threads read all banks of shared memory at a time: row ``8h + g`` of warp w, of 16, is row
``h + 2 (g & 1) + 4 (g >> 2) + 8 (w & 1) + 16 (g >> 1 & 1)`` of panel ``w >> 1``, of 32.
"""

from collections.abc import Sequence
from typing import ClassVar

from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.wgmma import Emitter
from inferno.codegen.matmul.wgmma_epilogue import Epilogue
from inferno.codegen.nvvm.builder import integer_type, load_shared, loop
from inferno.codegen.nvvm.mbarriers import Position
from inferno.codegen.nvvm.tensor_core import Tile, matrix_address, multiply_registers, pin
from inferno.errors import CompileError
from inferno.mlir import arith, ir, nvvm
from inferno.passes.generics import float32
from inferno.schedule.analysis.accesses import Access
from inferno.symbolic import is_multiple

_PANEL = 32  # rows of a line of 128 bytes
_TERMS = 8  # of a product
_UNREAD = 13  # low bits of a float32 that TF32 has not


class RegisterEpilogue(Epilogue):
    """Of a consumer's tile with its rows in that order; threads write results themselves."""

    apart: ClassVar[int] = 1

    def first_row(self) -> Integer:
        words, warp, row = self.words, self.group.warp, self.words.shr(self.group.lane, 2)
        parts = (
            words.shl(words.shr(warp, 1), 5), words.shl(words.mask(warp, 1), 3),
            words.shl(words.mask(row, 1), 1), words.shl(words.mask(words.shr(row, 1), 1), 4), words.shl(words.shr(row, 2), 2),
        )
        made = parts[0]
        for part in parts[1:]:
            made = words.add(made, part)
        return made

    def write_halves(self, access: Access, down: int, first: int, pairs: Sequence[Sequence[ir.Value]]) -> None:
        words, m, n = self.words, self.tiling.m, self.tiling.n
        step, others = n.stride(access), [access.offset, m.size, n.stride(access), *(a.stride(access) for a in self.tiling.grid)]
        if m.stride(access) != 1 or not all(is_multiple(x, 2) for x in others):
            super().write_halves(access, down, first, pairs)
            return
        # Two rows are one aligned pair in memory.
        row = words.add(self.row, down)
        offset, inside = self.offset(access, row, self.column), [words.less(row, m.size)] if m.size % self.schedule.tile_m else []
        for j, both in enumerate(pairs, first):
            for lane, value in enumerate(zip(*(lanes_of(each) for each in both))):
                column = 8 * j + lane
                outside = n.size % self.schedule.tile_n != 0
                conditions = [*inside, words.less(words.add(self.column, column), n.size)] if outside else inside
                self._write_if(conditions, self.tensor(access), join(list(value)), offset, column * step)


class RegisterEmitter(Emitter):
    epilogue_type = RegisterEpilogue

    def prepare(self) -> None:
        t, s = self.tiling, self.schedule
        if self.kind != "tf32" or t.lhs.along_k or not t.rhs.along_k or any(o.raw is not None or o.copied for o in (t.lhs, t.rhs)):
            raise CompileError(f"@{self.name}: {s} is for a TF32 lhs whose terms are not innermost")
        if s.tile_m != 64 * s.consumers or s.pingpong or s.cluster > 1 or s.chunks > 1 or s.lhs_rows or s.inside or s.bring:
            raise CompileError(f"@{self.name}: {s} has a lhs in registers and what that is not made for")
        self.lhs = Tile(s.tile_m, 4, False, s.row, _PANEL)
        super().prepare()

    @property
    def releases(self) -> int:
        return 4 * self.readers  # a thread of each warp: they load on their own

    def consume(self) -> None:
        words = self.words
        self.begin_consumer()
        lane, warp = self.epilogue.group.lane, self.epilogue.group.warp
        self.rhs_base = matrix_address(words, words.add(self.device.shared, self.layout.rhs))
        # Where this thread's first term is, 8 bytes in a line; and of the terms four further, under another part of the swizzle.
        term, row = words.mask(lane, 3), words.shr(lane, 2)
        piece = words.add(words.shl(words.mask(words.shr(row, 1), 1), 2), words.add(words.shl(words.mask(warp, 1), 1), words.shr(row, 2)))
        inside = words.add(words.shl(words.xor(piece, term), 4), words.shl(words.mask(row, 1), 3))
        panel = words.add(words.shl(self.number, 1), words.shr(warp, 1))
        line = words.add(words.add(self.device.shared, words.mul(panel, self.lhs.panel_bytes)), words.mul(term, self.lhs.span))
        line = words.add(line, self.layout.lhs)
        self.places = [words.add(line, inside), words.add(words.add(line, 4 * self.lhs.span), words.xor(inside, 64))]
        self.each_tile(*self.tiles_of(self.number), self.ring.start().values, lambda n, *at: self.compute(n, Position(*at)).values)
        self.end_consumer()

    def compute(self, number: ir.Value, at: Position) -> Position:
        s, words = self.schedule, self.words
        grid, m0, n0 = self.tile(number)
        m0 = words.add(m0, words.mul(self.number, s.rows))
        self.ring.await_full(at)
        factors = self.mask(self.load(at.slot))
        sums = [float32(0.0)] * (s.tile_n // 2)

        def step(_, slot: ir.Value, parity: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            here, factors, sums = self.step(Position(slot, parity), carried[:len(factors_)], carried[len(factors_):])
            return [*here.values, *factors, *sums]

        factors_ = factors
        carried = loop(words, words.add(self.first, 1), self.end, 1, [*at.values, *factors, *sums], step)
        at, factors, sums = Position(*carried[:2]), carried[2:2 + len(factors)], carried[2 + len(factors):]
        if s.split == 1 and not s.stream:
            self.epilogue.begin(grid, m0, n0)
        at, _, sums = self.step(at, factors, sums, last=True)
        if s.split > 1:
            self.add_up_parts([sums], grid, m0, n0)
        else:
            self.end_tile([sums], grid, m0, n0)
        return at

    def end_tile(self, values: Sequence[Sequence[ir.Value]], grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        self.epilogue.emit(values)

    def load(self, slot: ir.Value) -> list[ir.Value]:
        """This thread's numbers of a step of the lhs: for each 8 terms two rows of one term, and of the one four further."""
        words, moved, found = self.words, self.words.mul(slot, self.lhs.bytes), []
        bases = [words.add(place, moved) for place in self.places]
        for term in range(0, self.depth, _TERMS):
            for base in bases:
                pair = load_shared(words, words.add(base, term * self.lhs.span), ir.F32Type.get(), 2)
                found += [arith.bitcast(integer_type(32), x) for x in lanes_of(pair)]
        return found

    def step(
        self, here: Position, factors: Sequence[ir.Value], sums: Sequence[ir.Value], last: bool = False,
    ) -> tuple[Position, list[ir.Value], list[ir.Value]]:
        """Multiply a step, whose part of the lhs is in ``factors``, while the next one's is loaded: its position, factors and sums."""
        words, count, following = self.words, len(factors), self.ring.next(here)
        pinned = pin("wgmma.fence.sync.aligned;", [*factors, *sums])
        factors, sums = pinned[:count], pinned[count:]
        base = words.add(self.rhs_base, words.mul(here.slot, self.rhs.bytes >> 4))
        for number, term in enumerate(range(0, self.depth, _TERMS)):
            descriptor = self.rhs.descriptor(words, base, 0, term)
            sums = multiply_registers(sums, factors[4 * number:4 * number + 4], descriptor, False, False, "tf32")
        nvvm.WgmmaGroupSyncAlignedOp()
        loaded = []
        if not last:
            self.ring.await_full(following)
            loaded = self.load(following.slot)
            # A block's end, which keeps the wait for the products behind the loads.
            self.ring.await_full(following)
        sums = pin("wgmma.wait_group.sync.aligned 0;", sums)
        self.ring.release(here.slot, self.epilogue.group.lane)
        return following, self.mask(loaded), sums

    def mask(self, loaded: Sequence[ir.Value]) -> list[ir.Value]:
        """What the tensor core reads of these numbers.  It would itself; but while products run their registers may not be loaded to (the assembler
        then starts each product when the one before is done), so that there are others in between."""
        bits = arith.constant(integer_type(32), -(1 << _UNREAD))
        return [arith.andi(x, bits) for x in loaded]
