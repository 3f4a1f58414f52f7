"""One factor of a contraction on CUDA cores: its tiles from global memory through registers to shared memory.

In shared memory a tile is [term][row], rows of the accumulator's type, so that a thread reads what it multiplies next in
16-byte pieces.  The prologue and the widening happen on the way, once an element.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders import bytes_to_floats
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, load, load_vector, splat, store_vector
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.mlir import arith, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.contraction import Group, Operand, aligned_along


def group_offset(ints: Integers, group: Group, access: Access, index: Integer) -> Integer:
    """What position ``index`` of a group adds to the offset of ``access``."""
    return ints.dot(ints.split(index, group.run_sizes), group.strides(access))


@dataclass
class Reader:
    """Reads a factor's elements, ``lanes`` neighbours at a time ``along`` one of the groups k and ``mn``; ``element`` is the type that
    they are widened to."""

    ints: Integers
    operand: Operand
    batch: Group
    mn: Group
    k: Group
    element: ir.Type
    buffers: list[ir.Value]
    lanes: int = field(default=1, kw_only=True)
    along: str = field(default="k", kw_only=True)

    def aligned(self, access: Access, group: Group) -> int:
        """Neighbours along ``group`` that are aligned together wherever a vector begins."""
        return aligned_along(access, group, (self.batch, self.mn, self.k))

    def base(self, access: Access, batch: Integer, row: Integer) -> Integer:
        """Where a row's terms begin."""
        ints = self.ints
        return ints.add(ints.add(group_offset(ints, self.batch, access, batch), group_offset(ints, self.mn, access, row)), access.offset)

    def read(self, access: Access, offset: Integer) -> ir.Value:
        buffer, group = self.buffers[access.argument], self.k if self.along == "k" else self.mn
        step = group.strides(access)[-1] if group.runs else 0
        if self.lanes == 1 or step == 0:
            return load(self.ints, buffer, offset, access.element)
        if step == 1:
            return load_vector(self.ints, buffer, offset, access.element, self.lanes, self.aligned(access, group))
        return join([load(self.ints, buffer, offset, access.element, i * step) for i in range(self.lanes)])

    def read_terms(self, bases: Sequence[Integer], term: Integer) -> list[ir.Value]:
        """What the prologue gets of a row whose terms begin at ``bases``, one for each access, from ``term`` on."""
        ints = self.ints
        return [self.read(a, ints.add(base, group_offset(ints, self.k, a, term))) for a, base in zip(self.operand.reads, bases)]

    def finish(self, values: list[ir.Value]) -> ir.Value:
        """Prologue and widening."""
        lanes = self.lanes if self.lanes > 1 else 0
        value = values[0]
        if self.operand.prologue is not None:
            rest = iter(values)
            unused = arith.constant(ir.IntegerType.get_signless(1), 0)
            arguments = [unused if s is None else next(rest) for s in self.operand.prologue.sources]
            value = inline_body(self.operand.prologue.block, arguments, (), lanes, bytes_to_floats.CUSTOM)[0]
        if lanes:
            value = as_vector(value, lanes)
        if self.operand.extend is not None:
            type_ = ir.VectorType.get([lanes], self.element) if lanes else self.element
            value = ir.Operation.create(self.operand.extend, results=[type_], operands=[value]).results[0]
        return value


