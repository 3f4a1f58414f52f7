"""Patches with their halo of convolutions of stride 2: of the four images of every other row and column, one after the other.

Those four are one tensor for the copy engine: a pixel and the next one side by side are its innermost dimension, a row and the next one another.
"""

from collections.abc import Callable, Sequence

from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import tensor_map
from inferno.codegen.convolution.halo import HaloEmitter
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import loop, opaque
from inferno.codegen.nvvm.mbarriers import Position
from inferno.mlir import ir


class PhasesEmitter(HaloEmitter):
    """All taps of a chunk of channels are in the code, phase by phase."""

    def prepare(self) -> None:
        super().prepare()
        self.phases = self.patch.phases
        self.patches = self.chunks * len(self.phases)

    def bring_patches(self, number: ir.Value, *at: ir.Value) -> list[ir.Value]:
        words, ring, patch = self.words, self.ring, self.patch
        (image, *places), _, _ = self.tile(number)
        y, x = (words.add(place, patch.begin(dim)) for place, dim in zip(places, (-2, -1)))

        def chunk(number: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
            here = Position(*at)
            for phase in self.phases:
                ring.acquire(here)
                ring.full.expect(here.slot, patch.height * patch.pitch * self.lhs.row)
                target = words.add(words.add(self.device.shared, self.layout.lhs), words.mul(here.slot, self.lhs.bytes))
                channel = words.add(words.mul(number, self.depth), phase.column * self.window.shape[-1])
                tma.load_box(words, self.maps[0], [channel, x, phase.row, y, image], target, ring.full.at(here.slot))
                here = ring.next(here)
            return here.values

        return loop(words, 0, self.chunks, 1, at, chunk)

    def bring_weights(self, number: ir.Value, *at: ir.Value) -> list[ir.Value]:
        _, _, n0 = self.tile(number)

        def chunk(number: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
            here = Position(*at)
            for tap, _ in (t for phase in self.phases for t in phase.taps):
                here = self.bring_tap(number, tap, n0, here)
            return here.values

        return loop(self.words, 0, self.chunks, 1, at, chunk)

    def parts(self) -> tuple[int, Callable]:
        return self.chunks, self.multiply_chunk

    def multiply_chunk(self, number: Integer, at: Sequence[ir.Value], sums: Sequence[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
        """The products of a chunk of channels, the tile's first if ``number`` is 0; ``at`` is as ``multiply_row``'s."""
        words, kept = self.words, self.schedule.kept
        here, weights, (patch_before, before) = Position(*at[:2]), Position(*at[2:4]), at[4:]
        first = isinstance(number, int)
        for phase in self.phases:
            self.ring.await_full(here)
            image = words.add(self.lhs_base, words.mul(here.slot, self.lhs.bytes >> 4))
            for place, (tap, (y, x)) in enumerate(phase.taps):
                if kept:  # by steps LLVM would count the whole descriptor up (see ``wgmma_consumer``)
                    step = words.add((tap[0] * self.window.taps[-1] + tap[1]) * self.chunks, number)
                    own = opaque(words, words.add(self.rhs_base, words.mul(step, self.rhs.bytes >> 4)))
                else:
                    self.weights.await_full(weights)
                    own = words.add(self.rhs_base, words.mul(weights.slot, self.rhs.bytes >> 4))
                sums = self.multiplier.multiply(sums, words.add(image, (y * self.patch.pitch + x) * self.lhs.row >> 4), own, first)
                if not first:
                    if place == 0 or not kept:
                        self.multiplier.await_groups(1)
                    if place == 0:
                        self.ring.release(patch_before, self.member)
                    if not kept:
                        self.weights.release(before, self.member)
                if not kept:
                    before, weights = weights.slot, self.weights.next(weights)
                first = False
            patch_before, here = here.slot, self.ring.next(here)
        return [*here.values, *weights.values, patch_before, before], list(sums)

    def lhs_map(self, lhs: ir.Value, share: int) -> ir.Value:
        images, rows, columns, channels = self.window.shape
        row = columns * channels * self.lhs.width
        return tensor_map(
            lhs, sizes=[2 * channels, columns // 2, 2, rows // 2, images], strides=[self.lhs.width, 2 * channels * self.lhs.width, row, 2 * row, rows * row],
            box=[self.depth, self.patch.pitch, 1, self.patch.height, 1], element=self.kind, swizzle=self.lhs.span,
        )
