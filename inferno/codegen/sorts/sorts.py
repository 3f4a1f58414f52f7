"""Sorts of rows by merging, for ``tm_tensor.sort`` with places: blocks sort tiles, and tiles of longer rows are merged.

An item of a tile (see ``keys``) has an element's key and its place in the row, so that nothing else moves; at the end keys become
elements again.  Merging two runs, every block finds by a search what of them its part of the merged run is made of.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import Buffer, gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, launcher, parameter, pointer, scalar, size, temporary
from inferno.codegen.sorts.keys import Item, Keys
from inferno.codegen.sorts.rows import Rows, rows_there
from inferno.codegen.sorts.tiles import Tiles, merge_part, split
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, memref
from inferno.schedule.sorts.kernel import SortKernel, parse_sort_kernel
from inferno.schedule.sorts.sorts import Sorts, places, power
from inferno.symbolic import ceildiv
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Sorts, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that sorts, and make ``kernel`` its launcher."""
    c, s, name = parse_sort_kernel(kernel), schedule, kernel.name.value
    if c is None or s.threads % 32 or s.threads & (s.threads - 1) or s.items & (s.items - 1) or s.items > power(c.length):
        raise CompileError(f"@{name} is no sort of rows for {s}")
    for point in c.maps:
        expand_math(point.generic)
    _Generator(kernel, c, s, Keys(c.element, c.descending, places(c.length, s.tile)), parameters_of(kernel, {k.argument for k in c.kept})).generate()


