"""Rows side by side of which the length varies, or the number: which points are a row's last is known when the kernel runs.

Threads that hold rows have registers for the longest ones; a loop has as many turns as its rows ask for, of which the first are kept.
"""

from inferno.codegen.builders.integers import Integer
from inferno.mlir import arith, ir
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.row_steps import RowStep


class SizedColumns:
    """What an emitter of ``columns`` does with them."""

    def place_turn(self, turn: Integer, begin: Integer, end: Integer) -> None:
        base = self.ints.add(self.ints.mul(turn, self.s.points), self.first)
        for u in range(self.s.unroll):
            self.place(u, self.ints.add(base, u * self.stride), None)

    def segments(self, totals: list[ir.Value], reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        ints, step = self.ints, self.s.points
        rounds = ints.value(ints.div(self.c.width + step - 1, step))
        kept: Integer = 0
        if self.kept is not None:
            kept = arith.minui(rounds, ints.value(self.s.kept))
            self.kept.begin(self.thread)
            totals = self.turns(0, kept, totals, reducing, running, stored)
            self.kept.end(self.reads)
        return self.turns(kept, rounds, totals, reducing, running, stored)
