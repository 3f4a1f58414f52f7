"""From a kernel function of structured operations, of which at least one reduces or scans rows, to a ``RowKernel``; ``row_contraction`` reads those that
begin with a contraction.  Each ``parse_*`` is one way to read it; generators say which of them they try, in turn."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from inferno.mlir import func, ir, is_read, owner, walk
from inferno.passes.generics import PARALLEL, REDUCTION, is_reduction, kinds, maps
from inferno.passes.programs import operations_in, VIEWS
from inferno.passes.shapes import is_dynamic, row_major, symbol_arguments
from inferno.schedule.analysis.accesses import Access, argument_index, destination_index, filled, Joined, loop_sizes, merge, written_results
from inferno.schedule.analysis.unchanged import asked_once
from inferno.schedule.analysis.varying_rows import read_varying
from inferno.schedule.matmul.contraction import Destination
from inferno.schedule.reductions.log_sums import in_pairs
from inferno.schedule.rows.kernel import Part, RowKernel
from inferno.schedule.rows.row_pieces import join_pieces
from inferno.schedule.rows.row_results import cut_results, first_reduction, results_to_cut
from inferno.schedule.rows.row_steps import RowStep, StepParser, covered_loops, regroup
from inferno.schedule.rows.split_extrema import split_extrema
from inferno.schedule.scans.kernel import inclusive_combiner
from inferno.symbolic import Int, bounds

_SCAN = "tm_tensor.scan"


@asked_once
def parse_row_kernel(kernel: func.FuncOp) -> RowKernel | None:
    """What ``kernel`` computes, or None if it is anything else.  Of sizes that vary up to two symbols may be in the number of rows."""
    operations = operations_in(kernel)
    scans = any(o.name == _SCAN for o in operations)
    if not scans and not any(is_reduction(o) for o in operations):
        return None
    if not symbol_arguments(kernel.operation):
        return _Parser.read(kernel)
    if has_sized_tables(kernel):
        return None  # whose strides would be those of numbers in the symbols' places
    c = read_varying(kernel, _Parser.read, most=2)
    return c if c is not None and _has_known_points(c) else None


def has_sized_tables(kernel: func.FuncOp) -> bool:
    """Whether bodies extract elements of tensors whose sizes vary."""
    return any(is_dynamic(op.operands[0]) for op in walk(kernel.operation, "tensor.extract"))


@asked_once
def parse_sized_rows(kernel: func.FuncOp) -> RowKernel | None:
    """The same of rows whose length varies, of up to four symbols, which are not scanned."""
    c = parse_varying_rows(kernel)
    return None if c is None or isinstance(c.width, int) else c


@asked_once
def parse_varying_rows(kernel: func.FuncOp) -> RowKernel | None:
    """The same of rows of which anything may vary."""
    operations = operations_in(kernel)
    reduces = any(is_reduction(o) for o in operations)
    if not reduces or not symbol_arguments(kernel.operation) or any(o.name == _SCAN for o in operations) or walk(kernel.operation, "tensor.extract"):
        return None
    c = read_varying(kernel, _WithSizes.read, most=4, bodies=True)
    return c if c is not None and c.varies and bounds(c.width)[0] > 0 else None


@asked_once
def parse_extrema(kernel: func.FuncOp) -> RowKernel | None:
    """The same where reductions may be of values and their places, as an argmax is, and one is; None where sizes vary."""
    if symbol_arguments(kernel.operation) or not any(len(o.results) > 1 for o in walk(kernel.operation, "linalg.generic")):
        return None
    c = _WithExtrema.read(kernel)
    return c if c is not None and any(s.extremum is not None for s in c.steps) else None


@asked_once
def parse_split_extrema(kernel: func.FuncOp) -> RowKernel | None:
    """The same where extrema and their places are reductions that follow each other, of operations beside which there are others; None where sizes vary."""
    generics = [o for o in walk(kernel.operation, "linalg.generic") if filled(o.results[0]) is None]
    found = len(generics) > 1 and not symbol_arguments(kernel.operation) and any(len(o.results) == 2 for o in generics)
    return _SplittingExtrema.read(kernel) if found else None


def parse_by_loops(kernel: func.FuncOp) -> RowKernel | None:
    """The same where reductions walk what they read in the order of their loops, which is another one than of memory; None where sizes vary."""
    generics = [o for o in operations_in(kernel) if o.name == "linalg.generic"]
    transposed = any(is_reduction(g) and any(m.is_permutation and m != ir.AffineMap.get_identity(m.n_dims) for m in maps(g)) for g in generics)
    return _ByLoops.read(kernel) if transposed and not symbol_arguments(kernel.operation) else None


def parse_transposing(kernel: func.FuncOp) -> RowKernel | None:
    """The same where what is given back alone lies in another order than what it is made of, in which rows are gone over then; None where sizes vary."""
    generics = [o for o in operations_in(kernel) if o.name == "linalg.generic"]
    transposed = any(not is_reduction(g) and len({m for m in maps(g) if m.is_permutation}) > 1 for g in generics)
    return _Transposing.read(kernel) if transposed and not symbol_arguments(kernel.operation) else None


@asked_once
def parse_parts(kernel: func.FuncOp) -> RowKernel | None:
    """The same where results have other points than rows: pieces that lie beside others, parts, and what is there several times; None where sizes vary."""
    return _InParts.read(kernel) if not symbol_arguments(kernel.operation) and results_to_cut(kernel) else None


def _has_known_points(c: RowKernel) -> bool:
    """Whether only rows vary: how many there are, and where they begin."""
    every = [*(a for s in c.steps for a in s.extras), *(d.access for d in c.destinations)]
    known = [c.width, *(a.strides[d] for a in every for d in c.columns)]
    return c.varies and all(isinstance(x, int) for x in known)


class _Parser(StepParser):
    with_tables = True

    def prepare(self) -> bool:
        """Rewrite what is given back, where that has to be; False where it is not understood."""
        return True

    def parse(self) -> RowKernel | None:
        others = ("linalg.generic", "linalg.fill", "arith.constant", "tensor.empty", "tensor.extract_slice", "func.return", _SCAN, *VIEWS)
        if not self.prepare():
            return None
        self.pieces = join_pieces(self.kernel)
        self.operations = operations_in(self.kernel)
        if any(o.name not in others for o in self.operations):
            return None
        structured = [o for o in self.operations if o.name == _SCAN or (o.name == "linalg.generic" and filled(o.results[0]) is None)]
        if not self.shape(structured):
            return None
        steps = []
        for op in structured:
            step = self.scan(op) if op.name == _SCAN else self.step(op)
            if step is None:
                return None
            steps.append(step)
        destinations = self.destinations()
        if not destinations:
            return None
        every = [*(a for s in steps for a in s.extras), *(d.access for d in destinations if not self.values[d.source].per_row)]
        runs = merge(self.columns, self.sizes, every)
        return RowKernel(
            tuple(self.sizes), tuple(self.rows), tuple(map(tuple, runs)), tuple(self.values), tuple(steps), destinations, self.module,
        )

    def extra(self, value: ir.Value, map_: ir.AffineMap, order: list[int], sizes: Sequence[int], per_row: bool) -> Access | None:
        if value not in self.pieces:
            return super().extra(value, map_, order, sizes, per_row)
        if per_row or order != list(range(len(sizes))) or len(self.columns) != 1 or self.columns[0] != self.loops[-1] or self.width != sizes[-1]:
            return None
        sized = [self.sizes[d] for d in self.loops]

        def by_loops(strides: Sequence[int]) -> tuple[int, ...] | None:
            steps = regroup([(sizes[d], strides[d]) for d in order], sized)
            return None if steps is None else tuple(steps)

        found = []
        for p in self.pieces[value]:
            if (steps := by_loops(p.strides)) is None:
                return None
            found.append((p.begin, Access(argument_index(self.kernel, p.table), p.table.type.element_type, steps, p.offset, tuple(p.table.type.shape))))
        steps = by_loops(row_major(sizes))
        return None if steps is None else Joined(found[0][1].argument, value.type.element_type, steps, 0, tuple(sizes), tuple(found))

    def shape(self, structured: list[ir.Operation]) -> bool:
        """Take the finest loops that all operations on points have in common."""
        nests = []
        for generic in structured:
            sizes, kinds = _loops(generic)
            if sizes is None or any(not isinstance(s, int) for s in sizes) or 0 in sizes:
                return False
            nests.append((generic, sizes, REDUCTION in [k for k, s in zip(kinds, sizes) if s != 1], kinds))
        reducing = [n for n in nests if n[2]]
        if not reducing:
            return False
        points = prod(reducing[0][1])
        ends, orders = {1, points}, []
        for generic, sizes, reduces, _ in nests:
            if prod(sizes) != points:
                continue
            if generic.name == _SCAN:
                order = [d for d, s in enumerate(sizes) if s != 1]
            else:
                order = self.order(generic, sizes) if reduces else self.point_order(generic, sizes)
            if order is None:
                return False
            orders.append(order)
            ends.update(prod(sizes[d] for d in order[i:]) for i in range(len(order)))
        inner = sorted(ends)
        if any(b % a for a, b in zip(inner, inner[1:])):
            return False
        self.sizes = [b // a for a, b in zip(inner, inner[1:])][::-1]
        self.loops = list(range(len(self.sizes)))
        _, sizes, _, kinds = reducing[0]
        order = next(o for n, o in zip((n for n in nests if prod(n[1]) == points), orders) if n is reducing[0])
        covered = covered_loops(order, sizes, list(enumerate(self.sizes)))
        if covered is None:
            return False
        self.rows = sorted(n for d in order if kinds[d] == PARALLEL for n in covered[d])
        self.columns = [n for n in self.loops if n not in self.rows]
        self.count, self.width = prod(self.sizes[n] for n in self.rows), prod(self.sizes[n] for n in self.columns)
        return True

    def scan(self, scan: ir.Operation) -> RowStep | None:
        """A scan of whole rows, in the order of memory."""
        combiner, (shape, kinds) = inclusive_combiner(scan), _loops(scan)
        if combiner is None or is_read(scan.results[1]) or prod(shape) != self.count * self.width:
            return None
        order = [d for d, s in enumerate(shape) if s != 1]
        covered = covered_loops(order, shape, [(d, self.sizes[d]) for d in self.loops])
        if covered is None or covered.get(kinds.index(REDUCTION)) != set(self.columns):
            return None
        source = self.find(scan.operands[0])
        if source is None:
            source = self.extra(scan.operands[0], ir.AffineMap.get_identity(len(shape)), order, shape, False)
            if source is None:
                return None
        phase = self.ready[source] if isinstance(source, int) else 0
        result = self.add(scan.results[0], False, phase + 1)
        combiner = in_pairs(combiner)
        if combiner.sums and combiner.narrow.width == 16:
            # Of the rows that threads hold some fifty parts follow each other, whose roundings in float32 16 bits hide: half the shuffles, and no float64.
            combiner = replace(combiner, total=combiner.type)
        return RowStep(scan, (source,), (result,), (None,), (None,), (), False, phase, combiner)

    def destinations(self) -> tuple[Destination, ...]:
        found = []
        for value, argument in written_results(self.kernel) or ():
            number = self.find(value)
            if number is None:
                return ()
            found.append(Destination(number, Access(argument, value.type.element_type, self.strides(number), 0, tuple(value.type.shape))))
        return tuple(found)

    def strides(self, number: int) -> tuple[int, ...]:
        """The strides of a value that is written as it is, by its number."""
        of_rows = dict(zip(self.rows, row_major([self.sizes[d] for d in self.rows])))
        return tuple(of_rows.get(d, 0) for d in self.loops) if self.values[number].per_row else self.transposed.get(number, tuple(row_major(self.sizes)))


def _loops(op: ir.Operation) -> tuple[tuple[Int, ...] | None, list[str]]:
    """Sizes and kinds of an operation's loops: a scan goes along one, as a reduction does."""
    if op.name != _SCAN:
        return loop_sizes(op), kinds(op)
    shape, along = op.operands[0].type.shape, ir.IntegerAttr(op.attributes["dimension"]).value
    return tuple(shape), [REDUCTION if d == along else PARALLEL for d in range(len(shape))]


