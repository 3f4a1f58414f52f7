"""Blocks that go over all rows: what a block, or a cluster, has of its next row comes to shared memory while it writes one, so that memory always has work.

Each vector is a thread's own, by a copy that it starts where it has read the same place for the last time, and waits for where it reads it next.
Only reductions keep blocks of a cluster in step, and theirs alternate between two sets of slots and mbarriers: nobody sends what belongs to the next but
one row before all have read what belongs to this one, since each sends only when it has what the others sent before.

What rows have in common may be kept from the first row on.  Of rows that begin anywhere in a vector a block then has those that begin at the same place.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from inferno.codegen.async_copies import await_copies, commit_copies
from inferno.codegen.integers import Integer
from inferno.mlir import arith, gpu, ir, scf
from inferno.schedule.accesses import Access


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
        first = self.first_ahead() if self.s.ahead else []
        op = scf.ForOp(ints.value(group), ints.value(self.c.count), ints.value(self.s.persistent), [arith.constant(i32, 0), *first])
        with ir.InsertionPoint(op.body):
            self.begin_row(op.induction_variable)
            self.following, number = ints.add(op.induction_variable, self.s.persistent), op.inner_iter_args[0]
            self.totals_ahead = list(op.inner_iter_args)[1:]
            if self.exchange is not None:
                self.exchange.turn = number
            self.one_row()
            gpu.barrier()  # all warps have read what they left each other
            scf.yield_([arith.addi(number, arith.constant(i32, 1)), *self.totals_ahead])

    def before_turn(self) -> None:
        """In a turn that reads what was brought: it is there, as are the turns before it, for each turn is one group of copies and starts one more."""
        if self.kept.own is not None and self.now == self.turning[0] and not self.awaited:
            await_copies(self.kept_rounds - 1)

    def after_turn(self, turn: ir.Value, begin: int, end: int) -> None:
        """What is kept in a turn is done with: the same of the next row may come."""
        if self.kept.own is None or self.now not in (self.turning[0], self.turning[-1]):
            return
        if self.now == self.turning[-1]:
            self.where([self.ints.less(self.following, self.c.count)], lambda: self.bring(turn, begin, end, self.c.repeated()))
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

    # With ``ahead`` the first phase of a row takes place while the row before is written, so many turns behind it: ``totals_ahead`` are what it comes to.

    def first_ahead(self) -> list[ir.Value]:
        """The totals of the first row."""
        self.begin_row(self.following)
        self.begin_phase(self.turning[0])
        reducing, running = self.reductions(self.now)
        return self.segments(self.identities(running), reducing, running, [])

    def begin_ahead(self) -> None:
        """The next row's totals begin."""
        with self._first_phase():
            self.totals_ahead = self.identities(self.reductions(self.now)[1])

    def is_ahead(self) -> bool:
        """Whether turns of the next row's first phase are among those that follow."""
        return self.s.ahead > 0 and self.now == self.turning[-1] and self.kept.own is not None

    def turn_ahead(self, turn: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
        """The totals with what was brought so many turns before this one."""
        ints = self.ints
        op = scf.IfOp(ints.less(self.s.ahead - 1, turn), [t.type for t in totals], has_else=True)
        with ir.InsertionPoint(op.then_block), self._first_phase():
            await_copies(self.s.ahead)
            scf.yield_(self._turn_of_next(ints.sub(turn, self.s.ahead), totals))
        with ir.InsertionPoint(op.else_block):
            scf.yield_(totals)
        return list(op.results)

    def finish_ahead(self) -> None:
        """The turns that are left, and what is not kept; of no row behind the last one."""
        ints, kept, rounds = self.ints, self.kept_rounds, self.s.rounds(self.c)
        self.following = ints.min(self.following, self.c.count - 1)
        self.kept.begin(self.thread)
        with self._first_phase():
            await_copies(0)
            op = scf.ForOp(ints.value(max(0, kept - self.s.ahead)), ints.value(kept), ints.value(1), self.totals_ahead)
            with ir.InsertionPoint(op.body):
                scf.yield_(self._turn_of_next(op.induction_variable, list(op.inner_iter_args)))
            self.kept.end([])
            self.totals_ahead = list(op.results)
            if rounds > kept:
                reducing, running = self.reductions(self.now)
                with self._of_row(self.following):
                    self.totals_ahead = self.turns(kept, rounds, self.totals_ahead, reducing, running, [])

    def _turn_of_next(self, turn: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
        reducing, running = self.reductions(self.now)
        with self._of_row(self.following):
            return self.turn(turn, 0, self.kept_rounds, totals, reducing, running, [])

    @contextmanager
    def _first_phase(self) -> Iterator[None]:
        """The first phase is the one that is emitted inside, and waits for no more copies."""
        now, rows, points = self.now, dict(self._rows), self._points
        self.begin_phase(self.turning[0])
        self.awaited = True
        yield
        self.awaited = False
        self._rows, self._points = rows, points
        self.begin_phase(now)

    @contextmanager
    def _of_row(self, number: Integer) -> Iterator[None]:
        """Places are another row's inside."""
        names = ("row", "lead", "shift", "own")
        before = {n: getattr(self, n) for n in names if hasattr(self, n)}
        self.begin_row(number)
        yield
        for n, value in before.items():
            setattr(self, n, value)
