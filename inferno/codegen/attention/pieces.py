"""Float32 numbers as sums of bf16 pieces, each with the next 8 bits: of operands of attention in a launch in front of it, and of its weights.

Pieces are cut off, not rounded: all have the number's sign, and three of them are it.  None but those of 0 are 0.  So products of infinite numbers
are infinite, or no numbers, where the numbers' own are, and none of their parts is 0 times infinity or infinities of both signs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from inferno.codegen.attention.pages import numbered
from inferno.codegen.attention.softmax import maximum
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of, word
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, pointer, temporary, tensor_map
from inferno.codegen.nvvm.builder import READ_BUFFER, WRITTEN_BUFFER, Words, device_kernel, integer_type, special_register, store, widen_pointer
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, ir
from inferno.passes.generics import float32
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.pages import Pages
from inferno.schedule.attention.schedule import LINE
from inferno.schedule.attention.splitting_producer import LANES
from inferno.schedule.attention.tiling import Copied
from inferno.schedule.matmul.contraction import Operand
from inferno.symbolic import Int, Symbol, ceildiv, divisor

_THREADS = 256  # of a block
_HIGH = -65536  # the bits of a float32 that are a bf16
_TINY = 2.0**-126  # the smallest piece, next to which a number is as good as exact if it is at least:
_SMALL = 2.0**-90
_TINY_WEIGHT = 2.0**-100  # beside weights, which are up to 1
_NO_NUMBER = 0x7FC00000  # a quiet NaN's bits


def weight_pieces(pair: Sequence[ir.Value], count: int) -> list[ir.Value]:
    """The pieces of two numbers from 0 to 1, each in one register."""
    rest, pieces = list(pair), []
    for piece in range(count):
        bits = [_bits(x) for x in rest]
        pieces.append(_together(bits))
        if piece < count - 1:
            rest = [maximum(arith.subf(x, _high(b)), float32(_TINY_WEIGHT)) for x, b in zip(rest, bits)]
    return pieces


def read_lanes(words: Words, source: Elements, at: Integer, strides: Sequence[Int], offset: Int) -> list[ir.Value]:
    """Neighbours of a row from ``at`` on, of a tensor with these strides, the row's first, that begins at an offset."""
    inner, *others = strides
    if inner == 1:
        return lanes_of(source.read(at, 0, LANES, gcd(4, *(divisor(x) for x in (offset, *others)))))
    if isinstance(inner, int):
        return [source.read(at, i * inner) for i in range(LANES)]
    return [source.read(words.add(at, i * inner)) for i in range(LANES)]


def pieces_of(pair: Sequence[ir.Value], count: int) -> list[ir.Value]:
    """The pieces of two numbers, each in one register."""
    signs = [arith.andi(_bits(x), word(-1 << 31)) for x in pair]
    least = [arith.select(arith.cmpf(arith.CmpFPredicate.OGT, _absolute(x), float32(_SMALL)), float32(_TINY), float32(0.0)) for x in pair]
    rest, pieces = list(pair), []
    for piece in range(count):
        bits = [_bits(x) for x in rest]
        if piece == 0:  # what tells a NaN may be among the low bits
            bits = [arith.select(arith.cmpf(arith.CmpFPredicate.UNO, x, x), word(_NO_NUMBER), b) for x, b in zip(rest, bits)]
        pieces.append(_together(bits))
        if piece < count - 1:
            rest = [_signed(maximum(_absolute(arith.subf(x, _high(b))), t), s) for x, b, t, s in zip(rest, bits, least, signs)]
    return pieces


