"""What follows row-wise operations and only moves their results: a result that is made of pieces (a concatenation, a padding, a buffer of which a part is new),
is a part of the rows, or repeats them. Each piece is a map of the rows' own points, which says where its points go and which of them are no part of it.

Wherever pieces lie, every point of a row is computed once; what a piece has of its own is read at its points alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import prod

from inferno.mlir import arith, clone_onto, dim_of, erase_dead, func, ir, is_read, linalg, owner, scf, tensor, terminator, walk
from inferno.passes.affine import linear
from inferno.passes.generics import PARALLEL, body, build, index, inputs, is_elementwise, is_reduction, kinds, maps, use_count, yielded
from inferno.passes.parts import extract, split_part, taken_by
from inferno.passes.programs import operations_in, root_of
from inferno.passes.shapes import UnknownSize, kept_dimensions, reassociation, row_major, slice_parts
from inferno.schedule.analysis.accesses import argument_index, loop_sizes
from inferno.schedule.analysis.affine_extracts import linear_place
from inferno.schedule.rows.split_loops import split_loops

_MOST = 9  # pieces of a result: what is padded on all sides


@dataclass(frozen=True)
class ResultPart:
    """Where points of ``value`` go in a result, by the loops of rows: ``strides`` and ``offset`` in elements.  ``inside``: the places of loops that are a
    part of it, from one up to another, where not all are."""

    value: ir.Value
    strides: tuple[int, ...]
    offset: int
    inside: dict[int, tuple[int, int]]


@dataclass
class _Read:
    """An element that a body takes of a tensor: for each of its dimensions a loop, or None, and what is added to it.  ``names`` are what the body calls it."""

    table: ir.Value
    places: list[tuple[int | None, int]]
    names: list[ir.Value] = field(default_factory=list)


def first_reduction(kernel: func.FuncOp) -> ir.Operation | None:
    """The reduction whose loops are those of rows and of their points."""
    operations = operations_in(kernel)
    return next((o for o in operations if is_reduction(o)), None)


def results_to_cut(kernel: func.FuncOp) -> list[ir.Value]:
    """What a kernel that reduces rows returns that is none of their points."""
    reducing, returned = first_reduction(kernel), terminator(kernel.entry_block).operands
    sizes = loop_sizes(reducing) if reducing is not None else None
    if sizes is None or not all(isinstance(s, int) for s in sizes) or prod(sizes) == 1:
        return []
    known = prod(sizes), prod(s for s, k in zip(sizes, kinds(reducing)) if k == PARALLEL)
    return [v for v in dict.fromkeys(returned) if owner(v) is not None and _is_cut(owner(v), known)]


def cut_results(kernel: func.FuncOp, nest: Sequence[int]) -> dict[ir.Value, list[ResultPart]] | None:
    """Make maps by the loops ``nest`` of such results, and say what these are by what is returned; None where one is anything else."""
    found: dict[ir.Value, list[ResultPart]] = {}
    for value in results_to_cut(kernel):
        op = owner(value)
        if len(op.results) != 1 or not op.results[0].type.rank or use_count(value) != 1:
            return None
        parts = _cut_beside(kernel, op, split_loops(op), nest)
        parts = parts if parts is not None else _cut_beside(kernel, op, _unflattened(op), nest)
        if parts is None:
            return None
        found[value] = parts
    return found


def _cut_beside(kernel: func.FuncOp, op: ir.Operation, other: ir.Operation | None, nest: Sequence[int]) -> list[ResultPart] | None:
    """The parts of a result by an operation that makes the same, which is there for this alone."""
    parts = _cut(kernel, other, nest) if other is not None else None
    if other is not None and other != op:
        other.erase()
    return parts


def _unflattened(op: ir.Operation) -> ir.Operation | None:
    """Beside a copy of a slice of what was flattened the copy of the slice that is taken of it before, of as many loops; None where that is none."""
    cut = owner(op.operands[0]) if op.name == "linalg.copy" else None
    view = owner(cut.operands[0]) if cut is not None and cut.name == "tensor.extract_slice" else None
    taken = taken_by(cut) if view is not None and view.name == "tensor.collapse_shape" and view.operands[0].type.has_static_shape else None
    if taken is None:
        return None
    source = view.operands[0]
    parts = [split_part(part, [source.type.shape[d] for d in group]) for part, group in zip(taken, reassociation(view))]
    if None in parts:
        return None
    with ir.InsertionPoint(op), op.location:
        value = extract(source, [part for each in parts for part in each])
        out = tensor.EmptyOp(list(value.type.shape), value.type.element_type).result
        same = ir.AffineMap.get_identity(value.type.rank)
        return build([value], [out], [same, same], [PARALLEL] * value.type.rank, lambda arguments: arguments[:1], op.location)


def _is_cut(op: ir.Operation, known: Sequence[int]) -> bool:
    """Whether an operation has other numbers of points than are ``known``, or chooses between pieces."""
    if op.name == "linalg.copy":
        return True
    if not is_elementwise(op) or not op.results[0].type.has_static_shape:
        return False
    return prod(op.results[0].type.shape) not in known or bool(walk(op, "scf.if"))


def _cut(kernel: func.FuncOp, op: ir.Operation, nest: Sequence[int]) -> list[ResultPart] | None:
    sizes = list(op.results[0].type.shape)
    if _maps(op)[-1] != ir.AffineMap.get_identity(len(sizes)):
        return None
    cuts = _places(op, len(sizes))
    if cuts is None:
        return None
    edges = [sorted({0, size, *(b for b in cuts.get(d, ()) if 0 < b < size)}) for d, size in enumerate(sizes)]
    edges[-1] = [e for begin, last in zip(edges[-1], edges[-1][1:]) for e in range(begin, last, nest[-1])] + edges[-1][-1:]  # no longer than rows
    if prod(len(each) - 1 for each in edges) > _MOST:
        return None
    found: list[ResultPart] = []
    for box in product(*([(begin, last - begin) for begin, last in zip(each, each[1:])] for each in edges)):
        made = _Piece.read(kernel, op, box, nest)
        if made is None:
            return None
        found += made
    return found if len(found) <= _MOST else None


def _places(op: ir.Operation, loops: int) -> dict[int, set[int]] | None:
    """The loops by which a body chooses, and where its choices may change; None where it chooses by anything else."""
    found: dict[int, set[int]] = {}
    pending = [c.operands[0] for c in walk(op, "scf.if")]
    while pending:
        condition = owner(pending.pop())
        if condition is None:
            return None
        if condition.name in ("arith.andi", "arith.ori"):
            pending += condition.operands
            continue
        compared = _compared(condition, loops)
        if compared is None:
            return None
        loop, plus, bound = compared
        found.setdefault(loop, set()).update((-plus, bound - plus))
    return found


def _compared(condition: ir.Operation, loops: int) -> tuple[int, int, int] | None:
    """A loop, what is added to it, and what the sum is below, as a number without a sign."""
    if condition.name != "arith.cmpi" or ir.IntegerAttr(condition.attributes["predicate"]).value != arith.CmpIPredicate.ult:
        return None
    place, bound = (linear_place(v, loops) for v in condition.operands)
    if place is None or bound is None or any(bound[0]) or sorted(place[0])[-1:] != [1] or sum(map(abs, place[0])) != 1:
        return None
    return place[0].index(1), place[1], bound[1]


class _Piece:
    """A box of a result's points."""

    def __init__(self, kernel: func.FuncOp, op: ir.Operation, box: Sequence[tuple[int, int]], nest: Sequence[int]) -> None:
        self.kernel, self.op, self.box, self.nest = kernel, op, box, nest
        self.taken: list[ir.Operation] = []  # what is computed in the box, in order
        self.chosen: dict[ir.Value, ir.Value] = {}
        self.reads: list[_Read] = []

    @classmethod
    def read(cls, kernel: func.FuncOp, op: ir.Operation, box: Sequence[tuple[int, int]], nest: Sequence[int]) -> list[ResultPart] | None:
        piece = cls(kernel, op, box, nest)
        if not piece.take(body(op)) or not piece.find_reads() or (loops := piece.align()) is None:
            return None
        begins = [piece.begin(d, loop) if loop is not None else 0 for d, loop in enumerate(loops)]
        if any(loop is not None and not 0 <= low <= nest[loop] - box[d][1] for d, (loop, low) in enumerate(zip(loops, begins))):
            return None
        value = piece.make(loops, begins)
        if value is None:
            return None
        steps = row_major(op.results[0].type.shape)
        strides, inside, offset = [0] * len(nest), {}, 0
        for (first, count), step, loop, low in zip(box, steps, loops, begins):
            if loop is not None:
                strides[loop] = step
                inside |= {loop: (low, low + count)} if count != nest[loop] else {}
            offset += step * (first - low)
        again = product(*(range(0, step * count, step) if loop is None else (0,) for (_, count), step, loop in zip(box, steps, loops)))
        return [ResultPart(value, tuple(strides), offset + sum(more), inside) for more in again]

    def take(self, block: ir.Block) -> bool:
        """Note what a block computes in the box; False where that is not known."""
        for op in [o.operation for o in block.operations][:-1]:
            if op.name == "scf.if":
                holds = self.holds(op.operands[0])
                if holds is None or len(op.results) != 1:
                    return False
                inner = op.regions[0 if holds else 1].blocks[0]
                if not self.take(inner):
                    return False
                self.chosen[op.results[0]] = terminator(inner).operands[0]
            elif len(op.regions):
                return False
            self.taken.append(op)
        return True

    def holds(self, condition: ir.Value) -> bool | None:
        """Whether a condition holds at all points of the box, or at none."""
        op = owner(condition)
        if op.name in ("arith.andi", "arith.ori"):
            each = [self.holds(v) for v in op.operands]
            return None if None in each else all(each) if op.name == "arith.andi" else any(each)
        loop, plus, bound = _compared(op, len(self.box))
        first, last = self.box[loop][0] + plus, sum(self.box[loop]) + plus
        return True if 0 <= first and last <= bound else False if last <= 0 or first >= bound else None

    def find_reads(self) -> bool:
        """Note which elements are read; False where that is not at a loop and a number along each dimension."""
        loops = len(self.box)
        for value, map_, name in zip(inputs(self.op), _maps(self.op), body(self.op).arguments):
            if is_read(name) and not self.add(value, [linear(e, loops) for e in map_.results], name):
                return False
        extracts = [op for op in self.taken if op.name == "tensor.extract"]
        return all(self.add(op.operands[0], [linear_place(v, loops) for v in list(op.operands)[1:]], op.results[0]) for op in extracts)

    def add(self, table: ir.Value, walks: Sequence, name: ir.Value) -> bool:
        if any(w is None or min(w[0], default=0) < 0 or sum(w[0]) > 1 for w in walks):
            return False
        places = [(w[0].index(1) if any(w[0]) else None, w[1]) for w in walks]
        while (op := owner(table)) is not None and op.name == "tensor.extract_slice":
            try:
                offsets, _, steps = slice_parts(op)
            except UnknownSize:
                return False
            if any(s != 1 for s in steps) or not all(isinstance(o, int) for o in offsets):
                return False
            own = dict(zip(kept_dimensions(op), places))
            places = [(own[d][0], own[d][1] + o) if d in own else (None, o) for d, o in enumerate(offsets)]
            table = op.operands[0]
        if not table.type.has_static_shape:
            return False
        known = next((r for r in self.reads if r.table == table and r.places == places), None)
        if known is None:
            self.reads.append(known := _Read(table, places))
        known.names.append(name)
        return True

    def align(self) -> list[int | None] | None:
        """The loop of rows behind each dimension of the box, of as many sizes alike as can be; what none is behind has one place, or the same at each."""
        counts = [count for _, count in self.box]
        used = {d for r in self.reads for d, _ in r.places}
        used |= {dim_of(o) for o in self.taken if o.name == "linalg.index" and is_read(o.results[0])}
        free = [count == 1 or d not in used for d, count in enumerate(counts)]
        able = []
        for some in combinations(range(len(counts)), len(self.nest)):
            fits = all(counts[d] <= n for d, n in zip(some, self.nest)) and all(free[d] for d in range(len(counts)) if d not in some)
            able += [some] if fits else []
        if not able:
            return None
        best = max(able, key=lambda some: sum(counts[d] == n for d, n in zip(some, self.nest)))
        return [best.index(d) if d in best else None for d in range(len(counts))]

    def begin(self, dimension: int, loop: int) -> int:
        """The first place of the box in a row, where what is read of rows lies there."""
        first, count = self.box[dimension]
        if count == self.nest[loop]:
            return 0
        found = [
            (argument_index(self.kernel, r.table) is not None, first + plus)
            for r in self.reads for (d, plus), size in zip(r.places, r.table.type.shape) if d == dimension and size == self.nest[loop]
        ]
        return min(found, default=(True, 0))[1]

    def make(self, loops: Sequence[int | None], begins: Sequence[int]) -> ir.Value | None:
        """The map of the rows' points; None where something cannot be read."""
        rank = len(self.nest)
        shifts = [first - low for (first, _), low in zip(self.box, begins)]
        operands, indexing, plain, guarded = [], [], [], []
        for r in self.reads:
            walks = [(None if d is None else loops[d], plus + (shifts[d] if d is not None else 0)) for d, plus in r.places]
            extents = [1 if loop is None else self.nest[loop] for loop, _ in walks]
            within = all(0 <= begin and begin + n <= size for (_, begin), n, size in zip(walks, extents, r.table.type.shape))
            whole = extents == list(r.table.type.shape)
            given = argument_index(self.kernel, root_of(r.table)) is not None
            if within and (whole or given):
                plain.append(r)
                indexing.append(ir.AffineMap.get(rank, 0, [
                    ir.AffineExpr.get_constant(0) if loop is None else ir.AffineExpr.get_dim(loop) for loop, _ in walks
                ]))
                operands.append((r.table, None if whole else [(begin, n, 1) for (_, begin), n in zip(walks, extents)]))
            elif argument_index(self.kernel, r.table) is not None:
                guarded.append((r, walks))
            else:
                return None
        with ir.InsertionPoint(self.op), self.op.location:
            values = [v if part is None else extract(v, part) for v, part in operands]
            out = tensor.EmptyOp(list(self.nest), self.op.results[0].type.element_type).result

            def fill(arguments: list[ir.Value]) -> list[ir.Value]:
                known = {name: a for r, a in zip(plain, arguments) for name in r.names}
                known |= {name: v for r, walks in guarded for v in [self.guard(r, walks, loops, begins)] for name in r.names}
                return [self.compute(known, loops, shifts)]

            made = build(values, [out], [*indexing, ir.AffineMap.get_identity(rank)], [PARALLEL] * rank, fill, self.op.location)
        erase_dead(o.operation for o in body(made).operations)
        return made.results[0]

    def guard(self, read: _Read, walks: Sequence[tuple[int | None, int]], loops: Sequence[int | None], begins: Sequence[int]) -> ir.Value:
        """What is read where a point is in the box, and 0 elsewhere."""
        condition = None
        for (_, count), loop, low in zip(self.box, loops, begins):
            if loop is not None and count != self.nest[loop]:
                place = _loop(loop) if low == 0 else arith.subi(_loop(loop), index(low))
                below = arith.cmpi(arith.CmpIPredicate.ult, place, index(count))
                condition = below if condition is None else arith.andi(condition, below)
        type_ = read.table.type.element_type
        choice = scf.IfOp(condition, [type_], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.yield_([tensor.extract(read.table, [_place(loop, plus) for loop, plus in walks])])
        with ir.InsertionPoint(choice.else_block):
            attribute = ir.FloatAttr.get(type_, 0.0) if not isinstance(type_, ir.IntegerType) else ir.IntegerAttr.get(type_, 0)
            scf.yield_([arith.constant(type_, attribute)])
        return choice.results[0]

    def compute(self, known: dict[ir.Value, ir.Value], loops: Sequence[int | None], shifts: Sequence[int]) -> ir.Value:
        """What the body yields in the box, of what it reads."""
        for op in self.taken:
            if op.name == "linalg.index":
                d = dim_of(op)
                known[op.results[0]] = _place(loops[d], shifts[d])
            elif op.name == "scf.if":
                chosen = self.chosen[op.results[0]]
                known[op.results[0]] = known.get(chosen, chosen)
            elif op.results[0] not in known:
                clone_onto(op, known)
        result = known.get(yielded(self.op)[0], yielded(self.op)[0])
        if (made := owner(result)) is not None and made.name == "arith.constant":
            return clone_onto(made, {}).results[0]  # in the body: a map that yields one from outside is a fill
        return result


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMap.get_identity(v.type.rank) for v in op.operands] if op.name == "linalg.copy" else maps(op)


def _place(loop: int | None, plus: int) -> ir.Value:
    if loop is None:
        return index(plus)
    return _loop(loop) if plus == 0 else arith.addi(_loop(loop), index(plus))


def _loop(number: int) -> ir.Value:
    return linalg.IndexOp(number).result
