"""Gradients of convolutions' weights on Hopper's tensor cores: generator ``wgmma`` with another way to load the rhs, the copy engine's im2col mode.

As in ``im2col`` the rhs is the matrix of windows, but its rows, the pixels, are the terms of the sums: a panel of a tile is some channels of one
tap, for as many pixels as a step has.
"""

from inferno.codegen.builders.integers import Integer
from inferno.codegen.convolution.im2col import first_places, image_map
from inferno.codegen.matmul import wgmma
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.tensor_core import Tile
from inferno.errors import CompileError
from inferno.mlir import func, ir
from inferno.schedule.convolution.pixel_sums import PixelSums, fits, parse_summed
from inferno.schedule.matmul.wgmma_schedule import precision
from inferno.schedule.tiles.tiling import tile_contraction
from inferno.symbolic import product
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: PixelSums, target: Target) -> None:
    """Add the ``gpu.module`` of such a sum and make ``kernel`` its launcher."""
    c = parse_summed(kernel, target)
    kind = precision(kernel, c) if c is not None else None
    if kind not in ("bf16", "f16") or not fits(schedule, c) or schedule.threads > 384:
        raise CompileError(f"@{kernel.name.value} is not a sum over pixels for tensor cores by {schedule}")
    tiling = tile_contraction(c, 2, only_along_k=False, rewrite=schedule.rewrite)
    wgmma.prepare_bodies(c)
    wgmma.emit(kernel, _Emitter(kernel.name.value, c, tiling, schedule, target, kind))


class _Emitter(wgmma.Emitter):
    def rhs_map(self, rhs: ir.Value, share: int) -> ir.Value:
        return image_map(rhs, self.contraction.rhs.unfolded, self.rhs, self.rhs.panel, self.rhs.depth, self.kind)

    def load_lines(self, map_: ir.Value, tile: Tile, where: list[Integer], target: Integer, barrier: ir.Value, blocks: int) -> None:
        if tile is not self.rhs:
            super().load_lines(map_, tile, where, target, barrier, blocks)
            return
        words, operand = self.words, self.contraction.rhs
        window, (_, pixels, *outer), (column, pixel, *positions) = operand.unfolded, self.tiling.rhs.axes, where
        pixel = words.mul(pixel, max(1, pixels.stride(operand.access) // window.terms))
        for axis, at in zip(outer, positions):
            stride = axis.stride(operand.access)
            if stride % window.terms == 0:
                pixel = words.add(pixel, words.mul(at, stride // window.terms))
            else:
                column = words.add(column, words.mul(at, stride))
        channels = window.shape[-1]
        tap = words.min(words.div(column, channels), product(window.taps) - 1)  # columns behind the last are nobody's
        taps = words.split(tap, window.taps)
        image, *places = first_places(words, window, pixel)
        offsets = [words.mul(t, dilation) for t, dilation in zip(taps, window.dilations)]
        tma.load_pixels(words, map_, [words.rem(column, channels), *places[::-1], image], offsets[::-1], target, barrier, blocks)
