"""Attention of few queries whose keys more blocks share than a cluster has: the clusters leave their sums in the workspace, and the last one to
arrive adds up what all have left, in the order of their numbers: the same bits whichever is last.

A kernel in front sets a counter to 0 for each tile.
"""

from collections.abc import Callable, Sequence

from inferno.codegen.attention_frame import Frame
from inferno.codegen.attention_parts import THREADS, add_shares
from inferno.codegen.attention_softmax import Softmax, number
from inferno.codegen.elements import join
from inferno.codegen.integers import Integer
from inferno.codegen.nvvm_builder import integer_type, load_shared, only_if, operation, shared_pointer, store, widen_pointer
from inferno.mlir import ir, llvm, scf
from inferno.symbolic import ceildiv

_COUNT = "fence.acq_rel.gpu; atom.acq_rel.gpu.global.add.u32 $0, [$1], 1; fence.acq_rel.gpu;"


class Splits:
    """Of the only consumer of a block, the first of its cluster."""

    def __init__(self, frame: Frame, softmax: Softmax, member: ir.Value, barrier: Callable[[], None]) -> None:
        self.frame, self.words, self.softmax, self.member, self.barrier = frame, frame.words, softmax, member, barrier
        self.sums, self.counters = frame.scratch
        self.count = frame.tiling.width.size // 2 + 4  # numbers of a thread

    def leave(self, tile: Integer, numbers: Sequence[ir.Value]) -> ir.Value:
        """Leave the sums, the largest scores and the totals, and see whether all others have."""
        f, words = self.frame, self.words
        with only_if(self.needed):
            for i in range(0, self.count, 4):
                store(join(numbers[i:i + 4]), self.place(tile, f.split, i), 16)
        self.barrier()
        with only_if(words.equal(self.member, 0)):
            place = widen_pointer(words, self.counters, tile, 0, integer_type(32))
            before = llvm.InlineAsmOp(integer_type(32), [place], _COUNT, "=r,l,~{memory}", has_side_effects=True).results[0]
            store(before, shared_pointer(words, f.number_at(0)), 4)
        self.barrier()
        return words.equal(load_shared(words, f.number_at(0), words.type, 1), f.schedule.splits - 1)

    def add_up(self, tile: Integer) -> tuple[list[ir.Value], list[ir.Value]]:
        """What all have left: sums of products and of weights."""
        found = scf.IfOp(self.needed, [ir.F32Type.get()] * (self.count - 2), has_else=True)
        with ir.InsertionPoint(found.then_block):
            sums, totals = self.added(tile)
            scf.yield_([*sums, *totals])
        with ir.InsertionPoint(found.else_block):
            scf.yield_([number(0.0)] * (self.count - 2))
        return list(found.results)[:-2], list(found.results)[-2:]

    @property
    def needed(self) -> ir.Value:
        """Whether this thread's warp has rows of the tile."""
        return self.words.less(self.member, 32 * ceildiv(min(64, self.frame.tiling.queries.size), 16))

    def added(self, tile: Integer) -> tuple[list[ir.Value], list[ir.Value]]:
        nothing = [number(0.0)] * (self.count - 4)
        least = [number(float("-inf"))] * 2
        sums, totals, _ = add_shares(
            self.words, self.softmax, lambda split, first: self.read(tile, split, first), 0, self.frame.schedule.splits, nothing, least, nothing[:2],
        )
        return sums, totals

    def read(self, tile: Integer, split: ir.Value, first: int) -> ir.Value:
        type_ = ir.VectorType.get([4], ir.F32Type.get())
        return operation("llvm.load", [type_], [self.place(tile, split, first)], alignment=ir.IntegerAttr.get(integer_type(64), 16))

    def place(self, tile: Integer, split: Integer, first: int) -> ir.Value:
        """Of four numbers of this thread, side by side with the others'."""
        words = self.words
        share = words.add(words.mul(tile, self.frame.schedule.splits), split)
        at = words.add(words.mul(share, THREADS * self.count), words.shl(self.member, 2))
        return widen_pointer(words, self.sums, at, 4 * THREADS * first, ir.F32Type.get())
