"""Operations over the points of rows, or over rows, in order: maps, and reductions of whole rows.

What a ``StepParser`` is told of the rows it reads each structured operation by: a nest of loops.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

from inferno.mlir import arith, backward_slice, dim_of, func, ir, is_read, is_unread, isolated_copy, owner, terminator, walk
from inferno.passes.generics import REDUCTION, input_count, kinds, maps, outputs
from inferno.passes.programs import VIEWS, operations_in
from inferno.passes.shapes import row_major
from inferno.schedule.analysis.accesses import Access, argument_index, filled, knows_arguments, loop_sizes, placed, sink_constants
from inferno.schedule.analysis.combiners import Combiner, read_combiner, to_term
from inferno.schedule.analysis.unchanged import read_by_text
from inferno.schedule.reductions.extrema import Extremum, read_extremum, to_candidate, unround
from inferno.schedule.reductions.split_products import split_products


@dataclass(frozen=True)
class RowValue:
    """What the operations exchange: an element for each point or, with ``per_row``, for each row."""

    element: ir.Type
    per_row: bool


@dataclass(frozen=True)
class RowStep:
    """A structured operation.  ``sources``, by argument of its block: the number of a value, where to read it, or None for what its body does
    not use.  ``results`` are numbers of values, None for those that nothing uses.

    With ``combiners``, one a result, it is a reduction of rows whose body yields terms, and ``starts`` are what results begin with.
    ``indices``: the rows' loop behind each of its own, for ``linalg.index``; None for one of one iteration, or that is not read.
    ``phase``: how many reductions and scans lie in front of it, one behind the other.

    With ``scans`` it is a scan along rows: its only result is the running value of its only source, by this combiner.  With ``extremum`` its results are a
    value and its place, and its body yields candidates.
    """

    generic: ir.Operation
    sources: tuple[Access | int | None, ...]
    results: tuple[int | None, ...]
    combiners: tuple[Combiner | None, ...]
    starts: tuple[ir.Attribute | None, ...]
    indices: tuple[int | None, ...]
    per_row: bool
    phase: int
    scans: Combiner | None = None
    extremum: Extremum | None = None

    @property
    def block(self) -> ir.Block:
        return self.generic.regions[0].blocks[0]

    @property
    def reduces(self) -> bool:
        return self.extremum is not None or any(c is not None for c in self.combiners)

    @property
    def walks(self) -> bool:
        """Whether it takes points in their order."""
        return self.scans is not None or self.extremum is not None

    @cached_property
    def chooses(self) -> bool:
        """Whether its body chooses between what it reads (``scf.if``)."""
        return any(walk(choice, "tensor.extract") for choice in walk(self.generic, "scf.if"))

    def chooses_by(self, loops: Sequence[int]) -> bool:
        """Whether it does so by where it is in one of these of the rows' loops, or by elements."""
        for value in backward_slice(choice.operands[0] for choice in walk(self.generic, "scf.if")):
            op = owner(value)
            if value in set(self.block.arguments) or (op is not None and op.name == "linalg.index" and self.indices[dim_of(op)] in loops):
                return True
        return False

    @property
    def meets(self) -> bool:
        """Whether its results are known only when the threads of a row have told each other what they have."""
        return self.reduces or self.scans is not None

    @property
    def extras(self) -> tuple[Access, ...]:
        """The tensors that it reads."""
        return tuple(s for s in self.sources if isinstance(s, Access))


