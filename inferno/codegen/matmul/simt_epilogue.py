"""The end of a contraction on CUDA cores: the epilogue on a few sums that lie side by side, and the store."""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, load, load_vector, store, store_vector
from inferno.codegen.builders.inline import epilogue_arguments, inline_body, size_values
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.matmul.simt_operand import group_offset
from inferno.mlir import ir, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.contraction import Contraction
from inferno.symbolic import alignment


@dataclass
class Epilogue:
    """Emits ``width`` neighbouring results along n at a time; the tile may hang over the edges of M and N."""

    ints: Integers
    contraction: Contraction
    buffers: list[ir.Value]
    batch: Integer
    ragged_m: bool
    ragged_n: bool

    def emit(self, m: Integer, n: Integer, sums: ir.Value, others: ir.Value | None = None) -> None:
        """``sums`` is a vector of the sums at (m, n), (m, n + 1), ..., and of two contractions ``others`` the second one's.  Loads are clamped,
        so that only the stores wait for a condition."""
        c, ints, width = self.contraction, self.ints, ir.VectorType(sums.type).shape[0]
        together = width == 1 or (c.n.size % width == 0 and c.n.run_sizes[-1] % width == 0)
        if not together:
            for i, x in enumerate(lanes_of(sums)):
                self.emit(m, ints.add(n, i), join([x]), None if others is None else join([lanes_of(others)[i]]))
            return
        row = ints.min(m, c.M - 1) if self.ragged_m else m
        column = ints.min(n, c.N - width) if self.ragged_n else n
        values = self.apply(row, column, sums, others, width)
        with only_if(ints.less(m, c.M) if self.ragged_m else None, ints.less(n, c.N) if self.ragged_n else None):
            self.write(row, column, values, width)

    def apply(self, m: Integer, n: Integer, sums: ir.Value, others: ir.Value | None, width: int) -> list[ir.Value]:
        """The results for each destination."""
        c, lanes = self.contraction, width if width > 1 else 0
        if not lanes:
            sums, others = lanes_of(sums)[0], None if others is None else lanes_of(others)[0]
        results: list[ir.Value] = []
        if c.epilogue is not None:
            arguments = epilogue_arguments(c.epilogue, sums, lambda source: self.read(source, m, n, width), others)
            results = inline_body(c.epilogue.block, arguments, self.indices(m, n, width), lanes, outside=size_values(c.epilogue, self.ints))
        return [sums if d.source is None else results[d.source] for d in c.destinations]

    def write(self, m: Integer, n: Integer, values: list[ir.Value], width: int) -> None:
        for destination, value in zip(self.contraction.destinations, values):
            access, offset = destination.access, self.offset(destination.access, m, n)
            buffer, step = self.buffers[access.argument], self.step(access)
            if width == 1:
                store(self.ints, value, buffer, offset)
            elif step == 1:
                store_vector(self.ints, as_vector(value, width), buffer, offset, self.aligned(access))
            else:
                for i, x in enumerate(lanes_of(as_vector(value, width))):
                    store(self.ints, x, buffer, self.ints.add(offset, i * step))

    def read(self, access: Access, m: Integer, n: Integer, width: int) -> ir.Value:
        buffer, offset, step = self.buffers[access.argument], self.offset(access, m, n), self.step(access)
        if width == 1 or step == 0:
            return load(self.ints, buffer, offset, access.element)
        if step == 1:
            return load_vector(self.ints, buffer, offset, access.element, width, self.aligned(access))
        return join([load(self.ints, buffer, offset, access.element, i * step) for i in range(width)])

    def step(self, access: Access) -> int:
        """The stride of neighbours along n."""
        n = self.contraction.n
        return n.strides(access)[-1] if n.runs else 0

    def aligned(self, access: Access) -> int:
        c = self.contraction
        others = [x for g in (c.batch, c.m) for x in g.strides(access)] + list(c.n.strides(access)[:-1])
        return alignment((access.offset, *others), 16)

    def offset(self, access: Access, m: Integer, n: Integer) -> Integer:
        ints, c = self.ints, self.contraction
        rows = ints.add(group_offset(ints, c.batch, access, self.batch), group_offset(ints, c.m, access, m))
        return ints.add(ints.add(rows, group_offset(ints, c.n, access, n)), access.offset)

    def indices(self, m: Integer, n: Integer, width: int) -> list[ir.Value]:
        """For ``linalg.index`` in the epilogue."""
        c, ints = self.contraction, self.ints
        if not walk(c.epilogue.generic, "linalg.index"):
            return []
        lanes = []
        for i in range(width):
            known: dict[int | None, Integer] = {None: 0}
            for group, at in ((c.batch, self.batch), (c.m, m), (c.n, ints.add(n, i))):
                known.update(zip(group.dims, ints.split(at, group.sizes)))
            lanes.append([ints.index(known.get(d, 0)) for d in c.epilogue.indices])
        return [join([lane[d] for lane in lanes]) if width > 1 else lanes[0][d] for d in range(len(c.epilogue.indices))]
