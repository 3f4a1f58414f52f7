"""Convolutions on Hopper's tensor cores whose patches of the image come to shared memory with their halo, once for many taps: generator ``im2col`` where its
schedule has patches.

One thread brings patches, boxes of an image's pixels in which what lies outside of the image arrives as zeros; another one the weights, tap by tap.
"""

from collections.abc import Sequence

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import tensor_map
from inferno.codegen.convolution.halo_consumer import HaloConsumer, HaloEpilogue, PatchTile
from inferno.codegen.matmul import wgmma
from inferno.codegen.matmul.tile_order import tile_position
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import elect, loop
from inferno.codegen.nvvm.mbarriers import Position, Ring
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import arith, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.convolution.halo import patch_of, takes
from inferno.schedule.tiles.result_parts import StoreMap, columns_together
from inferno.schedule.tiles.tiling import Axis
from inferno.symbolic import Int, ceildiv, product


class HaloEmitter(HaloConsumer, wgmma.Emitter):
    """``grid`` of a tile is its image and the place of its first pixel there."""

    epilogue_type = HaloEpilogue

    def prepare(self) -> None:
        c, s = self.contraction, self.schedule
        if not takes(s, c, self.tiling):
            raise CompileError(f"@{self.name}: {s} has patches that are not this convolution's")
        self.window = c.lhs.unfolded
        self.patch = patch_of(s, self.window)
        self.lhs = PatchTile(s.patch, self.lhs.width, True, s.row, patch=self.patch)
        super().prepare()
        self.chunks = ceildiv(self.tiling.k.size, self.depth)
        self.patches = self.chunks * product(self.patch.each)  # of a tile

    def count_tiles(self) -> tuple[Int, Int]:
        return product(self.patch.tiles), ceildiv(self.tiling.n.size, self.schedule.tile_n)

    def tile(self, number: Integer) -> tuple[list[Integer], Integer, Integer]:
        s, words = self.schedule, self.words
        _, row, column = tile_position(words, number, [], self.rows, self.columns, s.group)
        *plane, down, across = words.split(row, self.patch.tiles)
        return [*plane, words.mul(down, self.patch.rows), words.mul(across, self.patch.columns)], 0, words.mul(column, s.tile_n)

    # The rings.

    @property
    def weights(self) -> Ring:
        words, s = self.words, self.schedule
        return Ring(words, words.add(self.device.shared, self.layout.total - 8 - 16 * s.weights), s.weights, self.releases)

    def further_rings(self) -> list[Ring]:
        return [self.weights] if self.schedule.weights else []

    def start_copies(self) -> None:
        with only_if(arith.andi(self.words.equal(self.warp, 0), elect())):
            self.produce()
        if self.schedule.weights:
            with only_if(arith.andi(self.words.equal(self.warp, 1), elect())):
                self.each_tile(self.worker, self.workers, self.weights.start().values, self.bring_weights)

    def produce(self) -> None:
        if self.schedule.kept:
            self.keep_rhs()
        self.each_tile(self.worker, self.workers, self.ring.start().values, self.bring_patches)

    def bring_patches(self, number: ir.Value, *at: ir.Value) -> list[ir.Value]:
        """Those of a tile."""
        words, ring, window = self.words, self.ring, self.window
        (image, *places), _, _ = self.tile(number)

        def patch(step: ir.Value, *at: ir.Value) -> list[ir.Value]:
            here, (chunk, *depths, left) = Position(*at), self.chunk_and_taps(step)
            ring.acquire(here)
            ring.full.expect(here.slot, self.patch.height * self.patch.pitch * self.lhs.row)
            target = words.add(words.add(self.device.shared, self.layout.lhs), words.mul(here.slot, self.lhs.bytes))
            first = [words.mul(tap, d) for tap, d in zip((*depths, 0, left), window.dilations)]
            first = [words.add(words.sub(at, low), tap) for at, low, tap in zip(places, window.low, first)]
            tma.load_box(words, self.maps[0], [words.mul(chunk, self.depth), *first[::-1], image], target, ring.full.at(here.slot))
            return ring.next(here).values

        return loop(words, 0, self.patches, 1, at, patch)

    def bring_weights(self, number: ir.Value, *at: ir.Value) -> list[ir.Value]:
        """Those of a tile, in the order in which the taps of its patches are multiplied."""
        words, taps, (_, _, n0) = self.words, self.window.taps[-2] * self.patch.span, self.tile(number)

        def tap(step: ir.Value, *at: ir.Value) -> list[ir.Value]:
            (chunk, *depths, left), inside = self.chunk_and_taps(words.div(step, taps)), words.rem(step, taps)
            places = (*depths, words.div(inside, self.patch.span), words.add(left, words.rem(inside, self.patch.span)))
            return self.bring_tap(chunk, places, n0, Position(*at)).values

        return loop(words, 0, self.steps, 1, at, tap)

    def bring_tap(self, chunk: Integer, places: Sequence[Integer], n0: Integer, here: Position) -> Position:
        """The weights of a tap and a chunk of channels; where the next ones go."""
        words, ring, (map_, tile, source, _, base, *_) = self.words, self.weights, self.operands(0, 0)[1]
        ring.acquire(here)
        ring.full.expect(here.slot, tile.bytes)
        where: dict[Axis, Integer] = {a: places[self.window.loops.index(a.dims[0])] for a in self.tiling.steps}
        target = words.add(words.add(self.device.shared, base), words.mul(here.slot, tile.bytes))
        outer = [where[a] for a in source.axes[2:]]
        self.copy_tile(map_, tile, outer, n0, words.mul(chunk, self.depth), target, ring.full.at(here.slot), 1)
        return ring.next(here)

    def chunk_and_taps(self, step: Integer) -> list[Integer]:
        """Of a tile's patch: its chunk of channels, its tap along the depth, if there is one, and its first column of taps."""
        chunk, *depths, part = self.words.split(step, [self.chunks, *self.patch.each])
        return [chunk, *depths, self.words.mul(part, self.patch.span)]

    # The maps.

    def lhs_map(self, lhs: ir.Value, share: int) -> ir.Value:
        images, *places, channels = self.window.shape
        sizes, strides = [channels, *places[::-1], images], [self.lhs.width]
        for size in sizes[:-1]:
            strides.append(strides[-1] * size)
        box = [self.depth, self.patch.pitch, self.patch.height, *[1] * (len(sizes) - 3)]
        return tensor_map(lhs, sizes=sizes, strides=strides, box=box, element=self.kind, swizzle=self.lhs.span)

    def store_map(self, result: ir.Value, access: Access, map_: StoreMap) -> ir.Value:
        together, size = columns_together(self.contraction, self.tiling, self.schedule), element_bytes(access.element)
        sizes, strides = [self.tiling.n.size, *self.window.counts[::-1], self.window.shape[0]], [size, map_.strides[1] * size]
        for count in sizes[1:-1]:
            strides.append(strides[-1] * count)
        box = [together, self.patch.width, 64 // self.patch.width, *[1] * (len(sizes) - 3)]
        return tensor_map(result, sizes=sizes, strides=strides, box=box, element=str(access.element), swizzle=together * size, l2=0)
