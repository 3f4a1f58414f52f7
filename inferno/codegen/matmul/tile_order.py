"""Which tile of a contraction a block computes: blocks that run at the same time share operands in L2."""

from collections.abc import Sequence

from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import Words
from inferno.mlir import arith
from inferno.symbolic import Int, product


def tile_position(
    words: Words, number: Integer, grid: Sequence[Int], rows: Int, columns: Int, group: int,
) -> tuple[list[Integer], Integer, Integer]:
    """Tile ``number``: its position in the axes of ``grid``, and its row and column among ``rows`` x ``columns`` tiles, down columns
    of ``group`` tiles."""
    each = rows * columns
    outer = words.split(words.div(number, each), grid) if product(grid) != 1 else [0] * len(grid)
    number = words.rem(number, each) if product(grid) != 1 else number
    group = min(group, rows) if isinstance(rows, int) else group
    first = words.mul(words.div(number, group * columns), group)
    inside = words.rem(number, group * columns)
    if rows % group == 0:
        row, column = words.rem(inside, group), words.div(inside, group)
    else:
        high = words.value(words.min(words.sub(rows, first), group))
        row, column = arith.remui(inside, high), arith.divui(inside, high)
    return outer, words.add(first, row), column