@dataclass(frozen=True)
class Pieces:
    """The launch that makes the pieces of tensors.  A tensor's are one behind the other, each [its heads, rows, columns]."""

    words: Words
    operands: Sequence[Operand]
    tensors: Sequence[Copied]
    count: int

    @property
    def tables(self) -> list[Access]:
        """Those of operands in pages."""
        return [o.pages.table for o in self.operands if o.pages is not None]

    def elements(self, t: Copied) -> Int:
        return t.axes[0].size * t.axes[1].size * t.heads

    def blocks(self, t: Copied) -> Int:
        return ceildiv(self.elements(t), LANES * _THREADS)

    def launch(
        self, name: str, operands: Sequence[tuple[ir.Value, Copied, int]], arguments: Sequence[ir.Value], sizes: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """On the host: split (buffer, tensor, rows of a box) and return the tensor maps of the pieces; ``arguments`` are the kernel's, ``sizes`` those
        that vary."""
        made = [temporary((self.count * self.elements(t),), ir.BF16Type.get()) for _, t, _ in operands]
        tables = [pointer(arguments[t.argument]) for t in self.tables]
        parameters = [*(pointer(buffer) for buffer, _, _ in operands), *map(pointer, made), *tables, *sizes]
        launch(f"{name}_gpu", f"{name}_pieces", parameters, (sum(map(self.blocks, self.tensors)), 1, 1), (_THREADS, 1, 1))
        maps = []
        for buffer, (_, t, rows) in zip(made, operands):
            columns, lines = t.axes[0].size, t.axes[1].size
            sizes, strides = [columns, lines, t.heads * self.count], [2, 2 * columns, 2 * columns * lines]
            maps.append(tensor_map(buffer, sizes=sizes, strides=strides, box=[LINE, rows, 1], element="bf16"))
        return maps

    def emit(self, module: ir.Block, name: str, symbols: Sequence[Symbol]) -> None:
        words, count = self.words, len(self.tensors)
        pointers = [READ_BUFFER] * count + [WRITTEN_BUFFER] * count
        pointers += [READ_BUFFER] * len(self.tables)
        with device_kernel(module, f"{name}_pieces", [*pointers, *["i64"] * len(symbols)], _THREADS) as device:
            words.take(symbols, device.parameters[len(pointers):])
            tables = iter([Elements(words, p, t.element) for p, t in zip(device.parameters[2 * count:], self.tables)])
            block, thread, first = special_register("ctaid.x"), special_register("tid.x"), 0
            for t, o, source, target in zip(self.tensors, self.operands, device.parameters, device.parameters[count:]):
                table = None if o.pages is None else next(tables)
                number = words.add(words.mul(words.sub(block, first), _THREADS), thread)
                with only_if(arith.andi(words.at_least(block, first), words.less(number, self.elements(t) // LANES))):
                    self.split(t, Elements(words, source, o.access.element), o, table, number, target)
                first += self.blocks(t)

    def split(self, t: Copied, source: Elements, o: Operand, table: Elements | None, number: Integer, target: ir.Value) -> None:
        """Some neighbours of a row."""
        words, columns, rows, access = self.words, t.axes[0].size, t.axes[1].size, o.access
        inner, outer, *others = t.strides
        if inner == 1 or columns == 1:
            row, column = words.div(number, columns // LANES), words.rem(number, columns // LANES)
            head, row = words.div(row, rows), words.rem(row, rows)
        else:  # neighbouring threads have neighbouring rows
            row, column = words.rem(number, rows), words.div(number, rows)
            head, column = words.div(column, columns // LANES), words.rem(column, columns // LANES)
        column = words.mul(column, LANES)
        where = words.split(head, [a.size for a in t.axes[2:]])
        at, strides, size = [column, row, *where], [inner, outer, *others], self.elements(t)
        if o.pages is not None:
            at[1], page = words.rem(row, o.pages.rows), self.page(t, o.pages, table, row, where)
            at, strides, others = [*at, page], [*strides, o.pages.of.step], [*others, o.pages.of.step]
        if isinstance(size, int) and o.pages is None:
            at = words.dot(at, strides, access.offset)
        else:
            source, at = source.moved(at, strides, access.offset), 0
        values = read_lanes(words, source, at, t.strides, access.offset)
        pairs = [pieces_of(values[i:i + 2], self.count) for i in range(0, LANES, 2)]
        to = words.add(words.mul(words.add(words.mul(head, rows), row), columns), column)
        for piece in range(self.count):
            if isinstance(size, int):
                place = widen_pointer(words, target, to, 2 * piece * size, ir.BF16Type.get())
            else:
                made = Elements(words, target, ir.BF16Type.get()).moved([head, row, column], [rows * columns, columns, 1], piece * size)
                place = made.base
            store(join([p[piece] for p in pairs]), place, 16)

    def page(self, t: Copied, pages: Pages, table: Elements, row: Integer, where: Sequence[Integer]) -> ir.Value:
        """The page that a row is in; the last one for what is none."""
        words, access = self.words, pages.table
        at = words.dot([*where, words.div(row, pages.rows)], [*(a.stride(access) for a in t.axes[2:]), pages.entry], access.offset)
        found = numbered(table.read(at), pages)
        found = arith.minui(found, arith.constant(found.type, pages.of.count - 1))
        return found if found.type == words.type else arith.trunci(words.type, found)


def _bits(x: ir.Value) -> ir.Value:
    return arith.bitcast(integer_type(32), x)


def _high(bits: ir.Value) -> ir.Value:
    return arith.bitcast(ir.F32Type.get(), arith.andi(bits, word(_HIGH)))


def _absolute(x: ir.Value) -> ir.Value:
    return arith.bitcast(ir.F32Type.get(), arith.andi(_bits(x), word((1 << 31) - 1)))


def _signed(x: ir.Value, sign: ir.Value) -> ir.Value:
    """A number that is not negative with a sign."""
    return arith.bitcast(ir.F32Type.get(), arith.ori(_bits(x), sign))


def _together(bits: Sequence[ir.Value]) -> ir.Value:
    """The high halves of two registers in one, the first in the low half."""
    low = arith.shrui(bits[0], word(16))
    return arith.ori(low, arith.andi(bits[1], word(_HIGH)))