@dataclass
class Tiles(Reader):
    """Moves tiles of ``rows`` (m or n) x ``depth`` (k) with ``threads`` threads; each moves some vectors of ``lanes`` elements
    along ``along``: the group in which the tensor is contiguous."""

    rows: int
    depth: int
    threads: int
    pitch: int
    slots: list[tuple[Integer, Integer]] = field(default_factory=list)
    present: list[ir.Value | None] = field(default_factory=list)  # by slot: whether this thread has a vector there, if not all have
    bases: list[list[Integer]] = field(default_factory=list)

    def __post_init__(self) -> None:
        main = max(self.operand.reads, key=lambda a: sum(1 for s in a.strides if s != 0))
        best = 4 if self.element.width <= 32 else 2
        choices = []
        for name, group, extent in (("k", self.k, self.depth), ("mn", self.mn, self.rows)):
            lanes = best
            while lanes > 1 and not (extent % lanes == 0 and group.runs and group.run_sizes[-1] % lanes == 0
                                     and self.aligned(main, group) >= lanes):
                lanes //= 2
            contiguous = bool(group.runs) and group.strides(main)[-1] == 1
            choices.append((contiguous, lanes, name))
        contiguous, lanes, self.along = max(choices, key=lambda c: (c[0], c[1]))
        self.lanes = lanes if contiguous else 1

    def place(self, thread: Integer, batch: Integer, first_row: Integer) -> None:
        """Compute, once, which elements this thread moves and where their rows begin."""
        ints, vectors = self.ints, self.rows * self.depth // self.lanes
        for i in range(-(-vectors // self.threads)):
            v = ints.add(thread, i * self.threads)
            self.present.append(ints.less(v, vectors) if (i + 1) * self.threads > vectors else None)
            if self.present[-1] is not None:
                v = ints.min(v, vectors - 1)  # loaded twice, and stored once
            if self.along == "mn":
                row, term = ints.mul(ints.rem(v, self.rows // self.lanes), self.lanes), ints.div(v, self.rows // self.lanes)
            elif self.lanes > 1 and self.depth // self.lanes % 2 == 0:
                # Pairs of lanes read 32 bytes of a row; 16 rows a warp then fall into different banks when they are stored.
                row = ints.rem(ints.div(v, 2), self.rows)
                term = ints.mul(ints.add(ints.rem(v, 2), ints.mul(ints.div(v, 2 * self.rows), 2)), self.lanes)
            else:
                row, term = ints.div(v, self.depth // self.lanes), ints.mul(ints.rem(v, self.depth // self.lanes), self.lanes)
            self.slots.append((row, term))
            at = ints.add(first_row, row)
            if self.mn.size % self.rows != 0:
                at = ints.min(at, self.mn.size - (self.lanes if self.along == "mn" else 1))
            self.bases.append([self.base(a, batch, at) for a in self.operand.reads])

    def fetch(self, first: Integer) -> list[list[ir.Value]]:
        """Load this thread's part of the tile whose terms begin at ``first``; what lies beyond the end is clamped."""
        ints, loaded = self.ints, []
        for (_, term), bases in zip(self.slots, self.bases):
            at = ints.add(first, term)
            if self.k.size % self.depth != 0:
                at = ints.min(at, self.k.size - (self.lanes if self.along == "k" else 1))
            loaded.append(self.read_terms(bases, at))
        return loaded

    def commit(self, loaded: list[list[ir.Value]], shared: ir.Value, begin: Integer, first: Integer) -> None:
        """Finish the elements that ``fetch`` loaded and store them to the tile at ``shared[begin]``; terms beyond the
        end become 0."""
        ints = self.ints
        for (row, term), present, values in zip(self.slots, self.present, loaded):
            value = self.finish(values)
            if self.k.size % self.depth != 0:
                inside = ints.less(ints.add(first, term), self.k.size)
                value = arith.select(inside, value, splat(value.type, 0))
            where = ints.add(begin, ints.add(ints.mul(term, self.pitch), row))
            with only_if(present):
                self._store(value, shared, where)

    def _store(self, value: ir.Value, shared: ir.Value, where: Integer) -> None:
        lanes = lanes_of(value)
        if self.lanes == 1 or self.along == "mn":
            store_vector(self.ints, value if self.lanes > 1 else join(lanes), shared, where, self.lanes)
            return
        for i, x in enumerate(lanes):
            store_vector(self.ints, join([x]), shared, where, 1, i * self.pitch)
