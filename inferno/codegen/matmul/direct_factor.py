"""One factor of a product whose numbers go from memory to the registers of the warp that multiplies them.

A fragment of the tensor core has two pairs of terms for each thread, which may be any as long as both factors have the same.  Which of the tile's rows are
a fragment's is as free, so that what has those innermost is read in as wide pieces as what has the terms innermost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders.elements import join, lanes_of, splat
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.simt_operand import Reader
from inferno.codegen.nvvm.builder import integer_type
from inferno.mlir import arith, ir, vector
from inferno.schedule.matmul.direct_bf16x6 import Way


@dataclass
class Factor:
    """A warp's part of one factor: of ``extent`` rows of a tile (columns, of the rhs) thread ``pair`` of eight has an eighth, and ``terms`` of a step,
    ``apart`` from each other."""

    reader: Reader
    way: Way
    extent: int
    pair: Integer
    terms: int
    apart: int

    @property
    def count(self) -> int:
        return self.extent // 8

    @property
    def neighbours(self) -> int:
        """Rows of a thread that lie side by side."""
        return 1 if self.way.along_k else self.way.lanes

    def row(self, number: int, pair: Integer) -> Integer:
        """Where in the tile the ``number``-th row of thread ``pair`` is."""
        ints, side = self.reader.ints, self.neighbours
        return ints.add(ints.mul(pair, side), number % side + 8 * side * (number // side))

    def place(self, batch: Integer, first: Integer) -> None:
        """Where this thread's rows begin."""
        ints, size, self.bases = self.reader.ints, self.reader.mn.size, []
        for number in range(0, self.count, self.neighbours):
            at = ints.add(first, self.row(number, self.pair))
            at = ints.min(at, size - self.neighbours) if size % self.extent else at
            self.bases.append([self.reader.base(a, batch, at) for a in self.reader.operand.reads])

    def load(self, term: Integer, ragged: bool) -> list[list[ir.Value]]:
        """What the prologue gets of this thread's terms from ``term`` on, piece by piece; behind the end those of the last ones."""
        ints, reader, loaded = self.reader.ints, self.reader, []
        step = self.way.lanes if self.way.along_k else 1
        for bases in self.bases:
            for at in (ints.add(term, i * self.apart) for i in range(0, self.terms, step)):
                at = ints.min(at, reader.k.size - step) if ragged else at
                loaded.append(reader.read_terms(bases, at))
        return loaded

    def numbers(self, loaded: list[list[ir.Value]], term: Integer, ragged: bool) -> list[list[ir.Value]]:
        """For each row of this thread its numbers; terms behind the end are 0."""
        ints, pieces = self.reader.ints, []
        step = self.way.lanes if self.way.along_k else 1
        for i, values in enumerate(loaded):
            value = self.reader.finish(values)
            if ragged:
                inside = ints.less(ints.add(term, i * step % self.terms * self.apart), self.reader.k.size)
                value = arith.select(inside, value, splat(value.type, 0))
            pieces.append(lanes_of(value))
        each = self.terms // step
        groups = [pieces[i:i + each] for i in range(0, len(pieces), each)]
        if self.way.along_k:
            return [[x for piece in group for x in piece] for group in groups]
        return [[piece[lane] for piece in group] for group in groups for lane in range(self.neighbours)]


def pairs(row: Sequence[ir.Value]) -> list[ir.Value]:
    """The registers of a row's numbers of 16 bits, two in each."""
    one = ir.VectorType.get([1], integer_type(32))
    return [vector.ExtractOp(vector.bitcast(one, join(row[i:i + 2])), [], [0]).result for i in range(0, len(row), 2)]
