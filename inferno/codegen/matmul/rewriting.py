"""Prologues in shared memory: warps that turn raw tiles, as the copy engine brought them, into what the tensor core reads.

A raw tile has no swizzle: lines of ``depth`` elements along k, or of ``rows`` elements for each k.  Each thread makes pieces of
16 bytes of the tensor core's tile, two neighbours at a time where a load of 16 bytes brings bytes for both.  Inputs of the
prologue other than the raw tensor (scales, biases) come from global memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders import bytes_to_floats
from inferno.codegen.builders.elements import as_vector, join, lanes_of, splat
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import Words, integer_type, load_shared, loop, operation, shared_pointer, store
from inferno.codegen.nvvm.global_memory import Elements
from inferno.codegen.nvvm.tensor_core import Tile
from inferno.mlir import arith, ir, llvm, vector
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.contraction import Operand
from inferno.schedule.tiles.tiling import Axis, Source
from inferno.symbolic import Int, ceildiv, is_multiple

_TOGETHER = 2  # loads of 16 bytes of a type as wide as the tile's, or wider, that are under way at the same time: twice as many of bytes


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
        words, count = self.words, self.tile.rows * self.tile.row // 16 // self.pieces
        turns = ceildiv(count, self.threads)
        together = ceildiv(turns, ceildiv(turns, _TOGETHER * self.pieces))

        def some(item: ir.Value) -> Sequence[ir.Value]:
            # In the last turn a thread may make the last pieces again, as another does.
            items = [words.min(words.add(item, i * self.threads), count - 1) for i in range(together)]
            places = [self.place(item) for item in items]
            loaded = [self.load(raw, *place) for place in places]
            others = [self.others(words.add(first, row), words.add(k0, term), where) for row, term in places]
            for (row, term), each, other in zip(places, loaded, others):
                for i, values in enumerate(each):
                    at = (row, words.add(term, i * self.lanes)) if self.tile.along_k else (words.add(row, i * self.lanes), term)
                    value = self.compute(values, words.add(first, at[0]), words.add(k0, at[1]), where, other)
                    store(value, shared_pointer(words, words.add(slot, self.target(*at))), 16)
            return []

        loop(words, thread, count, together * self.threads, [], some)

    @property
    def pieces(self) -> int:
        """Neighbours that a thread makes of one load."""
        lines = self.tile.depth if self.tile.along_k else self.tile.rows
        return 2 if self.raw_width == 1 and self.source.raw_along_k == self.tile.along_k and lines % 16 == 0 else 1

    def place(self, item: Integer) -> tuple[Integer, Integer]:
        """Row and term of the first element of a load.  Neighbouring threads read neighbouring raw elements."""
        words, lanes = self.words, self.lanes * self.pieces
        if not self.tile.along_k:
            pieces = self.tile.rows // lanes
            return words.mul(words.rem(item, pieces), lanes), words.div(item, pieces)
        pieces = self.tile.depth // lanes
        if self.source.raw_along_k:
            return words.div(item, pieces), words.mul(words.rem(item, pieces), lanes)
        return words.rem(item, self.tile.rows), words.mul(words.div(item, self.tile.rows), lanes)

    def target(self, row: Integer, term: Integer) -> Integer:
        """Where the tensor core expects the piece, from the slot's beginning."""
        words, tile = self.words, self.tile
        if tile.along_k:
            return words.add(words.mul(row, tile.row), self._piece(row, words.div(term, self.lanes)))
        panel, inside = words.div(row, tile.panel), words.rem(row, tile.panel)
        line = words.add(words.mul(panel, tile.panel_bytes), words.mul(term, tile.span))
        return words.add(line, self._piece(term, words.div(inside, self.lanes)))

    def _piece(self, line: Integer, number: Integer) -> Integer:
        return self.words.shl(tma.swizzled(self.words, line, number, self.tile.span), 4)

    def load(self, raw: Integer, row: Integer, term: Integer) -> list[ir.Value]:
        """The raw elements of each piece."""
        words, width, element = self.words, self.raw_width, self.source.raw.element
        along_k, count = self.source.raw_along_k, self.lanes
        line, at = (row, term) if along_k else (term, row)
        offset = words.add(raw, words.mul(words.add(words.mul(line, self.raw_box[0]), at), width))
        if along_k != self.tile.along_k:  # transposed: one element from each of some lines
            return [join([load_shared(words, words.add(offset, i * self.raw_box[0] * width), element, 1) for i in range(count)])]
        if self.pieces == 2:  # as words: LLVM would take vectors of bytes to pieces
            four = lanes_of(load_shared(words, offset, integer_type(32), 4))
            return [operation("llvm.bitcast", [ir.VectorType.get([count], element)], [join(four[i:i + 2])]) for i in (0, 2)]
        together = min(count, 16 // width)
        parts = [load_shared(words, words.add(offset, i * width), element, together) for i in range(0, count, together)]
        return [parts[0] if len(parts) == 1 else join([x for p in parts for x in lanes_of(p)])]

    def others(self, row: Integer, term: Integer, where: dict[Axis, Integer]) -> dict[Access, ir.Value]:
        """What is the same for all pieces of a load, read once."""
        reads = [s for s in self.operand.reads if s != self.source.raw]
        along = self.k if self.tile.along_k else self.rows
        return {s: self.read(s, row, term, where) for s in reads if along.stride(s) == 0}

    def compute(
        self, raw: ir.Value, row: Integer, term: Integer, where: dict[Axis, Integer], others: dict[Access, ir.Value] | None = None,
    ) -> ir.Value:
        """The prologue on a piece, zero behind the end of k: what it makes of the copy engine's zeros may be infinite."""
        value, prologue, element, others = raw, self.operand.prologue, self.operand.element, others or {}
        if prologue is not None:
            arguments = []
            for s in prologue.sources:
                if s is None:
                    arguments.append(arith.constant(integer_type(1), 0))
                elif s == self.source.raw:
                    arguments.append(raw)
                else:
                    arguments.append(others[s] if s in others else self.read(s, row, term, where))
            value = as_vector(inline_body(prologue.block, arguments, (), self.lanes, bytes_to_floats.CUSTOM)[0], self.lanes)
            if self.k.size % self.tile.depth != 0:
                value = arith.select(lanes_before(self.words, self.k.size, term, self.lanes, self.tile.along_k), value, splat(value.type, 0))
        if self.tile.width == 4 and prologue is not None:
            value = join([_round_to_tf32(x) for x in lanes_of(value)])
        assert ir.VectorType(value.type).element_type == element
        return value

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


def lanes_before(words: Words, end: Int, first: Integer, lanes: int, along: bool) -> ir.Value:
    """Which lanes lie before an end: all or none of them, or each by its own place where they lie ``along`` that loop."""
    if not along:
        return vector.broadcast(ir.VectorType.get([lanes], integer_type(1)), words.less(first, end))
    return join([words.less(words.add(first, i), end) for i in range(lanes)])
