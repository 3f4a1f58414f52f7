"""A kernel that splits a float32 operand into three bf16 for the kernel behind it, where the operand is no weight that was split before.

A thread makes 8 neighbouring terms of a line of each part, 16 bytes; four threads a whole block of 32, which are two of L2's sectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.splitting import PARTS, split_all
from inferno.codegen.nvvm.builder import READ_BUFFER, WRITTEN_BUFFER, Words, device_kernel, integer_type, special_register
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, ir
from inferno.passes.generics import float32
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.bf16x6 import DEPTH
from inferno.schedule.matmul.presplit import padded
from inferno.schedule.tiles.tiling import Axis
from inferno.symbolic import ceildiv

THREADS = 256  # of a block
_TERMS = 8  # of a thread
_LINES = 8  # neighbours of one term that are read together where lines are innermost: a sector


@dataclass(frozen=True)
class SplitAhead:
    """``access`` is the factor, of known sizes, with ``lines`` and ``terms``; its parts are [3, lines, terms], lines of whole steps that end in zeros.
    ``interleaved``: the order of terms, as ``presplit.is_interleaved`` says."""

    access: Access
    lines: Axis
    terms: Axis
    interleaved: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        return PARTS, self.lines.size, padded(self.terms.size)

    @property
    def blocks(self) -> int:
        return ceildiv(ceildiv(self.lines.size, _LINES) * _LINES * (self.shape[2] // _TERMS), THREADS)

    def emit(self, module: ir.Block, name: str) -> None:
        """Add the kernel ``@name``, of the factor and its parts, to the block of a gpu.module."""
        pointers = [READ_BUFFER, WRITTEN_BUFFER]
        with device_kernel(module, name, pointers, THREADS) as device:
            words, chunks = Words({}), self.shape[2] // _TERMS
            item = words.add(words.mul(special_register("ctaid.x"), THREADS), special_register("tid.x"))
            if self.terms.stride(self.access) == 1 or self.lines.stride(self.access) != 1:
                line, chunk = words.split(item, [self.lines.size, chunks])
            else:
                group, block, line, chunk = words.split(item, [ceildiv(self.lines.size, _LINES), chunks // 4, _LINES, 4])
                line, chunk = words.add(words.mul(group, _LINES), line), words.add(words.shl(block, 2), chunk)
            with only_if(words.less(line, self.lines.size)):
                self.item(words, line, chunk, *device.parameters)

    def item(self, words: Words, line: Integer, chunk: Integer, source: ir.Value, target: ir.Value) -> None:
        factor = Elements(words, source, self.access.element)
        base = words.add(words.mul(line, self.lines.stride(self.access)), self.access.offset)
        if self.interleaved:  # position 16t + 8h + 2q + j has term 8q + 4t + 2h + j
            first = words.add(words.mul(words.shr(chunk, 2), DEPTH), words.shl(words.mask(chunk, 3), 1))
            numbers = [x for q in range(4) for x in self.read(words, factor, base, words.add(first, 8 * q), 2)]
        else:
            numbers = [x for i in (0, 4) for x in self.read(words, factor, base, words.add(words.mul(chunk, _TERMS), i), 4)]
        written = Elements(words, target, integer_type(32))
        _, lines, terms = self.shape
        at = words.add(words.mul(line, terms // 2), words.mul(chunk, _TERMS // 2))
        for part, registers in enumerate(split_all(numbers, larger=True)):
            written.write(join(registers), at, part * lines * (terms // 2), aligned=4)

    def read(self, words: Words, factor: Elements, base: Integer, term: Integer, count: int) -> Sequence[ir.Value]:
        """So many terms of a line, zeros behind its end."""
        step, size = self.terms.stride(self.access), self.terms.size
        together = gcd(count, size, self.lines.stride(self.access), self.access.offset) if step == 1 else 1
        zero, found = float32(0.0), []
        for i in range(0, count, together):
            at = words.add(term, i)
            place = at if size % DEPTH == 0 else words.min(at, size - together)
            read = factor.read(words.add(base, words.mul(place, step)), 0, together, together)
            values = lanes_of(read) if together > 1 else [read]
            found += values if size % DEPTH == 0 else [arith.select(words.less(at, size), v, zero) for v in values]
        return found
