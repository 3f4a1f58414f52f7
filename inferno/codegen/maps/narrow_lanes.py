"""Index arithmetic of vectors whose lanes are partly equal, computed once for equal lanes.

A body that counts in groups (torch draws four random numbers at a time, bytes hold several small ones) computes for each of its points what
the group has in common.  Where the points of a vector lie in groups, which their numbers tell, LLVM does not see it behind shifts and masks.
"""

from dataclasses import dataclass

from inferno.codegen.builders.elements import join, lanes_of, splat
from inferno.codegen.builders.inline import on_scalars, on_vectors
from inferno.codegen.builders.lane_patterns import Patterns
from inferno.mlir import ir, vector


@dataclass
class NarrowLanes:
    """What ``inline_body`` asks for operations on vectors of ``lanes`` points; ``patterns`` are strict."""

    patterns: Patterns
    lanes: int

    def __call__(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value | None:
        if len(op.results) != 1 or not isinstance(op.results[0].type, (ir.IntegerType, ir.IndexType)):
            return None
        pattern = self.patterns.result(op, operands, self.lanes)
        if pattern is None or any((known := self.patterns.of(v, self.lanes)) is None or known.largest is None for v in operands):
            return None
        groups = pattern.distinct
        every = self.lanes // groups
        if pattern.modulus == 0:
            numbers = [splat(op.results[0].type, r) for r in pattern.residues[::every]]
            found = numbers[0] if groups == 1 else join(numbers)
        elif groups == 1:
            found = on_scalars(op, [lanes_of(v)[0] for v in operands])
        elif groups < self.lanes:
            found = on_vectors(op, [self.taken(v, groups) for v in operands], groups)[0]
        else:
            return None
        self.patterns.found[found] = pattern
        return found

    def taken(self, value: ir.Value, groups: int) -> ir.Value:
        """The first lane of each group."""
        if not isinstance(value.type, ir.VectorType):
            return vector.broadcast(ir.VectorType.get([groups], value.type), value)
        own = value.type.shape[0]
        return vector.shuffle(value, value, [i * own // groups for i in range(groups)])