class _WithSizes(_Parser):
    with_sizes = True


class _WithExtrema(_Parser):
    with_extrema = True


class _SplittingExtrema(_Parser):
    def prepare(self) -> bool:
        return split_extrema(self.module)

    def parse(self) -> RowKernel | None:
        c = super().parse()
        return None if c is None else replace(c, once=True)


class _InParts(_Parser):
    """Of each value that is returned ``returned`` says the kernel's argument, the result's type, and which part of the result it is; None for all."""

    def prepare(self) -> bool:
        """Return a value for each part of a result in the place of the result."""
        reducing = first_reduction(self.kernel)
        sizes = loop_sizes(reducing)
        order = self.order(reducing, sizes)
        if order is None:
            return False
        self.nest, end, first = [sizes[d] for d in order], self.operations[-1], len(self.kernel.type.inputs) - len(self.kernel.type.results)
        cut = cut_results(self.kernel, self.nest)
        if not cut or any(destination_index(self.kernel, v) != first + i for i, v in enumerate(end.operands)):
            return False
        each = [(first + i, v, part) for i, v in enumerate(end.operands) for part in cut.get(v, [None])]
        self.returned = [(argument, v.type, part) for argument, v, part in each]
        with ir.InsertionPoint(end), end.location:
            func.ReturnOp([v if part is None else part.value for _, v, part in each])
        end.erase()
        for value in cut:
            owner(value).erase()
        return True

    def destinations(self) -> tuple[Destination, ...]:
        found = []
        for (argument, type_, part), value in zip(self.returned, self.operations[-1].operands):
            if (number := self.find(value)) is None:
                return ()
            if part is None:
                found.append(Destination(number, Access(argument, type_.element_type, self.strides(number), 0, tuple(type_.shape))))
                continue
            strides, inside = regroup(list(zip(self.nest, part.strides)), self.sizes), self.inside(part.inside)
            if strides is None or inside is None:
                return ()
            found.append(Part(number, Access(argument, type_.element_type, tuple(strides), part.offset, tuple(type_.shape)), inside))
        return tuple(found)

    def inside(self, places: Mapping[int, tuple[int, int]]) -> tuple[tuple[int, int, int], ...] | None:
        """The same by the rows' loops; None where one of them is cut."""
        order = list(range(len(self.nest)))
        covered = covered_loops(order, self.nest, [(d, self.sizes[d]) for d in self.loops])
        loops = {n: covered[n] for n in places} if covered is not None else {}
        if any(len(loops.get(n, ())) != 1 for n in places):
            return None
        return tuple((*loops[n], *ends) for n, ends in places.items())


class _ByLoops(_Parser):
    by_loops = True


class _Transposing(_Parser):
    transposing = True
