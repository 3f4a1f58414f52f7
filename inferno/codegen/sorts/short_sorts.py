"""Sorts of short rows: a thread sorts whole ones in its registers, and reads and writes them by vectors.

Where somebody reads places, an element goes with its own (``keys``); else elements are sorted alone (``values``), which is half the work and less.
"""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import join, lanes_of, load, load_vector, splat, store_vector, tree
from inferno.codegen.builders.gpu_function import gpu_function, integers_for, parameters_of
from inferno.codegen.builders.integers import Integer, Integers, resize
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.sorts.keys import INFINITY, Item, Keys, in_order, network
from inferno.codegen.sorts.thread_chunks import Chunks
from inferno.codegen.sorts.values import sort_values
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir
from inferno.schedule.sorts.kernel import SortKernel, parse_sort_kernel
from inferno.schedule.sorts.short_sorts import ShortSorts, needs_places
from inferno.symbolic import ceildiv, reach
from inferno.target import Target

Rows = list[list[ir.Value]]


def generate(kernel: func.FuncOp, schedule: ShortSorts, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that sorts short rows, and make ``kernel`` its launcher."""
    c, s, name = parse_sort_kernel(kernel), schedule, kernel.name.value
    if c is None or not s.fits(c):
        raise CompileError(f"@{name} is no sort of short rows for {s}")
    own = parameters_of(kernel, {k.argument for k in c.kept})
    blocks = ceildiv(c.rows, s.rows * s.threads)
    width = 32 if reach(blocks * s.threads * s.rows * c.length) < 2**31 else 64
    shared = [] if s.beside else [x for x in (_array(c, s, False), _array(c, s, True)) if x is not None]
    with gpu_function(kernel, own, s.threads, shared) as function:
        ints = integers_for(kernel, width, function.buffers)
        thread = ints.thread(s.threads)
        block = ints.block()
        (_Beside if s.beside else _Behind)(c, s, ints, function.buffers, function.shared, block, thread).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (blocks, 1, 1), (s.threads, 1, 1))


def _array(c: SortKernel, s: ShortSorts, places: bool) -> tuple[int, ir.Type] | None:
    """The array in shared memory for elements or for places, if there is one."""
    held = _place() if places else c.element
    counts = [s.rows * c.count for k in c.kept if k.indices == places and not Chunks.is_direct(s.rows * c.count, _in_memory(c, places))]
    counts += [s.rows * c.length] if not places and not Chunks.is_direct(s.rows * c.length, c.element) else []
    return (max(Chunks.size(n, s.threads) for n in counts), held) if counts else None


def _place() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _in_memory(c: SortKernel, places: bool) -> ir.Type:
    return ir.IntegerType.get_signless(64) if places else c.element


@dataclass
class _Sort:
    """What all threads do, but for where their rows are."""

    c: SortKernel
    s: ShortSorts
    ints: Integers
    buffers: list[ir.Value]
    shared: list[ir.Value]
    block: Integer
    thread: Integer

    def emit(self) -> None:
        c, rows = self.c, self.read()
        if needs_places(c):
            values, places = self.with_places(rows)
        else:
            window = slice(c.begin, c.begin + c.count)
            values, places = [row[window] for row in sort_values(c.element, c.descending, rows)], None
        self.write(values, places)

    def read(self) -> Rows:
        raise NotImplementedError

    def write(self, values: Rows | None, places: Rows | None) -> None:
        raise NotImplementedError

    def offset(self, row: int, place: Integer) -> Integer:
        """Where an element of one of the thread's rows is; somewhere in the tensor for a row that is not there."""
        raise NotImplementedError

    def with_places(self, rows: Rows) -> tuple[Rows | None, Rows]:
        """The sorted elements that are kept, if they are, and their places."""
        c = self.c
        keys = Keys(c.element, c.descending, (c.length - 1).bit_length())
        found = [self._items(keys, row)[c.begin:c.begin + c.count] for row in rows]
        split = [[keys.split(item, Integers(32)) for item in row] for row in found]
        places = [[place for _, place in row] for row in split]
        if all(k.indices for k in c.kept):
            return None, places
        values = [[keys.value(key)[0] for key, _ in row] for row in split]
        return (self._read_again(rows, split, values, keys) if str(c.element) in INFINITY else values), places

    def _items(self, keys: Keys, row: list[ir.Value]) -> list[Item]:
        items = [keys.item(keys.key(x), place, self.ints) for place, x in enumerate(row)]
        for low, high in network(len(items)):
            items[low], items[high] = in_order(items[low], items[high])
        return items

    def _read_again(self, rows: Rows, split: list, values: Rows, keys: Keys) -> Rows:
        """The same, read again where keys do not tell all bits: where there is a -0.0, whose bits are the least number, or what is kept has a NaN, which
        comes last, or first."""
        c, bits = self.c, ir.IntegerType.get_signless(self.c.bits)
        least = tree(arith.minsi, [arith.bitcast(bits, x) for row in rows for x in row])
        some = arith.cmpi(arith.CmpIPredicate.eq, least, splat(bits, -(1 << (c.bits - 1))))
        for row in split:
            some = arith.ori(some, keys.is_nan(row[0 if c.descending else -1][0]))
        flat = [x for row in values for x in row]

        def read(r: int, place: ir.Value) -> ir.Value:
            return load(self.ints, self.buffers[c.source], self.offset(r, resize(place, self.ints.width)), c.element)

        found = if_else(some, [c.element] * len(flat), lambda: [read(r, place) for r, row in enumerate(split) for _, place in row], lambda: flat)
        return [found[i:i + c.count] for i in range(0, len(flat), c.count)]


class _Behind(_Sort):
    """A thread has its rows one behind the other, with all that lie between each other."""

    def chunks(self, length: int, places: bool) -> Chunks:
        c, s, held = self.c, self.s, _place() if places else self.c.element
        shared = next((a for a in self.shared if ir.MemRefType(a.type).element_type == held), None)
        if places and self.shared:
            shared = self.shared[-1]
        return Chunks(self.ints, self.block, self.thread, s.threads, s.rows * length, c.rows * length, held, shared)

    def read(self) -> Rows:
        found = self.chunks(self.c.length, False).read(self.buffers[self.c.source])
        return [[found[self._within(r, p, self.c.length)] for p in range(self.c.length)] for r in range(self.s.rows)]

    def write(self, values: Rows | None, places: Rows | None) -> None:
        c = self.c
        if self.shared and values is not None and c.count != c.length:
            gpu.barrier()  # others may read yet what was where the thread's own comes
        for rows, indices in ((values, False), (places, True)):
            buffers = [(self.buffers[k.argument], _in_memory(c, indices)) for k in c.kept if k.indices == indices]
            if buffers:
                order = sorted((self._within(r, k, c.count), rows[r][k]) for r in range(self.s.rows) for k in range(c.count))
                self.chunks(c.count, indices).write([x for _, x in order], buffers)

    def _within(self, row: int, place: Integer, length: int) -> Integer:
        """Where an element is among the thread's own."""
        inner = self.c.inner
        return self.ints.add(self.ints.mul(place, inner), row // inner * length * inner + row % inner)

    def offset(self, row: int, place: Integer) -> Integer:
        at = self.ints.add(self.chunks(self.c.length, False).first, self._within(row, place, self.c.length))
        return self.ints.min(at, self.c.rows * self.c.length - 1)


class _Beside(_Sort):
    """A thread has neighbouring rows; one that has none has the last ones, and writes nothing."""

    @property
    def number(self) -> Integer:
        return self.ints.add(self.ints.mul(self.block, self.s.threads), self.thread)

    def first(self, length: int) -> Integer:
        """The first element of the thread's first row."""
        c, s, ints = self.c, self.s, self.ints
        row = ints.mul(ints.min(self.number, c.rows // s.rows - 1), s.rows)
        return ints.add(ints.mul(ints.div(row, c.inner), length * c.inner), ints.rem(row, c.inner))

    def read(self) -> Rows:
        c, rows, first = self.c, self.s.rows, self.first(self.c.length)
        found = [lanes_of(load_vector(self.ints, self.buffers[c.source], first, c.element, rows, rows, p * c.inner)) for p in range(c.length)]
        return [[found[p][r] for p in range(c.length)] for r in range(rows)]

    def write(self, values: Rows | None, places: Rows | None) -> None:
        c, ints, rows, first = self.c, self.ints, self.s.rows, self.first(self.c.count)
        with only_if(ints.less(self.number, c.rows // rows)):
            for kept in c.kept:
                for k in range(c.count):
                    value = join([row[k] for row in (places if kept.indices else values)])
                    if kept.indices:
                        value = arith.extui(ir.VectorType.get([rows], _in_memory(c, True)), value)
                    store_vector(ints, value, self.buffers[kept.argument], first, rows, k * c.inner)

    def offset(self, row: int, place: Integer) -> Integer:
        return self.ints.add(self.ints.add(self.first(self.c.length), row), self.ints.mul(place, self.c.inner))
