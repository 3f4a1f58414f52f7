"""The producer of a kernel of attention's gradients: one thread starts the copies of each tile's rows, and of its columns from the last to the first."""

from collections.abc import Sequence

from inferno.codegen.attention.gradients_frame import Frame
from inferno.codegen.attention.gradients_numbers import Numbers
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import loop
from inferno.codegen.nvvm.mbarriers import Position
from inferno.mlir import ir
from inferno.schedule.attention.schedule import LINE, lines
from inferno.schedule.tiles.tiling import BEHIND, Axis


class Producer:
    """``numbers`` come with columns."""

    def __init__(self, frame: Frame, numbers: Numbers | None = None) -> None:
        self.frame, self.words, self.numbers = frame, frame.words, numbers
        t = frame.axes
        self.rows = list(zip(frame.block.maps[:2], t.stationary, (t.depth, t.width)))
        self.columns = list(zip(frame.block.maps[2:4], t.streamed, (t.depth, t.width)))

    def emit(self) -> None:
        self.frame.numbers.give_each(self.words.value(0), self.frame.columns.start().values, self.tile)

    def tile(self, number: ir.Value, parity: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
        """The first columns come before the rows, whose place the results before them may still lie in."""
        f, words = self.frame, self.words
        place = f.order.place(number)
        grid, count = dict(zip(f.axes.grid, place.grid)), words.sub(place.end, place.begin)

        def blocks(position: Integer, begin: Integer, end: Integer, at: Sequence[ir.Value]) -> list[ir.Value]:
            where = {**grid, **dict(zip(f.axes.outer, f.outer(position)))}

            def step(i: ir.Value, *at: ir.Value) -> list[ir.Value]:
                return self.copy_columns(where, place.first, f.order.block(place, i), Position(*at)).values

            return step(words.value(0), *at) if end == 1 else loop(words, begin, end, 1, at, step)

        ahead = f.positions == 1
        if ahead:
            at = blocks(0, 0, 1, at)
        for consumer in range(f.form.consumers):
            f.rows.acquire(Position(words.value(consumer), parity))
            f.numbers.give(number, consumer)
            f.rows.full.expect(consumer, sum(f.row_bytes))
            for i, operand in enumerate(self.rows):
                row = words.add(place.first, 64 * consumer)
                self.copy(operand, grid, row, 64, f.rows_at(i, consumer), f.rows.full.at(consumer))
        if ahead and isinstance(count, int) and count == 1:
            return at
        return f.each_position(at, lambda n, *at: blocks(n, int(ahead), count, at))

    def copy_columns(self, where: dict[Axis, Integer], row: Integer, block: Integer, at: Position) -> Position:
        """A block of columns to a slot, with masks of their scores and those of rows from ``row`` on; the next one."""
        f, words = self.frame, self.words
        f.columns.acquire(at)
        more = (0 if f.masks is None else f.masks.form.bytes) + (0 if self.numbers is None else self.numbers.bytes)
        f.columns.full.expect(at.slot, sum(f.column_bytes) + more)
        column, full = words.mul(block, f.form.columns), f.columns.full.at(at.slot)
        for n, operand in enumerate(self.columns):
            self.copy(operand, where, column, f.form.columns, f.columns_at(n, at.slot), full)
        if f.masks is not None:
            f.masks.copy(where, row, column, at.slot, full)
        if self.numbers is not None:
            self.numbers.copy(where, column, at.slot, full)
        return f.columns.next(at)

    def copy(self, operand: tuple, where: dict[Axis, Integer], row: Integer, rows: int, target: Integer, barrier: ir.Value) -> None:
        """``rows`` rows of a tensor, in panels of 64 columns."""
        map_, copied, inner = operand
        outer = [{BEHIND: 1, **where}[a] for a in copied.axes[2:]]
        for line in range(lines(inner.size)):
            tma.load_box(self.words, map_, [LINE * line, row, *outer], self.words.add(target, line * rows * 2 * LINE), barrier)
