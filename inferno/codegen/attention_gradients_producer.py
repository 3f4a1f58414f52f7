"""The copies of a kernel of attention's gradients: one thread starts them, for each tile its rows, and its columns from the last to the first."""

from collections.abc import Sequence

from inferno.codegen import tma
from inferno.codegen.attention_gradients_frame import Frame
from inferno.codegen.integers import Integer
from inferno.codegen.mbarriers import Position
from inferno.codegen.nvvm_builder import loop
from inferno.mlir import ir
from inferno.schedule.attention import LINE, lines
from inferno.schedule.tiling import BEHIND, Axis


class Producer:
    def __init__(self, frame: Frame) -> None:
        self.frame, self.words = frame, frame.words
        t = frame.axes
        self.rows = list(zip(frame.maps[:2], t.stationary, (t.depth, t.width)))
        self.columns = list(zip(frame.maps[2:], t.streamed, (t.depth, t.width)))

    def emit(self) -> None:
        self.frame.each_tile([self.words.value(0), *self.frame.columns.start().values], self.tile)

    def tile(self, number: ir.Value, parity: ir.Value, *at: ir.Value) -> Sequence[ir.Value]:
        f, words = self.frame, self.words
        place = f.order.place(number)
        grid = dict(zip(f.axes.grid, place.grid))
        for consumer in range(f.form.consumers):
            f.rows.acquire(Position(words.value(consumer), parity))
            f.rows.full.expect(consumer, sum(f.row_bytes))
            for i, operand in enumerate(self.rows):
                row = words.add(place.first, 64 * consumer)
                self.copy(operand, grid, row, 64, f.rows_at(i, consumer), f.rows.full.at(consumer))

        def blocks(outer: list[Integer], *at: ir.Value) -> list[ir.Value]:
            where = {**grid, **dict(zip(f.axes.outer, outer))}

            def step(i: ir.Value, *at: ir.Value) -> list[ir.Value]:
                here = Position(*at)
                f.columns.acquire(here)
                f.columns.full.expect(here.slot, sum(f.column_bytes))
                first = words.mul(words.sub(words.sub(place.end, 1), i), f.form.columns)
                for n, operand in enumerate(self.columns):
                    self.copy(operand, where, first, f.form.columns, f.columns_at(n, here.slot), f.columns.full.at(here.slot))
                return f.columns.next(here).values

            return loop(words, 0, words.sub(place.end, place.begin), 1, at, step)

        return [words.xor(parity, 1), *f.each_position(at, blocks)]

    def copy(self, operand: tuple, where: dict[Axis, Integer], row: Integer, rows: int, target: Integer, barrier: ir.Value) -> None:
        """``rows`` rows of a tensor, in panels of 64 columns."""
        map_, copied, inner = operand
        outer = [{BEHIND: 1, **where}[a] for a in copied.axes[2:]]
        for line in range(lines(inner.size)):
            tma.load_box(self.words, map_, [LINE * line, row, *outer], self.words.add(target, line * rows * 2 * LINE), barrier)
