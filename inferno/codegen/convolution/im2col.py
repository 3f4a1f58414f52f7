"""Convolutions on Hopper's tensor cores: generator ``wgmma`` with an operand that TMA loads in its im2col mode.

The matrix of windows (see ``schedule.unfolded``) has a row for each pixel of the result and a column for each term.  A tile of it is a number of
neighbouring rows, and some of the channels of one tap.  The copy engine is given the place of the first row's first tap and the tap's
offset, and walks the pixels from there on through the box of all first taps' places, along rows, columns and images, by the convolution's
strides; what lies outside of the image, as padding does, arrives as zeros, and so do channels and images that there are not.
"""

from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import pixel_map
from inferno.codegen.convolution.halo import HaloEmitter
from inferno.codegen.convolution.halo_phases import PhasesEmitter
from inferno.codegen.matmul import wgmma
from inferno.codegen.matmul.stream_k import StreamEmitter
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import Words
from inferno.codegen.nvvm.tensor_core import Tile
from inferno.errors import CompileError
from inferno.mlir import func, ir
from inferno.schedule.convolution.im2col import Im2col, keeps_to_group, parse_unfolded
from inferno.schedule.convolution.unfolded import Unfolded
from inferno.schedule.matmul.contraction import Contraction, Operand
from inferno.schedule.matmul.wgmma_schedule import precision
from inferno.schedule.tiles.tiling import Source, tile_contraction
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Im2col, target: Target) -> None:
    """Add the ``gpu.module`` of a convolution and make ``kernel`` its launcher."""
    c = parse_unfolded(kernel, target)
    kind = precision(kernel, c) if c is not None else None
    width = 4 if kind == "tf32" else 2
    tiling = tile_contraction(c, width, only_along_k=width == 4, rewrite=schedule.rewrite) if kind is not None else None
    if tiling is None or schedule.swapped or schedule.threads > 384 or not keeps_to_group(schedule, c):
        raise CompileError(f"@{kernel.name.value} is not a convolution for tensor cores by {schedule}")
    wgmma.prepare_bodies(c)
    emitter = halo_emitter(c) if schedule.patch else _StreamEmitter if schedule.stream else Emitter
    wgmma.emit(kernel, emitter(kernel.name.value, c, tiling, schedule, target, kind))


def halo_emitter(c: Contraction) -> type[HaloEmitter]:
    """For tiles with their halo."""
    return HaloEmitter if c.lhs.unfolded.steps[-1] == 1 else PhasesEmitter


def image_map(value: ir.Value, window: Unfolded, tile: Tile, channels: int, pixels: int, kind: str) -> ir.Value:
    """The copy engine's map of an image, which brings so many channels of so many pixels at a time."""
    sizes, strides = (window.shape[-1] * window.groups, *window.shape[-2::-1]), [tile.width]
    for size in sizes[:-1]:
        strides.append(strides[-1] * size)
    lower, upper = window.corners
    return pixel_map(
        value, sizes=sizes, strides=strides, channels=channels, pixels=pixels, lower=lower, upper=upper, steps=window.steps[::-1],
        element=kind, swizzle=tile.span,
    )


def first_places(words: Words, window: Unfolded, pixel: Integer) -> list[Integer]:
    """The image of a pixel of the result, and the place there of its window's first tap, outermost dimension first."""
    image, *places = words.split(pixel, [window.shape[0], *window.counts])
    return [image, *(words.sub(words.mul(p, s), low) for p, s, low in zip(places, window.steps, window.low))]


class _Unfolded:
    """The windows of an emitter, which are its lhs or its rhs."""

    @property
    def windows(self) -> tuple[Tile, Operand, Source]:
        c, t = self.contraction, self.tiling
        return (self.lhs, c.lhs, t.lhs) if c.lhs.unfolded is not None else (self.rhs, c.rhs, t.rhs)

    def lhs_map(self, lhs: ir.Value, share: int) -> ir.Value:
        return super().lhs_map(lhs, share) if self.contraction.lhs.unfolded is None else self._image_map(lhs, share)

    def rhs_map(self, rhs: ir.Value, share: int) -> ir.Value:
        return super().rhs_map(rhs, share) if self.contraction.rhs.unfolded is None else self._image_map(rhs, share)

    def _image_map(self, image: ir.Value, share: int) -> ir.Value:
        tile, operand, _ = self.windows
        return image_map(image, operand.unfolded, tile, tile.depth, tile.rows // share, self.kind)

    def load_rows(self, map_: ir.Value, tile: Tile, where: list[Integer], target: Integer, barrier: ir.Value, blocks: int) -> None:
        own, operand, source = self.windows
        if tile is not own:
            super().load_rows(map_, tile, where, target, barrier, blocks)
            return
        words = self.words
        window, (_, rows, *outer), (channel, row, *positions) = operand.unfolded, source.axes, where
        taps = dict.fromkeys(d for d in window.loops if d is not None)
        pixel = words.mul(row, rows.stride(operand.access) // window.terms)
        for axis, at in zip(outer, positions):
            if axis.dims and axis.dims[0] in taps:
                taps[axis.dims[0]] = at
            elif axis.dims and axis.dims[0] == window.group:
                channel = words.add(channel, words.mul(at, window.shape[-1]))
            else:
                pixel = words.add(pixel, words.mul(at, axis.stride(operand.access) // window.terms))
        image, *places = first_places(words, window, pixel)
        offsets = [0 if d is None else words.mul(taps[d], dilation) for d, dilation in zip(window.loops, window.dilations)]
        tma.load_pixels(words, map_, [channel, *places[::-1], image], offsets[::-1], target, barrier, blocks)


class Emitter(_Unfolded, wgmma.Emitter):
    pass


class _StreamEmitter(_Unfolded, StreamEmitter):
    pass
