"""Sums of several tensors in different layouts (``inferno.schedule.reductions.transposed_sums``): neighbours in one tensor belong to sums side
by side, in another to the same sum."""

from dataclasses import dataclass

from inferno.codegen.builders.integers import Integer
from inferno.codegen.reductions.joining import Values
from inferno.codegen.reductions.reductions import Emitter
from inferno.mlir import arith
from inferno.schedule.reductions.kernel import ReductionKernel


@dataclass
class TransposedSums(Emitter):
    """``c`` are the parts, of ``whole`` sums, of which ``tile`` is the number of the block's parts."""

    whole: ReductionKernel | None = None
    tile: Integer = 0

    def place(self, tile: Integer, column: Integer) -> None:
        self.tile = tile
        super().place(tile, column)

    def meet_along(self, values: Values, thread: Integer, lane: Integer, column: Integer, chunk: Integer, end: Integer | None) -> None:
        """All threads of a block have parts of one sum, but those beyond the last neighbour."""
        ints, s, c = self.ints, self.s, self.whole
        if self.mine is not None:
            values = [arith.select(self.mine, v, none) for v, none in zip(values, self.joining.identities())]
        each = s.cuts(c) // s.chunks
        block = Emitter(c, s.joined(c), ints, self.joining, self.buffers, self.shared, point=ints.div(self.tile, each))
        block.meet_along(values, thread, thread, 0, ints.add(ints.mul(chunk, each), ints.rem(self.tile, each)), end)
