"""The second kernel of a split-K product: it adds the parts' sums, and applies the epilogue."""

from collections.abc import Sequence
from math import ceil

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, load, splat
from inferno.codegen.builders.gpu_function import Buffer, gpu_function, integers_for
from inferno.codegen.builders.integers import Integers
from inferno.codegen.matmul.direct_bf16x6 import add_pairwise
from inferno.codegen.matmul.simt_epilogue import Epilogue
from inferno.mlir import arith, func, gpu, ir, memref
from inferno.powers import next_power_of_two
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.direct import Direct
from inferno.symbolic import ceildiv

_ACROSS = 32  # sums side by side: 128 bytes
_EACH, _MOST = 8, 32  # parts that a thread reads at once, if so many threads are enough


def generate_sums(kernel: func.FuncOp, c: Contraction, s: Direct, buffers: Sequence[Buffer | None], sums: int, width: int) -> tuple[int, int]:
    """Add the kernel to the first one's module; returns its blocks and their threads."""
    along = min(_MOST, next_power_of_two(ceil(s.parts / _EACH)))
    own = [*buffers, Buffer(c.accumulator, sums, True)]
    with gpu_function(kernel, own, _ACROSS * along, [(_ACROSS * along, c.accumulator)], suffix="_sums") as function:
        _add(integers_for(kernel, width, function.buffers), c, s, sums // s.parts, along, function.buffers, function.shared[0])
    return ceildiv(sums // s.parts, _ACROSS), _ACROSS * along


def _add(ints: Integers, c: Contraction, s: Direct, count: int, along: int, buffers: list[ir.Value], shared: ir.Value) -> None:
    """Of ``count`` sums a block has 32, and ``along`` threads for each."""
    thread = ints.thread(_ACROSS * along)
    block = ints.block()
    lane, own = ints.div(thread, _ACROSS), ints.add(ints.mul(block, _ACROSS), ints.rem(thread, _ACROSS))  # (a tile has a multiple of 32)
    values = []
    for i in range(ceil(s.parts / along)):
        part = ints.add(lane, i * along)
        there = (i + 1) * along <= s.parts
        value = load(ints, buffers[-1], ints.add(ints.mul(part if there else ints.min(part, s.parts - 1), count), own), c.accumulator)
        values.append(value if there else arith.select(ints.less(part, s.parts), value, splat(c.accumulator, 0)))
    total = add_pairwise(values)
    if along > 1:
        memref.store(total, shared, [ints.index(thread)])
        gpu.barrier()
    with only_if(ints.equal(lane, 0) if along > 1 else None):
        if along > 1:
            total = add_pairwise([memref.load(shared, [ints.index(ints.add(thread, i * _ACROSS))]) for i in range(along)])
        tile, at = ints.div(own, s.tile_m * s.tile_n), ints.rem(own, s.tile_m * s.tile_n)
        rows, columns = ceildiv(c.M, s.tile_m), ceildiv(c.N, s.tile_n)
        batch, tile = (ints.div(tile, rows * columns), ints.rem(tile, rows * columns)) if c.B != 1 else (0, tile)
        m = ints.add(ints.mul(ints.rem(tile, rows), s.tile_m), ints.div(at, s.tile_n))
        n = ints.add(ints.mul(ints.div(tile, rows), s.tile_n), ints.rem(at, s.tile_n))
        Epilogue(ints, c, buffers, batch, c.M % s.tile_m != 0, c.N % s.tile_n != 0).emit(m, n, join([total]))
