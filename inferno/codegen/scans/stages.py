"""What tiles ahead of the one that is scanned wait in: places in shared memory, of each thread its own, which copies go to on their own.

Only the thread itself reads what it had copied, so that nobody waits for anybody; and unlike registers these places cost no multiprocessor
the threads that would be at work on other tiles.
"""

from dataclasses import dataclass

from inferno.codegen.builders.elements import from_memory
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.async_copies import start_copy
from inferno.codegen.nvvm.builder import Words, load_shared
from inferno.codegen.scans.values import Values
from inferno.element_sizes import element_bytes
from inferno.mlir import arith, ir, memref
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.scans.scan_schedule import Scans


@dataclass
class Stages:
    """``base`` is the address of dynamic shared memory (i32), in which each of what can be ``staged`` has its part."""

    s: Scans
    staged: tuple[Access, ...]
    values: Values
    base: ir.Value | None
    thread: Integer

    def __post_init__(self) -> None:
        self.ints = self.values.ints

    def start(self, stage: Integer, item: int) -> None:
        """Copy an item that has its place to one of a stage."""
        i64 = ir.IntegerType.get_signless(64)
        for at in self.staged:
            each, buffer = element_bytes(at.element), self.values.buffers[at.argument]
            source = arith.index_cast(i64, memref.ExtractAlignedPointerAsIndexOp(buffer).result)
            offset = arith.muli(self._wide(self.values.offset(at, item)), arith.constant(i64, each))
            start_copy(self.base, self._place(at, stage, item), source, offset, each * self.s.vector)

    def read(self, at: Access, stage: Integer, item: int) -> ir.Value:
        place = arith.addi(self.base, self._place(at, stage, item))
        return self.values.as_stored(at, from_memory(load_shared(Words(), place, stored_type(at.element), self.s.vector), at.element))

    def _place(self, at: Access, stage: Integer, item: int) -> ir.Value:
        """Bytes behind ``base``."""
        s, each = self.s, self.s.vector * element_bytes(at.element)
        before = sum(element_bytes(a.element) for a in self.staged[:self.staged.index(at)]) * s.stages * s.items * s.threads * s.vector
        number = self.ints.add(self.ints.mul(stage, s.items), item)
        return self._narrow(self.ints.add(self.ints.mul(self.ints.add(self.ints.mul(number, s.threads), self.thread), each), before))

    def _wide(self, x: Integer) -> ir.Value:
        value, i64 = self.ints.value(x), ir.IntegerType.get_signless(64)
        return value if value.type == i64 else arith.extui(i64, value)

    def _narrow(self, x: Integer) -> ir.Value:
        value, i32 = self.ints.value(x), ir.IntegerType.get_signless(32)
        return value if value.type == i32 else arith.trunci(i32, value)
