"""How blocks that walk the same rows together learn what lies in front of their tiles: the blocks of a cluster have tiles behind each other at each step,
and read what those of the others come to in distributed shared memory.

Unlike blocks that look back, these wait for nobody but the few that are beside them, and what comes next from memory is under way meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass

from inferno.codegen.cluster import read_remote, wait_for_cluster
from inferno.codegen.integers import Integer, Integers
from inferno.codegen.nvvm_builder import only_if
from inferno.mlir import arith, gpu, ir, memref
from inferno.schedule.combiners import Combiner


@dataclass
class ClusterWalk:
    """In the kernel of block ``rank`` of ``cluster``; shared arrays of a value for each of ``columns``, which one thread each looks after: ``sent``, two
    that take turns, of what this block's tile comes to; ``sums``, of what is in front of the step; ``carries``, of what is in front of its tile."""

    combiner: Combiner
    columns: int
    cluster: int
    ints: Integers
    thread: Integer
    rank: Integer
    sent: ir.Value
    sums: ir.Value
    carries: ir.Value

    def begin(self) -> None:
        """Nothing is in front of the first step."""
        with self._each():
            memref.store(self.combiner.identity(self.combiner.total), self.sums, [self.ints.index(self.thread)])

    def find(self, step: Integer, own: Callable[[Integer], ir.Value]) -> None:
        """Fill ``carries``, behind a barrier; ``own`` gives what this block's tile comes to in a column, which the thread that asks for it sees."""
        ints, c, thread = self.ints, self.combiner, self.thread
        place = ints.add(ints.mul(ints.rem(step, 2), self.columns), thread)
        with self._each():
            memref.store(own(thread), self.sent, [ints.index(place)])
        wait_for_cluster()  # what was read of the tiles two steps ago was read before this, too
        with self._each():
            total = mine = memref.load(self.sums, [ints.index(thread)])
            for rank in range(self.cluster):
                total = c.combine(total, read_remote(self.sent, rank, ints.value(place)))
                mine = arith.select(ints.equal(self.rank, rank + 1), total, mine) if rank + 1 < self.cluster else mine
            memref.store(mine, self.carries, [ints.index(thread)])
            memref.store(total, self.sums, [ints.index(thread)])
        gpu.barrier()

    def end(self) -> None:
        """Nobody ends while others read what it has."""
        wait_for_cluster()

    def _each(self):
        return only_if(self.ints.less(self.thread, self.columns))
