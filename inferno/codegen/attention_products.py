"""The two products of attention: scores of queries and keys, both in shared memory, and sums of values by weights in registers."""

from collections.abc import Sequence

from inferno.codegen.attention_frame import Frame
from inferno.codegen.integers import Integer
from inferno.codegen.nvvm_builder import operation
from inferno.codegen.tensor_core import matrix_address, multiply_registers, pin
from inferno.mlir import ir, nvvm


class Products:
    """Of one consumer.  Each method starts a group of products, which is to be awaited; until then nothing may touch its registers."""

    def __init__(self, frame: Frame, consumer: Integer) -> None:
        self.frame, words, layout = frame, frame.words, frame.layout
        self.kind = str(frame.kernel.q.element)
        self.queries = matrix_address(words, frame.place(0, frame.q_bytes, consumer))
        self.keys = matrix_address(words, words.add(frame.shared, layout.keys))
        self.values = matrix_address(words, words.add(frame.shared, layout.values))

    def scores(self, slot: ir.Value) -> list[ir.Value]:
        """64 queries times the slot's keys."""
        f, words = self.frame, self.frame.words
        keys = words.add(self.keys, words.mul(slot, f.k_bytes >> 4))
        sums = [operation("llvm.mlir.undef", [ir.F32Type.get()])] * (f.schedule.keys // 2)
        for term in range(0, f.tiling.depth.size, 16):
            line, inside = divmod(term, f.q_tile.depth)
            q = f.q_tile.descriptor(words, words.add(self.queries, line * f.q_tile.bytes >> 4), 0, inside)
            k = f.k_tile.descriptor(words, words.add(keys, line * f.k_tile.bytes >> 4), 0, inside)
            sums = multiply_registers(sums, [q], k, False, term == 0, self.kind)
        nvvm.WgmmaGroupSyncAlignedOp()
        return sums

    def add_values(self, sums: Sequence[ir.Value], weights: Sequence[ir.Value], slot: ir.Value) -> list[ir.Value]:
        """``sums`` plus the weights times the slot's values."""
        f, words = self.frame, self.frame.words
        values = words.add(self.values, words.mul(slot, f.v_bytes >> 4))
        for term in range(0, f.schedule.keys, 16):
            v = f.v_tile.descriptor(words, values, 0, term)
            sums = multiply_registers(sums, weights[term // 4:term // 4 + 4], v, True, False, self.kind)
        nvvm.WgmmaGroupSyncAlignedOp()
        return list(sums)


def fence(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Before products that read or add to registers that were written."""
    return pin("wgmma.fence.sync.aligned;", values)


def awaited(pending: int, values: Sequence[ir.Value]) -> list[ir.Value]:
    """``values`` when at most so many groups of products are under way."""
    return pin(f"wgmma.wait_group.sync.aligned {pending};", values)
