"""Prologues in shared memory: warps that turn raw tiles, as the copy engine brought them, into what the tensor core reads.

A raw tile has no swizzle: lines of ``depth`` elements along k, or of ``rows`` elements for each k.  Each thread makes 16 bytes
of the tensor core's tile at a time.  Inputs of the prologue other than the raw tensor (scales, biases) come from global memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen import tma
from inferno.codegen.elements import as_vector, join, lanes_of, splat
from inferno.codegen.global_memory import Elements
from inferno.codegen.inline import inline_body
from inferno.codegen.integers import Integer
from inferno.codegen.nvvm_builder import Words, integer_type, load_shared, loop, shared_pointer, store
from inferno.codegen.tensor_core import ROW, Tile
from inferno.mlir import arith, ir, llvm, vector
from inferno.schedule.accesses import Access
from inferno.schedule.contraction import Operand
from inferno.schedule.tiling import Axis, Source
from inferno.symbolic import is_multiple

_TOGETHER = 2  # pieces of 16 bytes whose loads are under way at the same time


@dataclass(frozen=True)
class Rewriting:
    """Rewrites the tiles of one operand by ``threads`` threads; ``rows`` and ``k`` are its tiled axes."""

    words: Words
    operand: Operand
    source: Source
    tile: Tile
    rows: Axis
    k: Axis
    tensors: dict[int, Elements]
    threads: int = 0

    @property
    def lanes(self) -> int:
        return 16 // self.tile.width

    @property
    def raw_width(self) -> int:
        return self.source.raw.element.width // 8

    @property
    def raw_box(self) -> tuple[int, int]:
        """Elements of the raw tile, innermost first."""
        return (self.tile.depth, self.tile.rows) if self.source.raw_along_k else (self.tile.rows, self.tile.depth)

    @property
    def raw_bytes(self) -> int:
        return self.tile.rows * self.tile.depth * self.raw_width

    def emit(
        self, thread: ir.Value, raw: Integer, slot: Integer, first: Integer, k0: Integer, where: dict[Axis, Integer],
    ) -> None:
        """The tile at ``first`` and ``k0``, from shared address ``raw`` to ``slot``; ``where`` has the other axes' positions."""
        pieces = self.tile.rows * ROW // 16

        def some(item: ir.Value) -> Sequence[ir.Value]:
            # In the last turn a thread may make the last piece again, as another does.
            items = [self.words.min(self.words.add(item, i * self.threads), pieces - 1) for i in range(_TOGETHER)]
            places = [self.place(item) for item in items]
            loaded = [self.load(raw, *place) for place in places]
            for place, values in zip(places, loaded):
                row, term = place
                value = self.compute(values, self.words.add(first, row), self.words.add(k0, term), where)
                store(value, shared_pointer(self.words, self.words.add(slot, self.target(row, term))), 16)
            return []

        loop(self.words, thread, pieces, _TOGETHER * self.threads, [], some)

    def place(self, item: Integer) -> tuple[Integer, Integer]:
        """Row and term of the first element of a piece.  Neighbouring threads read neighbouring raw elements."""
        words = self.words
        if not self.tile.along_k:
            pieces = self.tile.rows // self.lanes
            return words.mul(words.rem(item, pieces), self.lanes), words.div(item, pieces)
        pieces = self.tile.depth // self.lanes
        if self.source.raw_along_k:
            return words.div(item, pieces), words.mul(words.rem(item, pieces), self.lanes)
        return words.rem(item, self.tile.rows), words.mul(words.div(item, self.tile.rows), self.lanes)

    def target(self, row: Integer, term: Integer) -> Integer:
        """Where the tensor core expects the piece, from the slot's beginning."""
        words, tile = self.words, self.tile
        if tile.along_k:
            return words.add(words.mul(row, ROW), self._piece(row, words.div(term, self.lanes)))
        panel, inside = words.div(row, tile.panel), words.rem(row, tile.panel)
        line = words.add(words.mul(panel, tile.panel_bytes), words.mul(term, tile.span))
        return words.add(line, self._piece(term, words.div(inside, self.lanes)))

    def _piece(self, line: Integer, number: Integer) -> Integer:
        return self.words.shl(tma.swizzled(self.words, line, number, self.tile.span), 4)

    def load(self, raw: Integer, row: Integer, term: Integer) -> ir.Value:
        """The raw elements of a piece."""
        words, width, element = self.words, self.raw_width, self.source.raw.element
        along_k, count = self.source.raw_along_k, self.lanes
        line, at = (row, term) if along_k else (term, row)
        offset = words.add(raw, words.mul(words.add(words.mul(line, self.raw_box[0]), at), width))
        if along_k != self.tile.along_k:  # turned: one element from each of some lines
            return join([load_shared(words, words.add(offset, i * self.raw_box[0] * width), element, 1) for i in range(count)])
        together = min(count, 16 // width)
        parts = [load_shared(words, words.add(offset, i * width), element, together) for i in range(0, count, together)]
        return parts[0] if len(parts) == 1 else join([x for p in parts for x in lanes_of(p)])

    def compute(self, raw: ir.Value, row: Integer, term: Integer, where: dict[Axis, Integer]) -> ir.Value:
        """The prologue on a piece, zero behind the end of k: what it makes of the copy engine's zeros may be infinite."""
        value, prologue, element = raw, self.operand.prologue, self.operand.element
        if prologue is not None:
            arguments = []
            for s in prologue.sources:
                if s is None:
                    arguments.append(arith.constant(integer_type(1), 0))
                else:
                    arguments.append(raw if s == self.source.raw else self.read(s, row, term, where))
            value = as_vector(inline_body(prologue.block, arguments, (), self.lanes)[0], self.lanes)
            if self.k.size % self.tile.depth != 0:
                value = arith.select(self.inside(term), value, splat(value.type, 0))
        if self.tile.width == 4 and prologue is not None:
            value = join([_round_to_tf32(x) for x in lanes_of(value)])
        assert ir.VectorType(value.type).element_type == element
        return value

    def inside(self, term: Integer) -> ir.Value:
        """Which lanes lie before the end of k."""
        words = self.words
        if not self.tile.along_k:
            return vector.broadcast(ir.VectorType.get([self.lanes], integer_type(1)), words.less(term, self.k.size))
        return join([words.less(words.add(term, i), self.k.size) for i in range(self.lanes)])

    def read(self, access: Access, row: Integer, term: Integer, where: dict[Axis, Integer]) -> ir.Value:
        """Another input of the prologue; behind the edges the last element."""
        words, tensor = self.words, self.tensors[access.argument]
        along, across = (self.k, self.rows) if self.tile.along_k else (self.rows, self.k)
        at, line = (term, row) if self.tile.along_k else (row, term)
        line = words.min(line, across.size - 1)
        others = [(a, x) for a, x in where.items() if a.stride(access)]
        offset = words.dot([x for _, x in others], [a.stride(access) for a, _ in others], access.offset)
        offset = words.add(offset, words.mul(line, across.stride(access)))
        step = along.stride(access)
        if step == 0:
            return tensor.read(offset)
        strides = [access.offset, across.stride(access), *(a.stride(access) for a, _ in others)]
        if step == 1 and is_multiple(along.size, self.lanes):
            aligned = self.lanes
            while not all(is_multiple(x, aligned) for x in strides):
                aligned //= 2
            return tensor.read(words.add(offset, words.min(at, along.size - self.lanes)), 0, self.lanes, aligned)
        places = [words.min(words.add(at, i), along.size - 1) for i in range(self.lanes)]
        return join([tensor.read(words.add(offset, words.mul(p, step))) for p in places])


def _round_to_tf32(value: ir.Value) -> ir.Value:
    """To nearest; the tensor core would cut the low bits off."""
    bits = llvm.inline_asm(integer_type(32), [value], "cvt.rna.tf32.f32 $0, $1;", "=r,f")
    return arith.bitcast(ir.F32Type.get(), bits)

