"""Tiles in shared memory as warps read them for mma.sync, free of bank conflicts, and the fragments that they become.

A tile is ``rows`` (m or n) x ``row`` bytes of terms (k), in lines of pieces of 16 bytes:

* k innermost: a line is a row of the tile.
* otherwise: panels of up to 128 bytes of rows, each with one line for every k.

A piece's place in its line depends on the line: 8 lines are read at a time by ldmatrix, and 4 neighbours by loads of single elements,
which take over where ldmatrix, made for 16 bits, would not transpose a tile: of 32 bits with k outermost, and of 64 bits.
"""

from dataclasses import dataclass

from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import Words, integer_type, operation, shared_pointer, special_register, widen_pointer
from inferno.codegen.nvvm.tensor_core import load_matrices
from inferno.errors import CompileError
from inferno.mlir import ir, llvm

LINE = 128  # bytes: what all banks hold together


@dataclass(frozen=True)
class Tile:
    """One slot's tile of an operand with elements of ``width`` bytes."""

    rows: int
    width: int
    along_k: bool
    row: int = LINE

    def __post_init__(self) -> None:
        if self.rows % self.panel or (self.single and self.span != LINE) or (self.width == 1 and not self.along_k):
            raise CompileError(f"{self} cannot be read without bank conflicts")

    @property
    def depth(self) -> int:
        return self.row // self.width

    @property
    def bytes(self) -> int:
        return self.rows * self.row

    @property
    def panel(self) -> int:
        """Rows that lie side by side."""
        return self.rows if self.along_k else min(LINE // self.width, self.rows)

    @property
    def span(self) -> int:
        """Bytes of a line."""
        return self.row if self.along_k else self.panel * self.width

    @property
    def single(self) -> bool:
        """Whether it is read element by element."""
        return self.width == 8 or (self.width == 4 and not self.along_k)

    def place(self, words: Words, row: Integer, term: Integer) -> Integer:
        """Where an element lies, in bytes from the tile's beginning."""
        line, at = (row, term) if self.along_k else (term, words.rem(row, self.panel))
        lanes = 16 // self.width
        piece = self._piece(words, line, words.div(at, lanes))
        start = words.add(words.mul(line, self.span), words.add(words.shl(piece, 4), words.mul(words.rem(at, lanes), self.width)))
        return start if self.along_k else words.add(start, words.mul(words.div(row, self.panel), self.panel * self.row))

    def _piece(self, words: Words, line: Integer, piece: Integer) -> Integer:
        if self.single:
            return words.xor(words.shl(words.mask(line, 3), 1), piece)
        return tma.swizzled(words, line, piece, self.span)


@dataclass(frozen=True)
class Lane:
    """A thread's numbers in its warp: ``pair`` counts by four lanes, ``quad`` inside of them."""

    number: ir.Value
    pair: Integer
    quad: Integer

    @classmethod
    def make(cls, words: Words) -> "Lane":
        number = words.mask(special_register("tid.x"), 31)
        return cls(number, words.shr(number, 2), words.mask(number, 3))


@dataclass(frozen=True)
class Fragments:
    """What a warp reads of a tile from its row ``first`` on, a multiple of the rows that it reads, which are a power of 2.

    16 rows x 32 bytes of terms (64 of f64) are four registers, one for each half of the rows and of the terms: at row ``pair`` of its
    half the 4 bytes (8 of f64) of ``quad``.  ``rhs``: both halves of the terms are neighbours, as mma takes them for 8 columns;
    otherwise both halves of the rows are.
    """

    words: Words
    tile: Tile
    lane: Lane
    first: Integer
    element: ir.Type
    rhs: bool

    @property
    def terms(self) -> int:
        """Terms of one product."""
        return 8 if self.tile.width == 8 else 32 // self.tile.width

    def read(self, slot: Integer, row: int, step: int) -> list[ir.Value]:
        """The four registers for 16 rows from ``row`` and the terms of product number ``step``; ``slot`` is the tile's address."""
        tile = self.tile
        if tile.single:
            halves = [(0, 0), (0, 1), (1, 0), (1, 1)] if self.rhs else [(0, 0), (1, 0), (0, 1), (1, 1)]
            places = [(row + 8 * r, self.terms * step + 4 * h) for r, h in halves]
            size = ir.IntegerAttr.get(integer_type(64), tile.width)
            return [operation("llvm.load", [self.element], [self._pointer(slot, *place)], alignment=size) for place in places]
        return load_matrices(self._pointer(slot, row, self.terms * step), transposed=not tile.along_k)

    def _pointer(self, slot: Integer, row: int, term: int) -> ir.Value:
        """The place of this lane's element (ldmatrix: line), ``row`` rows and ``term`` terms from its own.

        Bits of the constant part never meet others in a line, so that the place in it is an exclusive or.
        """
        words, tile = self.words, self.tile
        if tile.along_k:
            start, inside, lines = self._base(), term * tile.width, row * tile.row
        else:
            start, inside = self._base(), row % tile.panel * tile.width
            lines = row // tile.panel * tile.panel * tile.row + term * tile.span
        # The part of ``inside`` behind the piece is the lane's own: 4 elements of 32 bits, or 2 of 64, are a piece.
        return widen_pointer(words, shared_pointer(words, words.add(slot, words.xor(start, inside))), 0, lines, integer_type(8))

    def _base(self) -> Integer:
        words, tile, lane = self.words, self.tile, self.lane
        if tile.single:
            return tile.place(words, words.add(self.first, lane.pair), lane.quad)
        # Eight lanes give the lines of a register's matrix.
        line, halves = words.mask(lane.number, 7), (words.mask(words.shr(lane.number, 3), 1), words.shr(lane.number, 4))
        rows, terms = reversed(halves) if self.rhs else halves
        if tile.along_k:
            row, term = words.add(line, words.shl(rows, 3)), words.mul(terms, 16 // tile.width)
        else:
            row, term = words.shl(rows, 3), words.add(line, words.shl(terms, 3))
        return tile.place(words, words.add(self.first, row), term)


def round_to_tf32(value: ir.Value) -> ir.Value:
    """Bits of a float, or a float, to the bits of the nearest TF32 number, as the libraries do; mma.sync would cut bits off."""
    return llvm.inline_asm(integer_type(32), [value], "cvt.rna.tf32.f32 $0, $1;", "=r,f" if isinstance(value.type, ir.F32Type) else "=r,r")


@dataclass(frozen=True)
class Multiplier:
    """``sums + lhs * rhs`` for 16 rows and 8 columns; ``kinds`` are PTX's names of the factors' types.

    ``wide``: f64 has a product with 8 terms and 16 rows (sm_90 and up), else four of 4 and 8.
    """

    kinds: tuple[str, str]
    accumulator: ir.Type
    wide: bool

    def multiply(self, sums: list[ir.Value], lhs: list[ir.Value], rhs: tuple[ir.Value, ir.Value]) -> list[ir.Value]:
        """Four sums: of rows ``pair`` and ``pair + 8``, two columns each."""
        if "f64" in self.kinds:
            if self.wide:
                return self._product("m16n8k8", sums, lhs, list(rhs))
            for h in range(2):
                halves = [self._product("m8n8k4", sums[2 * r:2 * r + 2], [lhs[r + 2 * h]], [rhs[h]]) for r in range(2)]
                sums = [*halves[0], *halves[1]]
            return sums
        terms = {"tf32": 8, "s8": 32, "u8": 32}.get(self.kinds[0], 16)
        return self._product(f"m16n8k{terms}", sums, lhs, list(rhs))

    def _product(self, shape: str, sums: list[ir.Value], lhs: list[ir.Value], rhs: list[ir.Value]) -> list[ir.Value]:
        numbers = iter(range(len(sums) + len(lhs) + len(rhs)))
        total = {"f32": "f32", "f64": "f64", "i32": "s32"}[str(self.accumulator)]
        groups = ["{" + ", ".join(f"${next(numbers)}" for _ in each) + "}" for each in (sums, lhs, rhs)]
        text = f"mma.sync.aligned.{shape}.row.col.{total}.{'.'.join(self.kinds)}.{total} {groups[0]}, {groups[1]}, {groups[2]}, {groups[0]};"
        letters = {"f32": "f", "f64": "d", "i32": "r"}
        outputs = [f"={letters[str(v.type)]}" for v in sums]
        inputs = [letters[str(v.type)] for v in (*lhs, *rhs)]
        constraints = ",".join([*outputs, *inputs, *map(str, range(len(sums)))])
        struct = ir.Type.parse(f"!llvm.struct<({', '.join(str(v.type) for v in sums)})>")
        made = llvm.InlineAsmOp(struct, [*lhs, *rhs, *sums], text, constraints).results[0]
        return [operation("llvm.extractvalue", [v.type], [made], position=ir.DenseI64ArrayAttr.get([i])) for i, v in enumerate(sums)]
