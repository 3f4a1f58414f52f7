"""A consumer of attention in float32: scores and sums of values are products of the bf16 pieces of their operands.

What does not fit into the tensor core's sums is cut off, a little of each time.  So each block's products are sums of their own, added to
those of the blocks before in float32.  Between a block's scores and its sums nothing else is multiplied, which leaves the registers that
pieces of weights take; meanwhile the other consumer multiplies.
"""

from collections.abc import Sequence

from inferno.codegen.attention.consumer import Consumer, Running
from inferno.codegen.attention.pieces import weight_pieces
from inferno.codegen.attention.products import awaited, fence
from inferno.mlir import arith, ir
from inferno.schedule.attention.schedule import LINE


class ExactConsumer(Consumer):
    """Weights go from block to block as float32."""

    def pack(self, weights: Sequence[ir.Value]) -> list[ir.Value]:
        return list(weights)

    def complete(self, running: Running) -> tuple[list[ir.Value], list[ir.Value]]:
        return self.add_values(running), self.softmax.totals(running.state)

    def add_values(self, running: Running) -> list[ir.Value]:
        """A line of columns at a time, so that few products have registers."""
        f, width = self.frame, self.frame.tiling.width.size
        pairs = [weight_pieces(running.weights[i:i + 2], f.schedule.pieces) for i in range(0, len(running.weights), 2)]
        weights = [[p[piece] for p in pairs] for piece in range(f.schedule.pieces)]
        f.values.await_full(running.at)
        flat = fence([x for piece in weights for x in piece])
        weights = [flat[i:i + len(pairs)] for i in range(0, len(flat), len(pairs))]
        sums: list[ir.Value] = []
        for first in range(0, width, LINE):
            columns = min(LINE, width - first)
            products = awaited(0, self.products.values_in_pieces(weights, running.at, first, columns))
            sums += [arith.addf(x, y) for x, y in zip(running.sums[first // 2:], products)]
        f.values.release(running.at.slot, self.member)
        return sums
