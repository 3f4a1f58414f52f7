"""Hopper's tensor core (wgmma): tiles in shared memory as it reads them, and sums in registers.

A tile is ``rows`` (m or n) x ``depth`` (k), under the swizzle that the copy engine writes it with:

* k innermost: rows of 128 bytes one after the other.
* otherwise: panels of up to 64 rows, each with one line of rows for every k; the last one may have more than the tile's rows.

The layout of sums: thread t of the warpgroup has, for each 8 columns j, the values at rows ``t/32 * 16 + t%32/4 + 8h``, columns
``8j + t%4 * 2 + e`` as number ``4j + 2h + e``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import Words, integer_type, operation, shared_pointer
from inferno.mlir import arith, ir, llvm, nvvm
from inferno.schedule.tiles.result_parts import ROW
from inferno.schedule.tiles.shared_tiles import height, panel


@dataclass(frozen=True)
class Tile:
    """One slot's tile of an operand with elements of ``width`` bytes; ``row`` bytes of terms, a power of 2.  A panel has ``most`` rows at most."""

    rows: int
    width: int
    along_k: bool
    row: int = ROW
    most: int = 64

    @property
    def depth(self) -> int:
        return self.row // self.width

    @property
    def bytes(self) -> int:
        return height(self.rows, self.along_k, self.most) * self.row

    @property
    def span(self) -> int:
        """Bytes of a line in shared memory, which is the span of the swizzle too."""
        return self.row if self.along_k else self.panel * self.width

    @property
    def panel(self) -> int:
        """Rows that one box of the copy engine holds."""
        return panel(self.rows, self.along_k, self.most)

    @property
    def box(self) -> tuple[int, int]:
        """Elements of a box along the innermost dimension in memory and the other one."""
        return (self.depth, self.rows) if self.along_k else (self.panel, self.depth)

    @property
    def panels(self) -> int:
        return height(self.rows, self.along_k, self.most) // self.panel

    @property
    def panel_bytes(self) -> int:
        return self.panel * self.row

    def descriptor(self, words: Words, address: Integer, row: int, term: int) -> ir.Value:
        """What wgmma reads: 64 rows (the lhs) or all rows (the rhs) from ``row``, 32 bytes of k from element ``term`` on.

        ``address`` is the slot's shared address / 16, without the rank in the cluster.
        """
        if self.along_k:
            start, leading, stride = row * self.row + term * self.width, 16, 8 * self.row
        else:
            start, leading, stride = row // self.panel * self.panel_bytes + term * self.span, self.panel_bytes, 8 * self.span
        return self.described(words, address, start, leading, stride)

    def described(self, words: Words, address: Integer, start: int, leading: int, stride: int) -> ir.Value:
        """What begins ``start`` bytes behind an address: eight rows, or lines, ``stride`` bytes from the next ones."""
        low = words.either(words.add(address, start >> 4), leading >> 4 << 16)
        high = stride >> 4 | {128: 1, 64: 2, 32: 3}[self.span] << 30
        high = high << 32
        signed = high - (1 << 64) if high >= 1 << 63 else high
        return arith.ori(words.widen(low), arith.constant(integer_type(64), signed))


def matrix_address(words: Words, address: Integer) -> Integer:
    """A shared address as descriptors have it.

    In a cluster, bits 24 and up of a shared address are the block's rank: they would land in the descriptor's other fields.
    """
    return words.shr(words.mask(address, 0x3FFFF), 4)


