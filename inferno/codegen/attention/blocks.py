"""Lists of the blocks of keys that a tile's queries see, which a launch in front makes of a block mask's table.

A list begins with how many blocks it has, how many of these are in front, and what the table says of the first.  In front are those in which the
score function counts, from the last to the first; a block that the tensor does not have all of, too, which is the first then.  Whole ones follow.
A list without a block has one that is hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, pointer, temporary
from inferno.codegen.nvvm.builder import READ_BUFFER, WRITTEN_BUFFER, Words, device_kernel, integer_type, loop, special_register, store
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, ir
from inferno.schedule.attention.listed_blocks import HIDDEN, MASKED, WHOLE, Blocks
from inferno.schedule.tiles.tiling import Axis
from inferno.symbolic import ceildiv, product

_THREADS = 256  # of a block
_HEAD = 4  # numbers in front of a list's blocks, of which the last is not used


class Listed(NamedTuple):
    """A tile's list: where its blocks are, how many there are and how many of them in front, and what the table says of the first."""

    at: Integer
    count: ir.Value
    front: ir.Value
    first: ir.Value


@dataclass(frozen=True)
class BlockLists:
    """Of blocks of ``each`` of ``columns``, keys or where ``transposed`` queries, for rows at a position of ``grid``; ``counts``: the launch begins a
    counter, too."""

    words: Words
    blocks: Blocks
    grid: tuple[Axis, ...]
    columns: int
    each: int
    transposed: bool = False
    counts: bool = False

    @property
    def tiles(self) -> int:
        """Blocks of columns as a tile has them."""
        return ceildiv(self.columns, self.each)

    @property
    def inside(self) -> int:
        """So many of them are one of the table's; 0: all."""
        return (self.blocks.queries if self.transposed else self.blocks.keys) // self.each

    @property
    def across(self) -> int:
        """Of the table's elements at a position of the batch, so many are of one list."""
        if not self.transposed:
            return self.blocks.count
        return ceildiv(self.columns, self.blocks.queries) if self.blocks.queries else 1

    @property
    def rows(self) -> int:
        """Lists."""
        return product(self.blocks.table.shape) // self.across

    @property
    def size(self) -> int:
        """Of a list."""
        return _HEAD + self.tiles

    def launch(self, name: str, table: ir.Value) -> list[ir.Value]:
        """On the host: the parameters that are the lists, and the counter of tiles if there is one, which is 0."""
        lists = temporary((self.rows * self.size,), integer_type(32))
        grid = ceildiv(self.rows * self.tiles, _THREADS)
        made = [pointer(lists), *([pointer(temporary((1,), integer_type(32)))] if self.counts else [])]
        launch(f"{name}_gpu", f"{name}_lists", [pointer(table), *made], (grid, 1, 1), (_THREADS, 1, 1))
        return made

    def emit(self, module: ir.Block, name: str) -> None:
        """The kernel of that launch: a thread finds the place of one block in a list."""
        words, b, tiles = self.words, self.blocks, self.tiles
        pointers = [READ_BUFFER, *[WRITTEN_BUFFER] * (2 if self.counts else 1)]
        with device_kernel(module, f"{name}_lists", pointers, _THREADS) as device:
            table, lists = (Elements(words, p, integer_type(32), i == 0) for i, p in enumerate(device.parameters[:2]))
            number = words.add(words.mul(special_register("ctaid.x"), _THREADS), special_register("tid.x"))
            if self.counts:
                with only_if(words.equal(number, 0)):
                    store(words.value(0), device.parameters[2], 4)
            with only_if(words.less(number, self.rows * tiles)):
                row, own = words.div(number, tiles), words.rem(number, tiles)
                base = words.mul(row, b.count)
                if self.transposed:
                    base = words.add(words.mul(words.div(row, b.count), b.count * self.across), words.rem(row, b.count))

                def kind(tile: Integer) -> ir.Value:
                    block = words.div(tile, self.inside) if self.inside else 0
                    return table.read(words.add(base, words.mul(block, b.count if self.transposed else 1)))

                def count(tile: ir.Value, *found: ir.Value) -> list[ir.Value]:
                    is_one, in_front = self.place(kind(tile), tile)
                    behind = arith.andi(is_one, arith.xori(in_front, _true()))
                    in_front = arith.andi(is_one, in_front)
                    later = words.less(own, tile)
                    counted = (in_front, behind, arith.andi(in_front, later), arith.andi(behind, later))
                    return [arith.addi(n, arith.extui(words.type, c)) for n, c in zip(found, counted)]

                front, behind, front_later, behind_later = loop(words, 0, tiles, 1, [words.value(0)] * 4, count)
                own_kind, at = kind(own), words.mul(row, self.size)
                is_one, in_front = self.place(own_kind, own)
                position = words.select(in_front, front_later, words.add(front, behind_later))
                with only_if(is_one):
                    lists.write(own, words.add(words.add(at, _HEAD), position))
                with only_if(words.equal(own, 0)):
                    total, none = words.add(front, behind), words.equal(words.add(front, behind), 0)
                    begins_whole = words.equal(front, 0)
                    if self.edge and b.whole.differs:
                        begins_whole = arith.ori(begins_whole, words.equal(kind(tiles - 1), WHOLE))
                    first = words.select(none, HIDDEN, words.select(begins_whole, WHOLE, MASKED))
                    for i, x in enumerate((words.select(none, 1, total), front, first)):
                        lists.write(words.value(x), at, i)
                    with only_if(none):
                        lists.write(words.value(0), at, _HEAD)

    @property
    def edge(self) -> bool:
        """Whether the tensor does not have all of the last block."""
        return self.columns % self.each != 0

    def place(self, kind: ir.Value, tile: Integer) -> tuple[ir.Value, ir.Value]:
        """Whether a block is listed, and whether it is in front then."""
        words = self.words
        is_one = arith.cmpi(arith.CmpIPredicate.ne, kind, words.value(HIDDEN))
        if not self.blocks.whole.differs:
            return is_one, _true()
        in_front = arith.cmpi(arith.CmpIPredicate.ne, kind, words.value(WHOLE))
        return is_one, arith.ori(in_front, words.equal(tile, self.tiles - 1)) if self.edge else in_front


@dataclass(frozen=True)
class LaidLists(BlockLists):
    """In the kernel that reads them, from ``memory``."""

    memory: Elements | None = None

    def find(self, grid: Sequence[Integer], first: Integer) -> Listed:
        """The list of the tile at this position whose first row is ``first``."""
        words, b = self.words, self.blocks
        strides = [a.stride(b.table) // self.across for a in self.grid]
        row, block, step = words.dot(grid, strides, b.table.offset // self.across), b.queries, b.step // b.count
        if self.transposed:
            block, step = b.keys, 1
        if block:
            row = words.add(row, words.mul(words.div(first, block), step))
        at = words.mul(row, self.size)
        return Listed(words.add(at, _HEAD), *(self.memory.read(at, i) for i in range(3)))

    def block(self, listed: Listed, i: Integer) -> ir.Value:
        """The number of its ``i``-th block."""
        return self.memory.read(self.words.add(listed.at, i))


def laid_at(lists: BlockLists, memory: ir.Value) -> LaidLists:
    """These where a kernel's parameter is."""
    return LaidLists(**{f.name: getattr(lists, f.name) for f in fields(lists)}, memory=Elements(lists.words, memory, integer_type(32)))


def _true() -> ir.Value:
    return arith.constant(integer_type(1), 1)
