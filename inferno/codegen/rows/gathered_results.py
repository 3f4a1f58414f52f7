"""Results that a row-wise kernel writes in another layout, such as a norm that is returned transposed: a block's rows are put side by side in shared memory,
and neighbours across rows are written together, in whole sectors.
"""

from math import ceil

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, lanes_of, load, store
from inferno.codegen.builders.integers import Integer
from inferno.mlir import gpu, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.gathered_results import GATHERED_APART, written_apart


class GatheredResults:
    """What an emitter of ``rows`` does with them; ``gathered`` has the array in shared memory of each, (points, rows)."""

    def begin_gathering(self) -> None:
        """Take the arrays, which are the last ones."""
        apart = written_apart(self.c)
        self.gathered = dict(zip(apart, self.shared[len(self.shared) - len(apart):]))

    def gather(self, at: Access, point: Integer, value: ir.Value) -> None:
        """Leave what is to be written of a chunk."""
        ints, s = self.ints, self.s
        for i, lane in enumerate(lanes_of(as_vector(value, s.vector)) if s.vector > 1 else [value]):
            store(ints, lane, self.gathered[at], self._place(ints.add(point, i), ints.div(self.thread, s.across)))

    def write_gathered(self, first: Integer) -> None:
        """Write what all rows of the block have left, from its ``first`` on; a thread has points of one row."""
        ints, c, s = self.ints, self.c, self.s
        rows = s.threads // s.across
        gpu.barrier()
        mine, number = ints.rem(self.thread, rows), ints.add(first, ints.rem(self.thread, rows))
        there = ints.less(number, c.count)
        self.begin_row(ints.min(number, c.count - 1))
        for n in range(ceil(c.width / s.across)):
            point = ints.add(ints.div(self.thread, rows), n * s.across)
            inside = [there, *([ints.less(point, c.width)] if (n + 1) * s.across > c.width else [])]

            with only_if(*inside):
                for at, shared in self.gathered.items():
                    store(ints, load(ints, shared, self._place(point, mine), at.element), self.buffers[at.argument], self.offset(at, point))

    def _place(self, point: Integer, row: Integer) -> Integer:
        return self.ints.add(self.ints.mul(point, self.s.threads // self.s.across + GATHERED_APART), row)
