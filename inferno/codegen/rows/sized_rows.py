"""Rows whose length varies: vectors lie as memory does, and which of them is a row's last is known when the kernel runs.

Threads that hold rows have registers for the longest ones, and of shorter rows some have nothing; a loop has as many turns as its row asks for, of which
those between the first and the last have no conditions.
"""

from inferno.codegen.builders.integers import Integer
from inferno.codegen.rows.row_turns import SHORT
from inferno.mlir import arith, ir
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.row_steps import RowStep


class SizedRows:
    """What an emitter of ``rows`` does with them."""

    edges: tuple[bool, bool] = (True, True)  # whether rows may begin and end in the turns that are generated

    @property
    def exact(self) -> bool:
        """Whether sums are rounded once: where rows are so short that it may be seen."""
        return 0 < self.s.longest <= 2 * SHORT and any(self.c.wide(a) and isinstance(a.element, ir.F32Type) for a in self.reads)

    def place(self, chunk: object, vector: Integer, number: int | None) -> None:
        self.place_ragged(chunk, vector, number == 0, True)

    def place_turn(self, turn: Integer, begin: Integer, end: Integer) -> None:
        base = self.ints.add(self.ints.mul(turn, self.stride * self.s.unroll), self.first)
        for u in range(self.s.unroll):
            self.place_ragged(u, self.ints.add(base, u * self.stride), *self.edges)

    def segments(self, totals: list[ir.Value], reducing: list[RowStep], running: list[tuple[int, Combiner]], stored: list) -> list[ir.Value]:
        ints, step = self.ints, self.stride * self.s.unroll
        rounds = ints.div(ints.add(self.own, step - 1), step)
        last = ints.value(ints.sub(rounds, 1))
        # A row of one turn has neither of the other two.
        for begin, end, *edges in ((0, 1, True, True), (1, last, False, False), (arith.maxui(last, ints.value(1)), rounds, False, True)):
            self.edges = tuple(edges)
            totals = self.turns(begin, end, totals, reducing, running, stored)
        return totals
