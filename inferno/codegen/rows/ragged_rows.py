"""Rows that begin unaligned: they are read in aligned vectors, of which the first and the last may belong to another row in part."""

from inferno.codegen.builders.conditions import all_of, only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of, load, load_vector, store, store_vector
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.unaligned import load_pieces, load_unaligned, piece
from inferno.mlir import arith, ir, scf
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.row_lanes import leading
from inferno.symbolic import is_multiple, product


class RaggedRows:
    """What an emitter of ``rows`` does with them.  ``lead`` is the tensor by which vectors lie, ``shift`` how far into one a row begins, ``own`` the
    number of vectors that have points of the row."""

    def begin_ragged(self) -> None:
        """Take these numbers, once the row is known."""
        c, vector, ints = self.c, self.s.vector, self.ints
        self.lead = leading(c)
        self.shift = ints.rem(self.row_offset(self.lead), vector)
        self.own = ints.div(ints.add(self.shift, c.width + vector - 1), vector)

    def place_ragged(self, chunk: object, vector: Integer, begins: bool, ends: bool) -> None:
        """Where a chunk is: its first point, maybe before the row, and, where the row may begin or end in it, for each lane whether it is the row's."""
        ints, lanes = self.ints, self.s.vector
        whole = ints.less(vector, self.own) if ends else None
        point = ints.sub(ints.mul(ints.min(vector, ints.sub(self.own, 1)) if ends else vector, lanes), self.shift)
        inside = None
        if begins or ends:
            inside = [ints.less(ints.add(point, i), self.c.width) for i in range(lanes)]  # below 0 is a large number
            inside = [arith.andi(x, whole) for x in inside] if whole is not None else inside
        self._chunk[chunk] = (point, inside)

    def matches(self, at: Access) -> bool:
        """Whether a tensor's rows begin where the leading one's do, as far as vectors go."""
        lead, vector = self.lead, self.s.vector
        return is_multiple(at.offset - lead.offset, vector) and all(is_multiple(at.strides[d] - lead.strides[d], vector) for d in self.c.rows)

    def read_ragged(self, at: Access, point: Integer, inside: list[ir.Value] | None) -> ir.Value:
        ints, buffer, vector = self.ints, self.buffers[at.argument], self.s.vector
        if not self.flat(at):
            return self.read_shared(at, point)
        if self.matches(at):
            offset = self.offset(at, point)
            if inside is None:
                return load_vector(ints, buffer, offset, at.element, vector, vector)
            return load_pieces(ints, buffer, offset, at.element, vector, product(at.shape))
        width = piece(at.element, vector)
        if width > 1:
            past = ints.rem(ints.sub(self.row_offset(at), self.shift), width)
            return load_unaligned(ints, buffer, self.offset(at, point), at.element, vector, past, product(at.shape))
        points = [ints.add(point, i) for i in range(vector)]
        if inside is not None:
            points = [ints.min(p, self.c.width - 1) for p in points]
        return join([load(ints, buffer, self.offset(at, p), at.element) for p in points])

    def read_shared(self, at: Access, point: Integer) -> ir.Value:
        """What neighbours have in common up to the end of a run of them, as the weights of channels: one element for lanes of one run."""
        ints, buffer, lanes, width, run = self.ints, self.buffers[at.argument], self.s.vector, self.c.width, self.c.run_sizes[-1]
        ends = ints.add(point, lanes - 1)
        inside = arith.andi(ints.less(point, width), ints.less(ends, width))  # (a point before the row is a large number)
        alike = arith.andi(inside, ints.less(ints.add(ints.rem(point, run), lanes - 1), run))
        choice = scf.IfOp(alike, [ir.VectorType.get([lanes], at.element)], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.yield_([as_vector(load(ints, buffer, self.offset(at, point), at.element), lanes)])
        with ir.InsertionPoint(choice.else_block):
            places = [ints.min(ints.add(point, i), width - 1) for i in range(lanes)]
            scf.yield_([join([load(ints, buffer, self.offset(at, p), at.element) for p in places])])
        return choice.results[0]

    def write_ragged(self, stored: list, chunk: object) -> None:
        point, inside = self._chunk[chunk]
        values = [as_vector(self.value(d.source, chunk), self.s.vector) for d in stored]

        def put() -> None:
            for d, value in zip(stored, values):
                aligned = self.s.vector if self.matches(d.access) else 1
                store_vector(self.ints, value, self.buffers[d.access.argument], self.offset(d.access, point), aligned)

        if inside is None:
            with only_if(self.mine):
                put()
            return
        choice = scf.IfOp(all_of(*inside), has_else=True)
        with ir.InsertionPoint(choice.then_block):
            with only_if(self.mine):
                put()
            scf.yield_([])
        with ir.InsertionPoint(choice.else_block):
            for i, x in enumerate(inside):
                with only_if(x, self.mine):
                    for d, value in zip(stored, values):
                        store(self.ints, lanes_of(value)[i], self.buffers[d.access.argument], self.offset(d.access, self.ints.add(point, i)))
            scf.yield_([])
