"""What tiles ahead of the one that is scanned wait in: places in shared memory, of each thread its own, which copies go to on their own.

Only the thread itself reads what it had copied, so that nobody waits for anybody; and unlike registers these places cost no multiprocessor
the threads that would be at work on other tiles.
"""

from dataclasses import dataclass

from inferno.codegen.async_copies import start_copy
from inferno.codegen.elements import from_memory
from inferno.codegen.gpu_function import element_bytes, stored_type
from inferno.codegen.integers import Integer
from inferno.codegen.scan_values import Values
from inferno.mlir import arith, ir, memref, vector
from inferno.schedule.accesses import Access
from inferno.schedule.scans import Scans


@dataclass
class Stages:
    """``arrays`` are shared memory, one for each of what can be ``staged``."""

    s: Scans
    staged: tuple[Access, ...]
    values: Values
    arrays: list[ir.Value]
    thread: Integer

    def __post_init__(self) -> None:
        self.ints = self.values.ints

    def start(self, stage: Integer, item: int) -> None:
        """Copy an item that has its place to one of a stage."""
        i32, i64 = (ir.IntegerType.get_signless(w) for w in (32, 64))
        for at, array in zip(self.staged, self.arrays):
            each, buffer = element_bytes(at.element), self.values.buffers[at.argument]
            source = arith.index_cast(i64, memref.ExtractAlignedPointerAsIndexOp(buffer).result)
            target = arith.index_cast(i32, memref.ExtractAlignedPointerAsIndexOp(array).result)
            offset = arith.muli(self._wide(self.values.offset(at, item)), arith.constant(i64, each))
            place = arith.muli(self._narrow(self._place(stage, item)), arith.constant(i32, each))
            start_copy(target, place, source, offset, each * self.s.vector)

    def read(self, at: Access, stage: Integer, item: int) -> ir.Value:
        array, place = self.arrays[self.staged.index(at)], [self.ints.index(self._place(stage, item))]
        if self.s.vector == 1:
            return from_memory(memref.load(array, place), at.element)
        type_ = ir.VectorType.get([self.s.vector], stored_type(at.element))
        return from_memory(vector.LoadOp(type_, array, place, alignment=self.s.vector * element_bytes(at.element)).result, at.element)

    def _place(self, stage: Integer, item: int) -> Integer:
        number = self.ints.add(self.ints.mul(stage, self.s.items), item)
        return self.ints.mul(self.ints.add(self.ints.mul(number, self.s.threads), self.thread), self.s.vector)

    def _wide(self, x: Integer) -> ir.Value:
        value, i64 = self.ints.value(x), ir.IntegerType.get_signless(64)
        return value if value.type == i64 else arith.extui(i64, value)

    def _narrow(self, x: Integer) -> ir.Value:
        value, i32 = self.ints.value(x), ir.IntegerType.get_signless(32)
        return value if value.type == i32 else arith.trunci(i32, value)
