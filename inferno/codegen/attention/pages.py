"""Paged keys and values: a producer reads the pages of a block from tables before it starts their copies."""

from collections.abc import Sequence

from inferno.codegen.attention.frame import Frame
from inferno.codegen.attention.tiles import Place
from inferno.codegen.builders.integers import Integer
from inferno.mlir import arith, ir
from inferno.schedule.analysis.pages import Pages
from inferno.schedule.attention.tiling import Copied


class PageNumbers:
    """Numbers of a block's pages: those of keys, and of values, which are the same where both have one table.

    A number that the table says is one of the tensor's, or the number of all of them: the copy engine brings zeros from there.  So it does for
    pages of which no query of the tile reaches a key, which are not read, nor is what the table says of them looked at, and for those behind
    the last one.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame, self.words = frame, frame.words
        t = frame.tiling
        self.same = t.k.pages is not None and t.v.pages is not None and _numbers(t.k) == _numbers(t.v)
        self.counts = [self.count(t.k), 0 if self.same else self.count(t.v)]

    def count(self, copied: Copied) -> int:
        """Of a block."""
        return 0 if copied.pages is None else max(1, self.frame.schedule.keys // copied.pages.rows)

    def read(self, place: Place, block: Integer) -> list[ir.Value]:
        """Of any block; one that the tile does not have has none."""
        t = self.frame.tiling
        operands = [o for o, count in zip((t.k, t.v), self.counts) if count]
        return [self.number(o.pages, place, block, page) for o in operands for page in range(self.count(o))]

    def halves(self, numbers: Sequence[ir.Value]) -> tuple[Sequence[ir.Value], Sequence[ir.Value]]:
        """Of two blocks."""
        return numbers[:sum(self.counts)], numbers[sum(self.counts):]

    def of_keys(self, numbers: Sequence[ir.Value]) -> Sequence[ir.Value]:
        return numbers[:self.counts[0]]

    def of_values(self, numbers: Sequence[ir.Value]) -> Sequence[ir.Value]:
        return numbers if self.same else numbers[self.counts[0]:]

    def number(self, pages: Pages, place: Place, block: Integer, page: int) -> ir.Value:
        """Of a block's ``page``-th page."""
        words, t, keys, access = self.words, self.frame.tiling, self.frame.schedule.keys, pages.table
        entries, each = t.keys.size // pages.rows, keys // pages.rows
        entry = words.add(words.mul(block, each), page) if each else words.div(block, pages.rows // keys)
        there = arith.andi(words.less(entry, entries), words.less(words.mul(entry, pages.rows), place.reach))
        at = words.dot([*place.grid, words.min(entry, entries - 1)], [*(a.stride(access) for a in t.grid), pages.entry], access.offset)
        found = self.frame.tensors[access.argument].read(at)
        count = arith.constant(found.type, pages.of.count)
        found = numbered(found, pages)
        there = arith.andi(there, arith.cmpi(arith.CmpIPredicate.ult, found, count))
        found = arith.select(there, found, count)
        return found if found.type == words.type else arith.trunci(words.type, found)


def numbered(found: ir.Value, pages: Pages) -> ir.Value:
    """The number of the page that a table says; what is none as unsigned is none of the tensor's."""
    if not pages.of.wraps:
        return found
    negative = arith.cmpi(arith.CmpIPredicate.slt, found, arith.constant(found.type, 0))
    return arith.select(negative, arith.addi(found, arith.constant(found.type, pages.of.count)), found)


def _numbers(copied: Copied) -> tuple:
    p = copied.pages
    return p.table, p.entry, p.rows, p.of.count, p.of.wraps
