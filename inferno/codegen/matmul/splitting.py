"""Split a float32 number into three bf16 numbers whose sum it is, in the layout that the tensor core reads.

``x = high + middle + low``: each is the nearest bf16 to what the ones before leave over, so that three times 8 bits hold the 24
of ``x`` (from 2^-110 on; below, the last ones fall out of bf16's range).  Infinity leaves NaN over.
The rhs goes through shared memory; the lhs from shared memory to registers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.rewriting import Rewriting
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import integer_type, load_shared, loop, operation, shared_pointer, store
from inferno.errors import CompileError
from inferno.mlir import arith, ir, llvm
from inferno.schedule.matmul.bf16x6 import CUT, DEPTH
from inferno.schedule.tiles.tiling import Axis

PARTS = 3  # of 8 bits each: float32's 24
_TOGETHER = 4  # loads under way at the same time, at most


def split(first: ir.Value, second: ir.Value, larger: bool = False) -> list[ir.Value]:
    """The high, middle and low parts of two numbers, each part of both in one 32-bit register, ``first`` in the low half.  ``larger`` by ``CUT``."""
    rest, parts = [first, second], []
    for i in range(PARTS):
        both = arith.truncf(ir.VectorType.get([2], ir.BF16Type.get()), join(rest))
        both = operation("llvm.bitcast", [integer_type(32)], [both])
        parts.append(both)
        if i < PARTS - 1:
            sixteen, mask = (arith.constant(integer_type(32), n) for n in (16, -65536))
            wide = [arith.shli(both, sixteen), arith.andi(both, mask)]
            rest = [arith.subf(r, arith.bitcast(ir.F32Type.get(), w)) for r, w in zip(rest, wide)]
    return [*parts[:-1], _larger(parts[0], parts[-1])] if larger else parts


def _larger(high: ir.Value, low: ir.Value) -> ir.Value:
    """The low parts of two numbers, larger by ``CUT`` of the numbers, if one of them has a low part: packed, since what splits is what waits (one by one in
    float32, 64x4096x4096 took 37.1 us, without 33.1; LLVM has no packed fma)."""
    share = arith.constant(low.type, 0x10001 * (np.float32(CUT).view(np.uint32).item() >> 16))
    text = "{ .reg .pred p; setp.ne.b32 p, $2, 0; mov.b32 $0, $2; @p fma.rn.bf16x2 $0, $1, $3, $2; }"
    return llvm.inline_asm(low.type, [high, low, share], text, "=&r,r,r,r")


def split_all(values: Sequence[ir.Value], larger: bool = False) -> list[list[ir.Value]]:
    """For each part the registers of all values, two values each."""
    pairs = [split(*values[i:i + 2], larger) for i in range(0, len(values), 2)]
    return [[p[part] for p in pairs] for part in range(PARTS)]


@dataclass(frozen=True)
class Pieces(Rewriting):
    """Rewrites tiles of the rhs: four float32 at a time to three tiles of bf16, one behind the other.

    Thread after thread takes the next four, all ``threads`` of them whole lines of the raw tile, so that from turn to turn a
    thread's addresses change by constants.
    ``interleaved``: position 16t + 8h + 2q + j along k holds term 8q + 4t + 2h + j, as the lhs's 16-byte loads ask.
    """

    interleaved: bool = False

    @property
    def lanes(self) -> int:
        return 4

    @property
    def pieces(self) -> int:
        """``emit`` deals out fours, of bytes too."""
        return 1

    def emit(
        self, thread: ir.Value, raw: Integer, slot: Integer, first: Integer, k0: Integer, where: dict[Axis, Integer],
    ) -> None:
        words, tile = self.words, self.tile
        line = (DEPTH if tile.along_k else tile.rows) // 4  # loads
        if self.threads % line or self.threads & (self.threads - 1):
            raise CompileError(f"{self.threads} threads cannot split lines of {4 * line} numbers")
        number, inside = words.div(thread, line), words.shl(words.rem(thread, line), 2)
        row, term = (number, inside) if tile.along_k else (inside, number)
        lines, turns = self.threads // line, tile.rows * DEPTH // 4 // self.threads
        base, piece = words.add(slot, self.offset(row, term)), self.piece(row, term)

        def some(row: Integer, base: Integer, begin: int, count: int) -> list[ir.Value]:
            now = [lines * turn for turn in range(begin, begin + count)]
            places = [(words.add(row, n), term) if tile.along_k else (row, words.add(term, n)) for n in now]
            loaded = [self.load(raw, *place)[0] for place in places]
            for n, place, values in zip(now, places, loaded):
                value = self.compute(values, words.add(first, place[0]), words.add(k0, place[1]), where)
                for part, registers in enumerate(split_all(lanes_of(value), larger=True)):
                    self.store(words.add(base, part * tile.bytes), piece, n, registers)
            return []

        together = min(turns, _TOGETHER)
        if tile.along_k and turns > together:  # (a loop: in straight code LLVM would keep all addresses in registers)
            loop(words, 0, turns, together, [], lambda turn: some(
                words.add(row, words.mul(turn, lines)), words.add(base, words.mul(turn, lines * tile.row)), 0, together))
        else:
            for begin in range(0, turns, together):
                some(row, base, begin, together)

    def position(self, term: Integer) -> Integer:
        """Where a term lies along k."""
        if not self.interleaved:
            return term
        words = self.words
        t, h = words.mask(words.shr(term, 2), 1), words.mask(words.shr(term, 1), 1)
        q, j = words.shr(term, 3), words.mask(term, 1)
        return words.add(words.add(words.shl(t, 4), words.shl(h, 3)), words.add(words.shl(q, 1), j))

    def offset(self, row: Integer, term: Integer) -> Integer:
        """Where the line of a place begins, and the bytes of the place inside 16."""
        words, tile, at = self.words, self.tile, self.position(term)
        if tile.along_k:
            return words.add(words.mul(row, tile.row), words.mask(words.shl(at, 1), 15))
        panel, inside = words.div(row, tile.panel), words.rem(row, tile.panel)
        line = words.add(words.mul(panel, tile.panel_bytes), words.mul(at, tile.span))
        return words.add(line, words.mask(words.shl(inside, 1), 15))

    def piece(self, row: Integer, term: Integer) -> Integer:
        """The number of the 16 bytes in the line that hold a place."""
        words, tile, at = self.words, self.tile, self.position(term)
        if tile.along_k:
            return tma.swizzled(words, row, words.shr(at, 3), tile.span)
        return tma.swizzled(words, at, words.shr(words.rem(row, tile.panel), 3), tile.span)

    def store(self, base: Integer, piece: Integer, further: int, registers: list[ir.Value]) -> None:
        """Four neighbours, two a register, ``further`` lines (a power of 2 of them, or a multiple) behind ``base``."""
        words, tile = self.words, self.tile
        # What is further has other bits of the number than ``base``, so that what is added may be exclusive as well.
        at = self.position(further)
        if tile.along_k:
            address, piece = words.add(base, further * tile.row), words.xor(piece, tma.swizzled(words, further, 0, tile.span))
            if self.interleaved:  # pairs of terms lie 8 positions apart
                for h, register in enumerate(registers):
                    self.write(address, words.xor(piece, h), [register])
                return
            self.write(address, piece, registers)
            return
        moved = words.xor(piece, tma.swizzled(words, at, 0, tile.span))
        self.write(words.add(base, at * tile.span), moved, registers)

    def write(self, base: Integer, piece: Integer, registers: list[ir.Value]) -> None:
        words = self.words
        value = registers[0] if len(registers) == 1 else join(registers)
        store(value, shared_pointer(words, words.add(base, words.shl(piece, 4))), 4 * len(registers))


@dataclass(frozen=True)
class Fragments(Rewriting):
    """Reads a consumer's 64 rows of a step of the lhs to registers: thread t has rows t/32 * 16 + t%32/4 + 8h.

    A raw tile lies under the swizzle of 128 bytes: rows of 32 terms, whose 16-byte pieces 2q + t thread q = t%4 reads, or
    panels of 32 rows with a line for each term.  ``tile`` says that a thread's neighbours lie along k.
    """

    @property
    def lanes(self) -> int:
        return 4 if self.source.raw_along_k else 2

    def read_step(
        self, base: Integer, row: Integer, quad: Integer, first: Integer, k0: Integer, where: dict[Axis, Integer],
    ) -> list[ir.Value]:
        """The 16 numbers of a thread whose first row in the tile is ``row``, at shared address ``base``: for each 16 terms
        the eight of the tensor core's four registers in order."""
        words, numbers = self.words, []
        for t in range(2):
            rows = []
            for half in range(2):
                at = words.add(row, 8 * half)
                if self.source.raw_along_k:
                    terms = [words.add(words.shl(quad, 3), 4 * t)]
                    loaded = [self.piece(base, at, words.add(words.shl(quad, 1), t))]
                else:
                    terms = [words.add(words.shl(quad, 1), 16 * t + 8 * h) for h in range(2)]
                    loaded = [join([self.element(base, at, words.add(term, j)) for j in range(2)]) for term in terms]
                values = [
                    self.compute(value, words.add(first, at), words.add(k0, term), where)
                    for value, term in zip(loaded, terms)
                ]
                rows.append([x for v in values for x in lanes_of(v)])
            for h in range(2):
                numbers += [*rows[0][2 * h:2 * h + 2], *rows[1][2 * h:2 * h + 2]]
        return numbers

    def piece(self, base: Integer, row: Integer, number: Integer) -> ir.Value:
        words = self.words
        address = words.add(words.add(base, words.shl(row, 7)), words.shl(tma.swizzled(words, row, number, 128), 4))
        return load_shared(words, address, self.source.raw.element, 4)

    def element(self, base: Integer, row: Integer, term: Integer) -> ir.Value:
        words, inside = self.words, self.words.mask(row, 31)
        line = words.add(words.mul(words.shr(row, 5), DEPTH * 128), words.shl(term, 7))
        piece = words.shl(tma.swizzled(words, term, words.shr(inside, 2), 128), 4)
        address = words.add(words.add(base, line), words.add(piece, words.shl(words.mask(inside, 3), 2)))
        return load_shared(words, address, self.source.raw.element, 1)