class StepParser:
    """Reads operations of ``kernel``.  ``sizes`` are of the ``loops``, which are numbers in the order of memory, and of which some are ``rows`` and
    the others ``columns``; there are ``count`` rows of ``width`` points.  Methods return None for what is not understood."""

    with_tables: ClassVar[bool] = False  # whether bodies may extract elements of tensors
    by_loops: ClassVar[bool] = False  # whether reductions walk points in the order of their loops, and not of what they read
    with_sizes: ClassVar[bool] = False  # whether bodies may compute with sizes that the kernel is given, as means divide by them
    with_extrema: ClassVar[bool] = False  # whether reductions may be of values and their places
    transposing: ClassVar[bool] = False  # whether maps of what is given back alone walk points as what they read lies, and not as what they write
    sizes: Sequence[int]
    loops: list[int]
    rows: list[int]
    columns: list[int]
    count: int
    width: int

    @classmethod
    def read(cls, kernel: func.FuncOp) -> Any:
        """What ``parse`` says of a copy of a kernel, which the result may keep; None where sizes vary."""
        arguments = kernel.entry_block.arguments
        varying = [a for a in arguments if isinstance(a.type, ir.ShapedType) and not a.type.has_static_shape]
        sizes = [a for a in arguments if isinstance(a.type, ir.IndexType) and is_read(a)]
        if not knows_arguments(kernel) or varying or (sizes and not cls.with_sizes):
            return None
        return _read(kernel, cls)

    def __init__(self, module: ir.Module) -> None:
        self.module, self.kernel = module, module.body.operations[0]
        self.operations = operations_in(self.kernel)
        self.known: dict[ir.Value, int] = {}
        self.values: list[RowValue] = []
        self.ready: list[int] = []  # the phase in which each value becomes known
        self.transposed: dict[int, tuple[int, ...]] = {}  # how values of points lie, by their numbers, that are written in another order: strides by loops

    def add(self, value: ir.Value, per_row: bool, ready: int) -> int:
        self.known[value] = len(self.values)
        self.values.append(RowValue(value.type.element_type, per_row))
        self.ready.append(ready)
        return len(self.values) - 1

    def find(self, value: ir.Value) -> int | None:
        """The number of the value that this is, maybe in another shape."""
        while value not in self.known and (op := owner(value)) is not None and op.name in VIEWS:
            value = op.operands[0]
        return self.known.get(value)

    def order(self, generic: ir.Operation, sizes: Sequence[int], full: Sequence[ir.AffineMap] = ()) -> list[int] | None:
        """The loops of a reduction, outermost first; ``full`` as for ``walk_order``."""
        return [d for d, s in enumerate(sizes) if s != 1] if self.by_loops else walk_order(generic, sizes, full)

    def point_order(self, generic: ir.Operation, sizes: Sequence[int], full: Sequence[ir.AffineMap] = ()) -> list[int] | None:
        """The loops of a map, outermost first."""
        count = input_count(generic)
        written = order_of(maps(generic)[count], sizes)
        if self.transposing and all(u.owner.name == "func.return" for r in generic.results for u in r.uses):
            read = [order_of(m, sizes) for m in (*full, *maps(generic)[:count])]
            return next((o for o in read if o is not None and o != written and sorted(o) == sorted(written)), written)
        return written

    def knows_tables(self, generic: ir.Operation) -> bool:
        """Whether all that a body extracts from are arguments of the kernel that nothing writes to."""
        results = len(self.kernel.type.inputs) - len(self.kernel.type.results)
        tables = [argument_index(self.kernel, op.operands[0]) for op in walk(generic, "tensor.extract")]
        return not tables or (self.with_tables and all(t is not None and t < results for t in tables))

    def step(self, generic: ir.Operation) -> RowStep | None:
        """What an operation computes of rows, whose body then makes terms where it reduces; None where it is anything else."""
        kind, sizes, every = kinds(generic), loop_sizes(generic), maps(generic)
        count = input_count(generic)
        if sizes is None or any(not isinstance(s, int) for s in sizes) or not sink_constants(generic, tables=True) or not self.knows_tables(generic):
            return None
        live = [is_read(r) for r in generic.results]
        reduces = REDUCTION in [k for k, s in zip(kind, sizes) if s != 1]
        extremum = self.extremum(generic, kind, sizes, count) if self.with_extrema and reduces else None
        if extremum is None:
            _forget(generic, live)
        numbers = [self.find(v) for v in generic.operands][:count]
        full = [m for m, n in zip(every, numbers) if n is not None and not self.values[n].per_row]
        order = self.order(generic, sizes, full) if reduces else self.point_order(generic, sizes, full)
        if order is None or sorted(order) != [d for d, s in enumerate(sizes) if s != 1] or not any(live):
            return None
        points = prod(sizes)
        per_row = points == self.count and not reduces
        if not per_row and points != self.count * self.width:
            return None
        covered = covered_loops(order, sizes, [(d, self.sizes[d]) for d in (self.rows if per_row else self.loops)])
        if covered is None:
            return None
        row_order = [d for d in order if covered[d] <= set(self.rows)]
        of_columns = [d for d in order if covered[d] <= set(self.columns)]
        if reduces and (len(row_order) + len(of_columns) != len(order) or any((kind[d] == REDUCTION) != (d in of_columns) for d in order)):
            return None
        indices = self.indices(generic, order, sizes, per_row)
        if indices is None:
            return None
        sources = self.sources(generic, numbers, order, row_order, sizes, per_row)
        if sources is None:
            return None
        results = range(len(generic.results))
        written = {i: order_of(every[count + i], sizes) for i in results if live[i]}
        apart = [i for i in written if written[i] != order] if self.transposing and not reduces and not per_row else []
        transposed = {i: self._transposed(written[i], order, sizes) for i in apart}
        if None in transposed.values() or any(x != (row_order if reduces else order) for i, x in written.items() if i not in transposed):
            return None
        body = generic.regions[0].blocks[0]
        combiners, starts = [None] * len(live), [None] * len(live)
        if extremum is not None:
            starts = [filled(v) for v in outputs(generic)]
            to_candidate(body, count)
            unround(body, extremum)
        elif reduces:
            found = _take_terms(generic, live)
            if found is None:
                return None
            combiners, starts = found
        end = terminator(body)
        if any(any(u.owner != end for u in body.arguments[count + i].uses) for i in results):
            return None  # a body that reads what was there before
        phase = max((self.ready[n] for n in sources if isinstance(n, int)), default=0)
        made = tuple(self.add(r, per_row or reduces, phase + reduces) if live[i] else None for i, r in enumerate(generic.results))
        self.transposed.update({made[i]: strides for i, strides in transposed.items()})
        return RowStep(generic, tuple(sources), made, tuple(combiners), tuple(starts), indices, per_row, phase, extremum=extremum)

    def sources(
        self, generic: ir.Operation, numbers: Sequence[int | None], order: list[int], row_order: list[int], sizes: Sequence[int], per_row: bool,
    ) -> list[Access | int | None] | None:
        """What a body's arguments are: an access of a kernel's argument, the number of a value of the rows, or None for what it does not read, or has become a
        constant in it.  None for the whole where one is anything else."""
        found: list[Access | int | None] = []
        for argument, value, map_, number in zip(generic.regions[0].blocks[0].arguments, generic.operands, maps(generic), numbers):
            if not is_read(argument):
                found.append(None)
            elif number is not None:
                if order_of(map_, sizes) != (row_order if self.values[number].per_row else order):
                    return None
                found.append(number)
            elif (constant := filled(value)) is not None:
                with ir.InsertionPoint.at_block_begin(argument.owner):
                    argument.replace_all_uses_with(arith.constant(constant.type, constant))
                found.append(None)
            else:
                read = self.extra(value, map_, order, sizes, per_row)
                if read is None:
                    return None
                found.append(read)
        return found

    def extremum(self, generic: ir.Operation, kinds: Sequence[str], sizes: Sequence[int], count: int) -> Extremum | None:
        """The reduction of values and their places that this is, which begins with what comes behind every candidate."""
        loops = [d for d, (k, s) in enumerate(zip(kinds, sizes)) if k == REDUCTION and s != 1]
        found = read_extremum(generic.regions[0].blocks[0], count, loops[0]) if len(loops) == 1 else None
        return found if found is not None and all(filled(v) is not None for v in outputs(generic)) else None

    def _transposed(self, written: list[int] | None, order: list[int], sizes: Sequence[int]) -> tuple[int, ...] | None:
        """The strides, by the rows' loops, of a result that is written in an order of a map's loops while points are walked in another."""
        if written is None or sorted(written) != sorted(order):
            return None
        own = dict(zip(written, row_major([sizes[d] for d in written])))
        found = regroup([(sizes[d], own[d]) for d in order], [self.sizes[d] for d in self.loops])
        return None if found is None else tuple(found)

    def indices(self, generic: ir.Operation, order: list[int], sizes: Sequence[int], per_row: bool) -> tuple[int | None, ...] | None:
        """The rows' loops behind those that the body reads the numbers of; None where there is one without."""
        read = {dim_of(o) for o in walk(generic, "linalg.index")}
        if per_row and not self.with_tables and any(sizes[d] != 1 for d in read):
            return None
        loops = self.rows if per_row else self.loops
        known = {(p, size): d for d, (p, size, _) in zip(loops, inner_points([(self.sizes[d], 0) for d in loops]))}
        own = {d: known.get((p, size)) for d, (p, size, _) in zip(order, inner_points([(sizes[d], 0) for d in order]))}
        if any(sizes[d] != 1 and own[d] is None for d in read):
            return None
        return tuple(own.get(d) if d in read else None for d in range(len(sizes)))

    def extra(self, value: ir.Value, map_: ir.AffineMap, order: list[int], sizes: Sequence[int], per_row: bool) -> Access | None:
        """Where a kernel argument is read, by the rows' loops."""
        found = placed(self.kernel, value, map_)
        if found is None:
            return None
        loops = self.rows if per_row else self.loops
        steps = regroup([(sizes[d], found.strides[d]) for d in order], [self.sizes[d] for d in loops])
        if steps is None:
            return None
        strides = [0] * len(self.sizes)
        for d, s in zip(loops, steps):
            strides[d] = s
        return Access(found.argument, found.element, tuple(strides), found.offset, found.shape)


