"""The epilogue of attention: a tile of results is one of a contraction of weights and values, and ends as that does."""

from dataclasses import replace
from math import gcd

from inferno.codegen.matmul.wgmma_epilogue import Epilogue
from inferno.mlir import arith, ir
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.schedule import Attention, lines
from inferno.schedule.attention.tiling import AttentionTiling
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.tiles.tiling import Axes


class Results(Epilogue):
    """Rounds what is stored as it is to the destination's type."""

    def apply(self, down: int, j: int, sums: ir.Value, others: ir.Value | None = None) -> list[ir.Value]:
        return [
            rounded(x, d.access.element) if d.source is None else x
            for x, d in zip(super().apply(down, j, sums, others), self.contraction.destinations)
        ]


def rounded(x: ir.Value, element: ir.Type) -> ir.Value:
    """A float32 number, or a vector of some, in the type that it is stored in."""
    if isinstance(element, ir.F32Type):
        return x
    return arith.truncf(ir.VectorType.get(ir.VectorType(x.type).shape, element) if isinstance(x.type, ir.VectorType) else element, x)


def with_sources(a: AttentionKernel) -> AttentionKernel:
    """``a``, in which every destination of the sums themselves says so."""
    if a.epilogue is not None:
        return a
    return replace(a, destinations=tuple(replace(d, source=None) for d in a.destinations))


def result_axes(t: AttentionTiling) -> Axes:
    """The axes of results: queries by the width."""
    return Axes(t.grid, t.queries, t.width, t.keys, ())


def result_schedule(s: Attention, t: AttentionTiling, staged: bool) -> Wgmma:
    """How they are stored; ``staged`` in whole lines, of which the last one may have columns that the copy engine drops."""
    width = t.width.size
    columns = 64 * lines(width) if staged and gcd(width, 64) < 32 else width
    return Wgmma(s.rows, columns, consumers=s.consumers, buffers=result_buffers(s, t))


def result_buffers(s: Attention, t: AttentionTiling) -> int:
    """Staging buffers of a consumer."""
    return min(2, lines(t.width.size)) if s.apart else lines(t.depth.size)
