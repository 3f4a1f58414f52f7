"""What threads that work on one row do together: a warp, or all of a block."""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer, Integers
from inferno.mlir import arith, gpu, ir, memref, nvvm


@dataclass(frozen=True)
class Team:
    """``size`` threads, a warp or a block; ``parts`` is shared memory for a number of 32 bits of each warp of a block.  All must come to each method."""

    ints: Integers
    thread: Integer
    size: int
    parts: ir.Value | None

    @property
    def lane(self) -> Integer:
        return self.ints.rem(self.thread, self.size)

    def total(self, value: ir.Value) -> ir.Value:
        """The sum of numbers of 32 bits."""
        return self._reduce(value, nvvm.ReductionKind.ADD, arith.addi)

    def least(self, value: ir.Value) -> ir.Value:
        return self._reduce(value, nvvm.ReductionKind.UMIN, arith.minui)

    def greatest(self, value: ir.Value) -> ir.Value:
        return self._reduce(value, nvvm.ReductionKind.UMAX, arith.maxui)

    def _reduce(self, value: ir.Value, kind, combine) -> ir.Value:
        everyone = arith.constant(value.type, -1)
        value = nvvm.ReduxOp(value, kind, everyone, results=[value.type]).operation.results[0]
        if self.size == 32:
            return value
        ints = self.ints
        with only_if(ints.equal(ints.rem(self.thread, 32), 0)):
            memref.store(value, self.parts, [ints.index(ints.div(self.thread, 32))])
        gpu.barrier()
        found = [memref.load(self.parts, [ints.index(i)]) for i in range(self.size // 32)]
        gpu.barrier()
        while len(found) > 1:
            found = [combine(a, b) for a, b in zip(found[::2], found[1::2])]
        return found[0]

    def count(self, condition: ir.Value) -> ir.Value:
        """Of how many threads it is true, in 32 bits."""
        i32 = ir.IntegerType.get_signless(32)
        if self.size == 32:
            return self.total(arith.extui(i32, condition))
        predicate = arith.extui(i32, condition)
        return nvvm.BarrierReductionOp(nvvm.BarrierReduction.POPC, predicate, results=[i32]).operation.results[0]
