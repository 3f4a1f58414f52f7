"""Persistent blocks that go over all rows: a block's, or a cluster's, part of its next row comes to shared memory while it writes one, so that memory always
has work.

Each vector is a thread's own, by a copy that it starts where it has read the same place for the last time, and waits for where it reads it next.
Only reductions keep blocks of a cluster in step, and theirs alternate between two sets of slots and mbarriers: nobody sends what belongs to the next but
one row before all have read what belongs to this one, since each sends only when it has what the others sent before.

What rows have in common may be kept from the first row on.  Of rows that begin anywhere in a vector a block then has those that begin at the same place.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.async_copies import await_copies, commit_copies
from inferno.mlir import arith, gpu, ir, scf
from inferno.schedule.analysis.accesses import Access


class PersistentRows:
    """What an emitter of ``rows`` does with them.  ``following`` is the number of the next row."""

    def all_rows(self, group: Integer) -> None:
        """Every so many rows from ``group`` on, the number of this block or cluster."""
        ints, i32 = self.ints, ir.IntegerType.get_signless(32)
        self.following = group
        self.kept.begin(self.thread)
        op = scf.ForOp(ints.value(0), ints.value(self.kept_rounds), ints.value(1), [])
        with ir.InsertionPoint(op.body):
            self.kept.turn(op.induction_variable)
            self.bring(op.induction_variable, 0, self.kept_rounds, self.s.keeps(self.c))
            commit_copies()
            scf.yield_([])
        self.kept.end([])
        if self.exchange is not None:
            self.exchange.await_others()
        op = scf.ForOp(ints.value(group), ints.value(self.c.count), ints.value(self.s.persistent), [arith.constant(i32, 0)])
        with ir.InsertionPoint(op.body):
            self.begin_row(op.induction_variable)
            self.following, number = ints.add(op.induction_variable, self.s.persistent), op.inner_iter_args[0]
            if self.exchange is not None:
                self.exchange.turn = number
            self.one_row()
            gpu.barrier()  # all warps have read what they left each other
            scf.yield_([arith.addi(number, arith.constant(i32, 1))])

    def before_turn(self) -> None:
        """In a turn that reads what was brought: it is there, as are the turns before it, for each turn is one group of copies and starts one more."""
        if self.kept.own is not None and self.now == self.turning[0]:
            await_copies(self.kept_rounds - 1)

    def after_turn(self, turn: ir.Value, begin: int, end: int) -> None:
        """What is kept in a turn is done with: the same of the next row may come."""
        if self.kept.own is None or self.now not in (self.turning[0], self.turning[-1]):
            return
        if self.now == self.turning[-1]:
            with only_if(self.ints.less(self.following, self.c.count)):
                self.bring(turn, begin, end, self.c.repeated())
        commit_copies()

    def bring(self, turn: ir.Value, begin: int, end: int, accesses: list[Access]) -> None:
        """Start to copy what is kept in a turn of the following row, of these accesses."""
        with self._of_row(self.following):
            self.place_turn(turn, begin, end)
            for u in range(self.s.unroll):
                point, inside = self._chunk[u]
                for at in accesses:
                    if self.s.ragged and not self.matches(at):  # weights, at the beginning
                        self.kept.store(at, u, self.read_ragged(at, point, inside))
                        continue
                    self.kept.bring(at, u, self.ints, self.buffers[at.argument], self.offset(at, point), self.s.ragged and inside is not None)

    @contextmanager
    def _of_row(self, number: Integer) -> Iterator[None]:
        """Places are another row's inside."""
        names = ("row", "lead", "shift", "own")
        before = {n: getattr(self, n) for n in names if hasattr(self, n)}
        self.begin_row(number)
        yield
        for n, value in before.items():
            setattr(self, n, value)