@dataclass(frozen=True)
class Multiplier:
    """``sums += lhs[64 x depth] * rhs[depth x n]`` for tiles in shared memory; ``kind`` is bf16, f16 or tf32.

    Sums are one struct of n/2 floats for each 64 rows, carried through loops as they are: no moves.
    """

    words: Words
    kind: str
    lhs: Tile
    rhs: Tile

    @property
    def count(self) -> int:
        return self.rhs.rows // 2

    @property
    def sums_type(self) -> ir.Type:
        return ir.Type.parse(f"!llvm.struct<({', '.join(['f32'] * self.count)})>")

    def start(self, blocks: int) -> list[ir.Value]:
        """Sums for ``blocks`` times 64 rows, before the first product (which overwrites them)."""
        return [operation("llvm.mlir.undef", [self.sums_type]) for _ in range(blocks)]

    def multiply(self, sums: Sequence[ir.Value], lhs: Integer, rhs: Integer, first: bool, chunks: int = 1) -> list[ir.Value]:
        """Start the products of one slot, which has ``chunks`` tiles of each operand; ``lhs`` and ``rhs`` are ``matrix_address``es.  One
        group, to be waited for."""
        attribute = ir.Attribute.parse
        terms = 32 // self.lhs.width
        shape = attribute(f"#nvvm.shape<m = 64, n = {self.rhs.rows}, k = {terms}>")
        factor, total = (attribute(f"#nvvm.wgmma_type<{t}>") for t in (self.kind, "f32"))
        one = attribute("#nvvm.wgmma_scale_in<one>")
        # ``row`` and ``col`` name the usual order of each factor, k innermost, and for the rhs the other one.
        layouts = [attribute(f"#nvvm.mma_layout<{x}>") for x in (
            "row" if self.lhs.along_k else "col", "col" if self.rhs.along_k else "row")]
        nvvm.WgmmaFenceAlignedOp()
        sums = list(sums)
        for at in range(0, chunks * self.lhs.depth, terms):
            chunk, term = divmod(at, self.lhs.depth)
            b = self.rhs.descriptor(self.words, self.words.add(rhs, chunk * self.rhs.bytes >> 4), 0, term)
            for i, old in enumerate(sums):
                a = self.lhs.descriptor(self.words, self.words.add(lhs, chunk * self.lhs.bytes >> 4), 64 * i, term)
                scale = attribute(f"#nvvm.wgmma_scale_out<{'zero' if first and at == 0 else 'one'}>")
                sums[i] = nvvm.WgmmaMmaAsyncOp(
                    self.sums_type, old, a, b, shape, factor, factor, total, scale, one, one, *layouts,
                ).results[0]
        nvvm.WgmmaGroupSyncAlignedOp()
        return sums

    def await_groups(self, pending: int) -> None:
        """Until at most ``pending`` groups of products are under way."""
        nvvm.WgmmaWaitGroupSyncOp(pending)

    def finish(self, sums: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """Wait for all products; the sums as floats, a list for each 64 rows.

        The wait takes and returns all of them: otherwise LLVM could move a use in front of it.
        """
        f32, everything = ir.F32Type.get(), []
        for s in sums:
            everything += [_extract(s, i, f32) for i in range(self.count)]
        type_ = ir.Type.parse(f"!llvm.struct<({', '.join(['f32'] * len(everything))})>")
        constraints = ",".join(["=f"] * len(everything) + [str(i) for i in range(len(everything))])
        done = llvm.InlineAsmOp(
            type_, everything, "wgmma.wait_group.sync.aligned 0;", constraints, has_side_effects=True,
        ).results[0]
        return [[_extract(done, m * self.count + i, f32) for i in range(self.count)] for m in range(len(sums))]


def _extract(struct: ir.Value, number: int, type_: ir.Type) -> ir.Value:
    return operation("llvm.extractvalue", [type_], [struct], position=ir.DenseI64ArrayAttr.get([number]))


def load_matrices(pointer: ir.Value, transposed: bool = False) -> list[ir.Value]:
    """ldmatrix: four 8x8 matrices of 16-bit elements, one a register, from shared memory; each lane gives the address of a row, or of a column
    if they are ``transposed`` on the way."""
    struct = ir.Type.parse("!llvm.struct<(i32, i32, i32, i32)>")
    found = nvvm.LdMatrixOp(
        pointer, 4, ir.Attribute.parse(f"#nvvm.mma_layout<{'col' if transposed else 'row'}>"),
        ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"), ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>"), results=[struct],
    ).results[0]
    return [_extract(found, i, integer_type(32)) for i in range(4)]


def store_matrices(words: Words, address: Integer, registers: Sequence[ir.Value], transposed: bool = False) -> None:
    """stmatrix: 8x8 matrices of 16-bit elements, one a register, to shared memory; each lane gives the address of a row, or of a column if
    they are ``transposed`` on the way."""
    nvvm.StMatrixOp(
        shared_pointer(words, address), list(registers), ir.Attribute.parse(f"#nvvm.mma_layout<{'col' if transposed else 'row'}>"),
        ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"), ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>"),
    )


def multiply_registers(
    sums: Sequence[ir.Value], lhs: Sequence[ir.Value], rhs: ir.Value, transposed: bool, first: bool, kind: str = "bf16", lhs_transposed: bool = False,
) -> list[ir.Value]:
    """One product of bf16 or f16 with 16 terms, or of TF32 with 8: ``sums`` (floats) plus the lhs, in four registers or by its descriptor, times the
    rhs of a descriptor.

    ``transposed``: the rhs is not k innermost; ``lhs_transposed``: nor is the lhs, which has a descriptor.  The product is under way, in
    no group yet.
    """
    count = len(sums)
    outputs = ", ".join(f"${i}" for i in range(count))
    factors = ", ".join(f"${2 * count + i}" for i in range(len(lhs)))
    factors, layouts = (f"{{{factors}}}", f", {int(transposed)}") if len(lhs) > 1 else (factors, f", {int(lhs_transposed)}, {int(transposed)}")
    terms, layouts = (8, "") if kind == "tf32" else (16, layouts)  # (TF32 has no other layout)
    text = (
        f"{{ .reg .pred p; setp.ne.b32 p, {int(not first)}, 0; "
        f"wgmma.mma_async.sync.aligned.m64n{2 * count}k{terms}.f32.{kind}.{kind} {{{outputs}}}, {factors}, ${2 * count + len(lhs)}, "
        f"p, 1, 1{layouts}; }}"
    )
    return _tied(text, sums, [*lhs, rhs])


def pin(text: str, values: Sequence[ir.Value]) -> list[ir.Value]:
    """An instruction that nothing which makes or uses ``values`` may cross: it takes and returns all of them."""
    return _tied(text, values, [])


def _tied(text: str, values: Sequence[ir.Value], more: Sequence[ir.Value]) -> list[ir.Value]:
    """Assembly that changes registers, with ``more`` that it reads."""
    letters = {"f32": "f", "i32": "r", "i64": "l"}
    types = [v.type for v in values]
    constraints = [f"={letters[str(t)]}" for t in types] + [str(i) for i in range(len(types))]
    constraints += [letters[str(v.type)] for v in more]
    struct = ir.Type.parse(f"!llvm.struct<({', '.join(map(str, types))})>")
    made = llvm.InlineAsmOp(struct, [*values, *more], text, ",".join(constraints), has_side_effects=True).results[0]
    return [_extract(made, i, t) for i, t in enumerate(types)]
