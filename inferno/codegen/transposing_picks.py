"""Elementwise kernels that transpose what they pick in branches: a concatenation's pieces, which lie along another loop than the result.

As in ``transposing``, what is picked goes through a tile in shared memory; where a point's branch is not taken, its element is the tensor's first one, which
caches have, and nobody picks it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from inferno.codegen.elements import load
from inferno.codegen.inline import inline_body
from inferno.codegen.integers import Integer
from inferno.codegen.transposing import Transposing, loop_indices, pitch
from inferno.mlir import arith, ir, owner, scf
from inferno.schedule.accesses import Access, row_major
from inferno.schedule.turned_picks import Pick, taken_branches
from inferno.symbolic import product


@dataclass
class PickTransposing(Transposing):
    """``shared``: one array for each transposed input, and behind these one for each pick."""

    picks: tuple[Pick, ...] = ()
    _tile: dict[ir.Operation, ir.Value] = field(default_factory=dict)  # the arrays of picks

    def tiles(self) -> Iterator[tuple[Access, Callable[[list[Integer]], ir.Value], ir.Value]]:
        yield from super().tiles()
        for pick, array in zip(self.picks, self.shared[len(self.transposed):]):
            self._tile[pick.op] = array
            yield pick.access, lambda where, pick=pick: self.read_pick(pick, where), array

    def read_pick(self, pick: Pick, where: list[Integer]) -> ir.Value:
        """What a pick reads of a point, if it is picked there."""
        ints, at = self.ints, pick.access
        offset = ints.value(ints.dot(where, self.point.run_strides(at), at.offset))
        taken = taken_branches(pick.op, self.point.generic)
        if taken is None:
            offset = ints.min(offset, product(at.shape) - 1)
        elif taken:
            indices = loop_indices(self.point, ints, where)
            for condition, holds in taken:
                known = _evaluate(condition, indices)
                offset = arith.select(known, offset, ints.value(0)) if holds else arith.select(known, ints.value(0), offset)
        return load(ints, self.buffers[at.argument], offset, at.element)

    def compute(self, values: list[ir.Value], where: list[Integer], i: Integer, j: Integer) -> list[ir.Value]:
        """A point's results; ``i`` and ``j`` are its coordinates in the tile."""
        ints, arguments = self.ints, dict(self.point.tables)

        def extract(op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
            if op in self._tile:
                element = op.results[0].type
                return load(ints, self._tile[op], ints.add(ints.mul(j, pitch(self.schedule.tile, element)), i), element)
            table = ir.RankedTensorType(op.operands[0].type)
            places = [ints.narrow(v) for v in operands[1:]]
            return load(ints, self.buffers[arguments[op.operands[0]]], ints.dot(places, row_major(table.shape)), table.element_type)

        indices = loop_indices(self.point, ints, where)
        return inline_body(
            self.point.block, values, indices, custom={"tensor.extract": extract}, outside=self.point.outside(self.buffers), branch=_branch,
        )


def _branch(op: ir.Operation, condition: ir.Value, inline: Callable[[ir.Region], list[ir.Value]]) -> Sequence[ir.Value]:
    choice = scf.IfOp(condition, [r.type for r in op.results], has_else=True)
    for region, place in zip(op.regions, (choice.then_block, choice.else_block)):
        with ir.InsertionPoint(place):
            scf.yield_(inline(region))
    return list(choice.results)


def _evaluate(value: ir.Value, indices: list[ir.Value]) -> ir.Value:
    """What is computed of loops' numbers, for a point."""
    op = owner(value)
    if op.name == "linalg.index":
        return indices[ir.IntegerAttr(op.attributes["dim"]).value]
    operands = [_evaluate(v, indices) for v in op.operands]
    new = op.clone()
    for n, v in enumerate(operands):
        new.operands[n] = v
    return new.results[0]
