"""The two products of attention: scores of queries and keys, both in shared memory, and sums of values by weights in registers."""

from collections.abc import Sequence
from itertools import product

from inferno.codegen.attention.frame import Frame
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import opaque, operation
from inferno.codegen.nvvm.mbarriers import Position
from inferno.codegen.nvvm.tensor_core import matrix_address, multiply_registers, pin
from inferno.mlir import ir, nvvm

PAIRS = {1: ((0, 0),), 2: ((0, 1), (1, 0), (0, 0)), 3: ((0, 2), (2, 0), (1, 1), (0, 1), (1, 0), (0, 0))}
"""By the number of pieces, which are multiplied with which: the smallest first, which lose least where sums are cut off."""


class Products:
    """Of one consumer.  Each method starts a group of products, which is to be awaited; until then nothing may touch its registers."""

    def __init__(self, frame: Frame, consumer: Integer) -> None:
        self.frame, words, layout = frame, frame.words, frame.layout
        self.kind = str(frame.kernel.q.element) if frame.schedule.pieces == 1 else "bf16"
        self.queries = matrix_address(words, frame.place(0, frame.q_bytes, consumer))
        self.keys = matrix_address(words, words.add(frame.shared, layout.keys))
        self.values = matrix_address(words, words.add(frame.shared, layout.values))

    def base(self, base: Integer, at: Position) -> Integer:
        """Where pieces are many, their addresses are to be computed when they are needed: there are no registers to keep them."""
        return base if self.frame.schedule.pieces == 1 else opaque(self.frame.words, base, at.parity)

    def scores(self, at: Position) -> list[ir.Value]:
        """64 queries times a slot's keys."""
        f, words = self.frame, self.frame.words
        queries, keys = self.base(self.queries, at), words.add(self.base(self.keys, at), words.mul(at.slot, f.k_bytes >> 4))
        sums, terms = undefined(f.schedule.keys // 2), range(0, f.tiling.depth.size, 16)
        for n, ((of_q, of_k), term) in enumerate(product(PAIRS[f.schedule.pieces], terms)):
            line, inside = (0, term) if f.tiling.q.transposed else divmod(term, f.q_tile.depth)
            q = f.q_tile.descriptor(words, words.add(queries, of_q * f.q_piece + line * f.q_tile.bytes >> 4), 0, inside)
            line, inside = (0, term) if f.tiling.k.transposed else divmod(term, f.k_tile.depth)
            k = f.k_tile.descriptor(words, words.add(keys, of_k * f.k_piece + line * f.k_tile.bytes >> 4), 0, inside)
            sums = multiply_registers(sums, [q], k, f.tiling.k.transposed, n == 0, self.kind, f.tiling.q.transposed)
        nvvm.WgmmaGroupSyncAlignedOp()
        return sums

    def add_values(self, sums: Sequence[ir.Value], weights: Sequence[ir.Value], slot: ir.Value) -> list[ir.Value]:
        """``sums`` plus the weights times the slot's values."""
        f, words = self.frame, self.frame.words
        values = words.add(self.values, words.mul(slot, f.v_bytes >> 4))
        for term in range(0, f.schedule.keys, 16):
            line, inside = divmod(term, f.v_tile.depth) if f.tiling.v.transposed else (0, term)
            v = f.v_tile.descriptor(words, words.add(values, line * f.v_tile.bytes >> 4), 0, inside)
            sums = multiply_registers(sums, weights[term // 4:term // 4 + 4], v, not f.tiling.v.transposed, False, self.kind)
        nvvm.WgmmaGroupSyncAlignedOp()
        return list(sums)

    def values_in_pieces(self, weights: Sequence[Sequence[ir.Value]], at: Position, first: int, columns: int) -> list[ir.Value]:
        """The weights, by pieces, times ``columns`` of the slot's values from the ``first``."""
        f, words = self.frame, self.frame.words
        values, sums = words.add(self.base(self.values, at), words.mul(at.slot, f.v_bytes >> 4)), undefined(columns // 2)
        for n, ((of_w, of_v), term) in enumerate(product(PAIRS[f.schedule.pieces], range(0, f.schedule.keys, 16))):
            v = f.v_tile.descriptor(words, words.add(values, of_v * f.v_piece >> 4), first, term)
            sums = multiply_registers(sums, weights[of_w][term // 4:term // 4 + 4], v, True, n == 0, self.kind)
        nvvm.WgmmaGroupSyncAlignedOp()
        return sums


def undefined(count: int) -> list[ir.Value]:
    """Registers for sums before their first product, which overwrites them."""
    return [operation("llvm.mlir.undef", [ir.F32Type.get()])] * count


def fence(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Before products that read or add to registers that were written."""
    return pin("wgmma.fence.sync.aligned;", values)


def awaited(pending: int, values: Sequence[ir.Value]) -> list[ir.Value]:
    """``values`` when at most so many groups of products are under way."""
    return pin(f"wgmma.wait_group.sync.aligned {pending};", values)
