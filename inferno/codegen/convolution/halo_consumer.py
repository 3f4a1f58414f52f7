"""The consumers of ``halo``: products of a patch's taps, and an epilogue whose tile's rows are blocks of 8x8 pixels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.wgmma_epilogue import Epilogue
from inferno.codegen.nvvm.builder import Words, loop, opaque
from inferno.codegen.nvvm.mbarriers import Position
from inferno.codegen.nvvm.tensor_core import Multiplier, Tile, matrix_address
from inferno.mlir import ir
from inferno.schedule.convolution.halo import Patch, patch_of
from inferno.symbolic import product


@dataclass(frozen=True)
class PatchTile(Tile):
    """``rows`` pixels of a chunk of channels.  Eight rows of a product are neighbours in the patch and begin at any pixel: the swizzle is one of addresses."""

    patch: Patch | None = None

    def begin(self, block: int) -> int:
        """The pixel that a block begins at."""
        y, x = self.patch.place(block)
        return y * self.patch.pitch + x

    def descriptor(self, words: Words, address: Integer, row: int, term: int) -> ir.Value:
        return self.described(words, address, self.begin(row // 64) * self.row + term * self.width, 16, self.patch.eight_rows * self.row)


class HaloConsumer:
    """What an emitter of ``halo`` does in a warpgroup that multiplies.  On its way: where it is among the patches and among the weights."""

    def consume(self) -> None:
        s, words, layout = self.schedule, self.words, self.layout
        self.begin_consumer()
        self.multiplier = Multiplier(words, self.kind, self.lhs, self.rhs)
        own = 0 if s.pingpong else words.mul(self.number, self.lhs.begin(s.rows // 64) * self.lhs.row)
        self.lhs_base = matrix_address(words, words.add(words.add(self.device.shared, layout.lhs), own))
        self.rhs_base = matrix_address(words, words.add(self.device.shared, layout.rhs))
        if s.kept:
            self.kept.wait(0, 0)
        start = [*self.ring.start().values, *self.weights.start().values]
        if s.pingpong:
            second = words.equal(self.number, 1)
            carried = [words.select(second, b, a) for a, b in zip(start, self.skip(start))]
            self.each_tile(*self.tiles_of(self.number), [*carried, words.select(second, 0, 1)], self.take_turn)
        else:
            self.each_tile(*self.tiles_of(self.number), start, self.compute)
        self.end_consumer()

    def skip(self, at: Sequence[ir.Value]) -> list[ir.Value]:
        """Over a tile's slots."""
        weights = self.weights.skip(Position(*at[2:]), self.steps).values if self.schedule.weights else at[2:]
        return [*self.ring.skip(Position(*at[:2]), self.patches).values, *weights]

    def take_turn(self, number: ir.Value, *at: ir.Value) -> list[ir.Value]:
        """Multiply when the other consumer has started its epilogue, and pass over its slots."""
        *at, turn = at
        self.turns.wait(self.number, turn)
        return [*self.skip(self.compute(number, *at)), self.words.xor(turn, 1)]

    def compute(self, number: ir.Value, *at: ir.Value) -> list[ir.Value]:
        """One tile, from these slots on; returns where the next one begins."""
        s, words = self.schedule, self.words
        at, sums = self.multiply_tile([*at, at[0], at[2]], self.multiplier.start(s.rows // 64))
        if s.pingpong:
            with only_if(words.equal(self.member, 0)):
                self.turns.arrive(words.sub(1, self.number))
        (*plane, y, x), _, n0 = self.tile(number)
        down, across = self.patch.place(0 if s.pingpong else s.rows // 64)
        y, x = words.add(y, words.mul(self.number, down)), words.add(x, words.mul(self.number, across))
        self.epilogue.begin([*plane, y, x], 0, n0)
        values = self.multiplier.finish(sums)
        self.ring.release(at[4], self.member)
        if s.weights:
            self.weights.release(at[5], self.member)
        self.epilogue.emit(values)
        return at[:4]

    def multiply_tile(self, at: Sequence[ir.Value], sums: Sequence[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
        """The products of a tile, one of its ``parts`` after the other; ``at`` is as ``multiply_row``'s."""
        count, multiply = self.parts()
        at, sums = multiply(0, at, sums)

        def part(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            at, sums = multiply(number, carried[:6], carried[6:])
            return [*at, *sums]

        found = loop(self.words, 1, count, 1, [*at, *sums], part) if count > 1 else [*at, *sums]
        return found[:6], found[6:]

    def parts(self) -> tuple[int, Callable]:
        """How many parts a tile's products have, and what emits those of one: of a row of taps in a patch."""
        return self.patches * self.window.taps[-2], self.multiply_row

    def multiply_row(self, number: Integer, at: Sequence[ir.Value], sums: Sequence[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
        """The products of a row of taps, the tile's first if ``number`` is 0.  ``at``: where the next patch and weights are, and the slots of those that were
        read last, which are free as soon as the first product behind is under way."""
        words, window, span, kept = self.words, self.window, self.patch.span, self.schedule.kept
        here, weights, (patch_before, before) = Position(*at[:2]), Position(*at[2:4]), at[4:]
        step, row = words.div(number, window.taps[-2]), words.rem(number, window.taps[-2])
        self.ring.await_full(here)  # as it is for all rows
        image = words.add(words.mul(here.slot, self.lhs.bytes >> 4), words.mul(row, window.dilations[-2] * self.patch.pitch * self.lhs.row >> 4))
        image = words.add(self.lhs_base, image)
        if kept:  # by steps LLVM would count the whole descriptor up (see ``wgmma_consumer``)
            chunk, *depths, left = self.chunk_and_taps(step)
            first = words.add(words.mul(words.dot((*depths, row, left), strides(window.taps)), self.chunks), chunk)
            rhs = opaque(words, words.add(self.rhs_base, words.mul(first, self.rhs.bytes >> 4)))
        for column in range(span):
            first = isinstance(number, int) and column == 0
            if kept:
                own = words.add(rhs, column * self.chunks * self.rhs.bytes >> 4)
            else:
                self.weights.await_full(weights)
                own = words.add(self.rhs_base, words.mul(weights.slot, self.rhs.bytes >> 4))
            sums = self.multiplier.multiply(sums, words.add(image, column * window.dilations[-1] * self.lhs.row >> 4), own, first)
            if not first:
                if column == 0 or not kept:
                    self.multiplier.await_groups(1)
                if column == 0:
                    with only_if(words.equal(row, 0)):
                        self.ring.release(patch_before, self.member)
                if not kept:
                    self.weights.release(before, self.member)
            if not kept:
                before, weights = weights.slot, self.weights.next(weights)
        last, after = words.equal(row, window.taps[-2] - 1), self.ring.next(here)
        following = [words.select(last, b, a) for a, b in zip(here.values, after.values)]
        return [*following, *weights.values, here.slot, before], list(sums)


class HaloEpilogue(Epilogue):
    """Of a consumer's tile; the grid is the image and the place of its first pixel there.  A row is the number of a pixel; one outside of an image is
    another one's number, whose results the copy engine drops."""

    @property
    def patch(self) -> Patch:
        return patch_of(self.schedule, self.contraction.lhs.unfolded)

    def begin(self, grid: Sequence[Integer], m0: Integer, n0: Integer) -> None:
        self.place_in_image = grid
        super().begin([], self.words.dot(grid, strides((1, *self.patch.window.counts))), n0)

    def first_row(self) -> Integer:
        words, patch, first = self.words, self.patch, self.words.shl(self.group.warp, 4)
        y, x = words.div(first, patch.width), words.rem(first, patch.width)
        return words.add(words.add(words.mul(y, patch.window.counts[-1]), x), words.shr(self.group.lane, 2))

    def down(self, block: int, half: int = 0) -> int:
        patch = self.patch
        (y, x), (down, across) = patch.place(block), divmod(self.apart * half, patch.width)
        return (y + down) * patch.window.counts[-1] + x + across

    @property
    def hangs_over(self) -> bool:
        return any(n % each for n, each in zip(self.patch.window.counts[-2:], (self.patch.rows, self.patch.columns)))

    def box_place(self, begin: int, block: int) -> list[Integer]:
        words, (*plane, y, x) = self.words, self.place_in_image
        down, across = self.patch.place(block)
        return [words.add(self.n0, begin), words.add(x, across), words.add(y, down), *plane[::-1]]


def strides(sizes: Sequence[int]) -> list[int]:
    """Of a row-major box; the outermost size has no part in it."""
    return [product(sizes[i + 1:]) for i in range(len(sizes))]
