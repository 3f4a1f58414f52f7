"""A sort's rows in memory: elements become items (see ``keys``) when they are read, and elements again when they are written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.elements import load, store
from inferno.codegen.builders.integers import Integer, Integers, resize
from inferno.codegen.maps.elementwise import Emitter
from inferno.codegen.sorts.keys import Item, Keys, choose
from inferno.mlir import arith, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.sorts.kernel import SortKernel
from inferno.schedule.sorts.sorts import power


_ALONE = Elementwise(vector=1)  # points one by one


@dataclass
class _Behind(Emitter):
    """A map of what is sorted, and maybe of its places, which are ``given`` and behind the kernel's arguments."""

    given: Callable[[bool], ir.Value] | None = None

    def read(self, at: Access, start: Integer, lanes: int) -> ir.Value:
        behind = len(self.point.module.body.operations[0].type.inputs) - 1 - at.argument
        return self.given(behind == 1) if behind <= 2 else super().read(at, start, lanes)


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

    def source(self, offset: Integer) -> ir.Value:
        """What is sorted, by its number."""
        if isinstance(self.c.source, int):
            return load(self.ints, self.buffers[self.c.source], offset, self.c.element)
        (value,) = Emitter(self.c.source, _ALONE, self.ints, self.buffers).compute(offset, 0)
        return value

    def read(self, row: Integer, own: list[Integer]) -> list[Item]:
        """Items of the elements at these places; behind the row's end, ones that are behind all.  A row that is not there is read as the last."""
        c, ints = self.c, self.ints
        row = ints.min(row, c.rows - 1)
        at = [ints.min(p, c.length - 1) for p in own]
        values = [self.source(self.offset(row, p, c.length)) for p in at]
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
        with only_if(*conditions):
            self._store(row, place, item)

    def _store(self, row: Integer, place: Integer, item: Item) -> None:
        c, ints = self.c, self.ints
        key, origin = self.keys.split(item, ints)
        target = self.offset(row, ints.sub(place, c.begin), c.count)
        known: dict[bool, ir.Value] = {}

        def of(indices: bool) -> ir.Value:
            if indices not in known:
                known[indices] = resize(origin, 64) if indices else self._element(row, key, origin)
            return known[indices]

        for kept in c.kept:
            value = of(kept.indices) if kept.after is None else _Behind(kept.after, _ALONE, ints, self.buffers, given=of).compute(target, 0)[0]
            store(ints, value, self.buffers[kept.argument], target)

    def _element(self, row: Integer, key: ir.Value, origin: Integer) -> ir.Value:
        value, again = self.keys.value(key)
        if again is None:
            return value
        return if_else(
            again, [value.type],
            lambda: [self.source(self.offset(row, origin, self.c.length))],
            lambda: [value],
        )[0]


@contextmanager
def rows_there(ints: Integers, row: Integer, rows: int) -> Iterator[None]:
    """Only threads whose row is there go on."""
    with only_if(ints.less(row, rows)):
        yield
