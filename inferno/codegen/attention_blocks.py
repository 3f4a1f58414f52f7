"""Lists of the blocks of keys that queries of a tile see, which a launch in front makes of a table of blocks that are masked, or are whole.

A list begins with how many blocks it has, how many of these are in front, and what the table says of the first.  In front are those in which the
score function counts, from the last to the first; a block that the tensor does not have all of, too, which is the first then.  Whole ones follow.
A list without a block has one that is hidden.
"""

from dataclasses import dataclass
from typing import NamedTuple

from inferno.codegen.global_memory import Elements
from inferno.codegen.integers import Integer
from inferno.codegen.launcher import launch, pointer, temporary
from inferno.codegen.nvvm_builder import Words, device_kernel, integer_type, loop, only_if, special_register, store
from inferno.mlir import arith, ir
from inferno.schedule.attention import Attention, AttentionTiling
from inferno.schedule.listed_blocks import HIDDEN, MASKED, WHOLE, Blocks
from inferno.symbolic import ceildiv

_THREADS = 256
_HEAD = 4  # numbers in front of a list's blocks, of which the last is not used


class Listed(NamedTuple):
    """A tile's list: where its blocks are, how many there are and how many of them in front, and what the table says of the first."""

    at: Integer
    count: ir.Value
    front: ir.Value
    first: ir.Value


@dataclass(frozen=True)
class BlockLists:
    words: Words
    blocks: Blocks
    tiling: AttentionTiling
    schedule: Attention

    @property
    def tiles(self) -> int:
        """Blocks of keys as a tile has them."""
        return ceildiv(self.tiling.keys.size, self.schedule.keys)

    @property
    def size(self) -> int:
        """Of a list."""
        return _HEAD + self.tiles

    def launch(self, name: str, table: ir.Value) -> list[ir.Value]:
        """On the host: the parameters that are the lists, and the counter of tiles if there is one, which is 0."""
        lists = temporary((self.blocks.rows * self.size,), integer_type(32))
        grid = ceildiv(self.blocks.rows * self.tiles, _THREADS)
        made = [pointer(lists), *([pointer(temporary((1,), integer_type(32)))] if self.counts else [])]
        launch(f"{name}_gpu", f"{name}_lists", [pointer(table), *made], (grid, 1, 1), (_THREADS, 1, 1))
        return made

    def emit(self, module: ir.Block, name: str) -> None:
        """The kernel of that launch: a thread finds the place of one block in a list."""
        words, b, tiles = self.words, self.blocks, self.tiles
        pointers = ["!llvm.ptr<1> {llvm.noalias, llvm.readonly}", *["!llvm.ptr<1> {llvm.noalias}"] * (2 if self.counts else 1)]
        with device_kernel(module, f"{name}_lists", pointers, _THREADS) as device:
            table, lists = (Elements(words, p, integer_type(32), i == 0) for i, p in enumerate(device.parameters[:2]))
            number = words.add(words.mul(special_register("ctaid.x"), _THREADS), special_register("tid.x"))
            if self.counts:
                with only_if(words.equal(number, 0)):
                    store(words.value(0), device.parameters[2], 4)
            with only_if(words.less(number, b.rows * tiles)):
                row, own = words.div(number, tiles), words.rem(number, tiles)
                base = words.mul(row, b.count)

                def kind(tile: Integer) -> ir.Value:
                    each = b.keys // self.schedule.keys
                    return table.read(words.add(base, words.div(tile, each) if each else 0))

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
                    if self.edge and b.differs:
                        begins_whole = arith.ori(begins_whole, words.equal(kind(tiles - 1), WHOLE))
                    first = words.select(none, HIDDEN, words.select(begins_whole, WHOLE, MASKED))
                    for i, x in enumerate((words.select(none, 1, total), front, first)):
                        lists.write(words.value(x), at, i)
                    with only_if(none):
                        lists.write(words.value(0), at, _HEAD)

    @property
    def counts(self) -> bool:
        return self.schedule.order == "dynamic"

    @property
    def edge(self) -> bool:
        """Whether the tensor does not have all of the last block."""
        return self.tiling.keys.size % self.schedule.keys != 0

    def place(self, kind: ir.Value, tile: Integer) -> tuple[ir.Value, ir.Value]:
        """Whether a block is listed, and whether it is in front then."""
        words = self.words
        is_one = arith.cmpi(arith.CmpIPredicate.ne, kind, words.value(HIDDEN))
        if not self.blocks.differs:
            return is_one, _true()
        in_front = arith.cmpi(arith.CmpIPredicate.ne, kind, words.value(WHOLE))
        return is_one, arith.ori(in_front, words.equal(tile, self.tiles - 1)) if self.edge else in_front

    # In the kernel that has the lists.

    def find(self, lists: Elements, grid: list[Integer], first: Integer) -> Listed:
        """The list of the tile at this position whose first query is ``first``."""
        words, b, t = self.words, self.blocks, self.tiling
        strides = [a.stride(b.table) // b.count for a in t.grid]
        row = words.dot(grid, strides, b.table.offset // b.count)
        if b.queries:
            row = words.add(row, words.mul(words.div(first, b.queries), b.step // b.count))
        at = words.mul(row, self.size)
        return Listed(words.add(at, _HEAD), *(lists.read(at, i) for i in range(3)))


def _true() -> ir.Value:
    return arith.constant(integer_type(1), 1)