@read_by_text
def _read(kernel: func.FuncOp, parser: type[StepParser]) -> Any:
    with kernel.context, kernel.location:
        module = isolated_copy(kernel)
        split_products(module)
        return parser(module).parse()


def walk_order(generic: ir.Operation, sizes: Sequence[int], full: Sequence[ir.AffineMap] = ()) -> list[int] | None:
    """The loops of a reduction as they lie in memory, by the first tensor that is walked by all of them; ``full`` are asked first."""
    count = input_count(generic)
    orders = (order_of(m, sizes) for m in (*full, *maps(generic)[:count]))
    return next((o for o in orders if o is not None and len(o) == sum(s != 1 for s in sizes)), None)


def order_of(map_: ir.AffineMap, sizes: Sequence[int]) -> list[int] | None:
    """The loops behind a tensor's dimensions, without those of one iteration."""
    found = []
    for expr in map_.results:
        if isinstance(expr, ir.AffineConstantExpr) and ir.AffineConstantExpr(expr).value == 0:
            continue
        if not isinstance(expr, ir.AffineDimExpr):
            return None
        found.append(ir.AffineDimExpr(expr).position)
    found = [d for d in found if sizes[d] != 1]
    return found if len(set(found)) == len(found) else None


def covered_loops(order: Sequence[int], sizes: Sequence[int], loops: Sequence[tuple[int, int]]) -> dict[int, set[int]] | None:
    """For each loop of ``order`` those of ``loops``, (number, size) each, that it goes over; None where one of them is cut."""
    known = inner_points([(size, 0) for _, size in loops])
    found: dict[int, set[int]] = {}
    for d, (points, size, _) in zip(order, inner_points([(sizes[d], 0) for d in order])):
        found[d] = {n for (n, _), (p, s, _) in zip(loops, known) if points <= p and p * s <= points * size}
    return found if sum(map(len, found.values())) == len(loops) else None