@dataclass
class _Generator:
    kernel: func.FuncOp
    c: SortKernel
    s: Sorts
    keys: Keys
    own: list[Buffer]

    def generate(self) -> None:
        c, s, name = self.c, self.s, self.kernel.name.value
        tiles = -(-c.length // s.tile)  # of a row
        self.padded = tiles * s.tile if tiles > 1 else power(c.length)
        if tiles > 1 and not isinstance(c.rows, int):
            raise CompileError(f"@{name}: {s} merges tiles of rows, whose number varies")
        self.blocks = ceildiv(c.rows * self.padded, s.tile)
        self.width = index_width(self.own, self.blocks * s.tile)
        shared = [(Tiles.size(s.threads, s.items), t) for t in self.keys.types]
        runs = [s.tile << i for i in range((tiles - 1).bit_length())]
        left, found = ([Buffer(t, self.blocks * s.tile, readonly) for t in self.keys.types] for readonly in (False, True))
        words = len(left)
        with gpu_function(self.kernel, [*self.own, *(left if runs else [])], s.threads, shared) as function:
            self.sort_tiles(self.start(function), function.buffers[len(self.own):])
        if len(runs) > 1:
            shared += [(2, ir.IntegerType.get_signless(self.width))]
            with gpu_function(self.kernel, [*self.own, *found, *left, None], s.threads, shared, suffix="_merge") as function:
                buffers = function.buffers[len(self.own):]
                self.merge(self.start(function), function, buffers[:words], buffers[words:-1])
        if runs:
            shared = [*shared[:words], (2, ir.IntegerType.get_signless(self.width))]
            with gpu_function(self.kernel, [*self.own, *found, None], s.threads, shared, suffix="_last") as function:
                self.merge(self.start(function), function, function.buffers[len(self.own):-1], [])
        with launcher(self.kernel) as arguments:
            own = [parameter(a) for a in arguments]
            items = [[pointer(temporary([self.blocks * s.tile], t)) for t in self.keys.types] for _ in range(min(2, len(runs)))]
            start = (self.blocks, 1, 1), (s.threads, 1, 1)
            launch(f"{name}_gpu", name, [*own, *(items[0] if runs else [])], *start)
            for i, run in enumerate(runs):
                last = i + 1 == len(runs)
                given = [*items[i % 2], *([] if last else items[(i + 1) % 2]), scalar(size(run))]
                launch(f"{name}_gpu", name + ("_last" if last else "_merge"), [*own, *given], *start)

    def start(self, function) -> Tiles:
        s, words = self.s, len(self.keys.types)
        self.ints = integers_for(self.kernel, self.width, function.buffers)
        thread = self.ints.thread(s.threads)
        self.block = self.ints.block()
        self.rows = Rows(self.c, self.keys, self.ints, function.buffers)
        return Tiles(self.ints, function.shared[:words], thread, s.threads, s.items)

    def sort_tiles(self, tiles: Tiles, left: Sequence[ir.Value]) -> None:
        """The kernel that sorts tiles of rows, and stores what is sorted, or the items to ``left``."""
        c, s, ints, thread = self.c, self.s, self.ints, tiles.thread
        length = min(self.padded, s.tile)
        team = length // s.items  # threads of a row
        row, begin = ints.add(ints.mul(self.block, s.tile // length), ints.div(thread, team)), 0
        if left:
            row, begin = ints.div(self.block, self.padded // s.tile), ints.mul(ints.rem(self.block, self.padded // s.tile), s.tile)
        lane, first = ints.rem(thread, team), ints.mul(ints.div(thread, team), length)
        own = [ints.add(ints.mul(i, team), lane) for i in range(s.items)]
        items = tiles.sort(self.rows.read(row, [ints.add(begin, p) for p in own]), length)
        tiles.put_all(items)
        if left:
            for place in own:
                self.leave(left, place, tiles.get(place))
            return
        with rows_there(ints, row, c.rows):
            for place in own:
                self.rows.write(row, place, tiles.get(ints.add(first, place)))

    def merge(self, tiles: Tiles, function, found: Sequence[ir.Value], left: Sequence[ir.Value]) -> None:
        """The kernel that merges neighbouring runs, whose length is its last parameter, a tile of the result by each block."""
        s, ints, thread = self.s, self.ints, tiles.thread
        run = ints.narrow(function.buffers[-1])
        each = self.padded // s.tile
        row, place = ints.div(self.block, each), ints.mul(ints.rem(self.block, each), s.tile)
        pair = ints.mul(run, 2)
        before = arith.remui(ints.value(place), ints.value(pair))
        base = ints.sub(place, before)
        middle = ints.min(ints.add(base, run), self.padded)
        end = ints.min(ints.add(base, pair), self.padded)
        origin = ints.mul(row, self.padded)

        def get(at: Integer) -> Item:
            where = [ints.index(ints.add(origin, ints.min(at, self.padded - 1)))]
            return tuple(memref.load(array, where) for array in found)

        # Neighbouring threads find where the block's part begins and where it ends.
        wanted = ints.add(before, ints.mul(ints.rem(thread, 2), s.tile))
        taken = split(ints, get, (base, middle), (middle, end), wanted, self.padded)
        with only_if(ints.less(thread, 2)):
            memref.store(taken, function.shared[-1], [ints.index(thread)])
        gpu.barrier()
        begin_a, end_a = (memref.load(function.shared[-1], [ints.index(i)]) for i in range(2))
        from_a = ints.sub(end_a, begin_a)
        at_a, at_b = ints.add(base, begin_a), ints.sub(ints.add(middle, ints.sub(before, begin_a)), from_a)
        own = [ints.add(ints.mul(i, s.threads), thread) for i in range(s.items)]
        loaded = [get(ints.add(arith.select(ints.less(p, from_a), at_a, at_b), p)) for p in own]
        for p, item in zip(own, loaded):
            tiles.put(p, item)
        gpu.barrier()
        items = merge_part(tiles, (0, from_a), (from_a, s.tile), ints.mul(thread, s.items), s.tile, s.items)
        gpu.barrier()
        tiles.put_all(items)
        for p in own:
            if left:
                self.leave(left, p, tiles.get(p))
            else:
                self.rows.write(row, ints.add(place, p), tiles.get(p))

    def leave(self, left: Sequence[ir.Value], place: Integer, item: Item) -> None:
        """Store an item of the block's tile for the next kernel."""
        at = [self.ints.index(self.ints.add(self.ints.mul(self.block, self.s.tile), place))]
        for array, word in zip(left, item):
            memref.store(word, array, at)
