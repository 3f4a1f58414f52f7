"""Sorts of rows by merging, for ``tm_tensor.sort`` with places: blocks sort tiles, and tiles of one row are merged by ``sort_merges``.

An item of a tile (see ``sort_keys``) has an element's key and its place in the row, so that nothing else moves; at the end keys become
elements again.
"""

from dataclasses import dataclass

from inferno.codegen.elements import load, store
from inferno.codegen.gpu_function import gpu_function, parameters_of
from inferno.codegen.integers import Integer, Integers
from inferno.codegen.launcher import launch, launcher, parameter
from inferno.codegen.sort_keys import Item, Keys, choose
from inferno.codegen.sort_tiles import Tiles
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, scf
from inferno.schedule.sort_kernel import SortKernel, parse_sort_kernel
from inferno.schedule.sorts import Sorts, places, power
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Sorts, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that sorts, and make ``kernel`` its launcher."""
    c, s, name = parse_sort_kernel(kernel), schedule, kernel.name.value
    if c is None or s.threads % 32 or s.threads & (s.threads - 1) or s.items & (s.items - 1) or s.items > power(c.length):
        raise CompileError(f"@{name} is no sort of rows for {s}")
    if c.length > s.tile:
        raise CompileError(f"@{name}: rows of {c.length} do not fit {s}")
    buffers = parameters_of(kernel, {k.argument for k in c.kept})
    keys = Keys(c.element, c.descending, places(c.length, s.tile))
    padded = power(c.length)
    blocks = -(-c.rows * padded // s.tile)
    width = 32 if max(blocks * s.tile, *(b.count for b in buffers)) < 2**31 else 64
    size = Tiles.size(s.threads, s.items)
    with gpu_function(kernel, buffers, s.threads, [(size, t) for t in keys.types]) as function:
        ints = Integers(width)
        index = ir.IndexType.get()
        thread = ints.narrow(gpu.ThreadIdOp(gpu.Dimension.x, upper_bound=s.threads, results=[index]).result)
        block = ints.narrow(gpu.BlockIdOp(gpu.Dimension.x, results=[index]).result)
        tiles = Tiles(ints, function.shared, thread, s.threads, s.items)
        rows = Rows(c, keys, ints, function.buffers)
        team = padded // s.items  # threads of a row
        row = ints.add(ints.mul(block, s.tile // padded), ints.div(thread, team))
        lane, first = ints.rem(thread, team), ints.mul(ints.div(thread, team), padded)
        own = [ints.add(ints.mul(i, team), lane) for i in range(s.items)]
        items = tiles.sort(rows.read(row, own), padded)
        tiles.put_all(items)
        with rows_there(ints, row, c.rows):
            for place in own:
                rows.write(row, place, tiles.get(ints.add(first, place)))
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (blocks, 1, 1), (s.threads, 1, 1))


@dataclass(frozen=True)
class Rows:
    """The rows of a sort in memory."""

    c: SortKernel
    keys: Keys
    ints: Integers
    buffers: list[ir.Value]

    def offset(self, row: Integer, place: Integer, length: int) -> Integer:
        """Where a place of a row is in a tensor whose rows have ``length`` elements."""
        ints, inner = self.ints, self.c.inner
        if inner == 1:
            return ints.add(ints.mul(row, length), place)
        return ints.add(ints.add(ints.mul(ints.div(row, inner), length * inner), ints.rem(row, inner)), ints.mul(place, inner))

    def read(self, row: Integer, own: list[Integer]) -> list[Item]:
        """Items of the elements at these places; behind the row's end, ones that are behind all.  A row that is not there is read as the last."""
        c, ints = self.c, self.ints
        row = ints.min(row, c.rows - 1)
        at = [ints.min(p, c.length - 1) for p in own]
        values = [load(ints, self.buffers[c.source], self.offset(row, p, c.length), c.element) for p in at]
        items = []
        for value, place in zip(values, own):
            item = self.keys.item(self.keys.key(value), place, ints)
            if c.length & (c.length - 1):
                item = choose(ints.less(place, c.length), item, self.keys.last(place, ints))
            items.append(item)
        return items

    def write(self, row: Integer, place: Integer, item: Item) -> None:
        """Store an item that has come to ``place`` of its row, if it is kept."""
        c, ints = self.c, self.ints
        conditions = [] if c.begin == 0 else [arith.cmpi(arith.CmpIPredicate.uge, ints.value(place), ints.value(c.begin))]
        if c.begin + c.count < power(c.length) or c.begin:
            conditions.append(ints.less(place, c.begin + c.count))
        if not conditions:
            self._store(row, place, item)
            return
        condition = conditions[0]
        for more in conditions[1:]:
            condition = arith.andi(condition, more)
        inside = scf.IfOp(condition)
        with ir.InsertionPoint(inside.then_block):
            self._store(row, place, item)
            scf.yield_([])

    def _store(self, row: Integer, place: Integer, item: Item) -> None:
        c, ints = self.c, self.ints
        key, origin = self.keys.split(item, ints)
        target = self.offset(row, ints.sub(place, c.begin), c.count)
        for kept in c.kept:
            if kept.indices:
                i64 = ir.IntegerType.get_signless(64)
                store(ints, origin if ints.width == 64 else arith.extui(i64, origin), self.buffers[kept.argument], target)
            else:
                store(ints, self._element(row, key, origin), self.buffers[kept.argument], target)

    def _element(self, row: Integer, key: ir.Value, origin: Integer) -> ir.Value:
        value, again = self.keys.value(key)
        if again is None:
            return value
        op = scf.IfOp(again, [value.type], has_else=True)
        with ir.InsertionPoint(op.then_block):
            scf.yield_([load(self.ints, self.buffers[self.c.source], self.offset(row, origin, self.c.length), self.c.element)])
        with ir.InsertionPoint(op.else_block):
            scf.yield_([value])
        return op.results[0]


class rows_there:
    """A context in which only threads whose row is there go on."""

    def __init__(self, ints: Integers, row: Integer, rows: int) -> None:
        self._op = scf.IfOp(ints.less(row, rows))
        self._point = ir.InsertionPoint(self._op.then_block)

    def __enter__(self) -> None:
        self._point.__enter__()

    def __exit__(self, *error) -> None:
        scf.yield_([])
        self._point.__exit__(*error)