def _take_terms(generic: ir.Operation, live: Sequence[bool]) -> tuple[list[Combiner | None], list[ir.Attribute | None]] | None:
    """How each live result of a reduction is combined, and what it starts from; its body then makes the terms.  None, and nothing is changed, where one is
    combined in a way that is not known, or starts from anything but a constant."""
    body, count, into = generic.regions[0].blocks[0], input_count(generic), outputs(generic)
    combiners = [read_combiner(body, body.arguments[count + i], i) if is_live else None for i, is_live in enumerate(live)]
    starts = [filled(into[i]) if is_live else None for i, is_live in enumerate(live)]
    if any(is_live and (c is None or start is None) for is_live, c, start in zip(live, combiners, starts)):
        return None
    for i, is_live in enumerate(live):
        if is_live:
            to_term(body, body.arguments[count + i], i)
    return combiners, starts


def _forget(generic: ir.Operation, live: Sequence[bool]) -> None:
    """Let the body not compute results that nothing uses."""
    body, count = generic.regions[0].blocks[0], input_count(generic)
    end = terminator(body)
    for i, used in enumerate(live):
        if not used:
            end.operands[i] = body.arguments[count + i]
    for op in reversed([o.operation for o in body.operations]):
        if len(op.results) and is_unread(op):
            op.erase()


def regroup(loops: Sequence[tuple[int, int]], sizes: Sequence[int]) -> list[int] | None:
    """The strides of a nest with these ``sizes`` that walks like ``loops``, (size, stride) each, outermost first, over as many points; None
    where there are none."""
    given, wanted = inner_points(loops), inner_points([(s, 0) for s in sizes])
    ends = sorted({p for p, _, _ in (*given, *wanted)} | {prod(sizes)})
    if prod(s for s, _ in loops) != prod(sizes) or any(b % a for a, b in zip(ends, ends[1:])):
        return None
    found = [0] * len(sizes)
    for begin in ends[:-1]:
        stride = next(x * (begin // p) for p, s, x in given if p <= begin < p * s)
        i = next(i for i, (p, s, _) in enumerate(wanted) if p <= begin < p * s)
        inner = wanted[i][0]
        if begin == inner:
            found[i] = stride
        elif stride != found[i] * (begin // inner):
            return None
    return found


def inner_points(loops: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(points inside, size, stride) of each loop."""
    return [(prod(s for s, _ in loops[i + 1:]), size, stride) for i, (size, stride) in enumerate(loops)]
