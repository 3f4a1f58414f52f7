"""What a kernel computes that goes over the rows of tensors: maps, and reductions and scans of whole rows, one after the other, all of the same rows.

``parse_row_kernel`` reads a kernel function of structured operations of which at least one reduces or scans; ``row_contraction`` reads those that
begin with a contraction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from inferno.mlir import func, ir, is_read, owner, walk
from inferno.passes.programs import VIEWS
from inferno.passes.shapes import is_dynamic, row_major, symbol_arguments
from inferno.schedule.analysis.accesses import Access, Joined, argument_index, destination_index, filled, iterators, loop_sizes, maps, merge
from inferno.schedule.analysis.unchanged import asked_once
from inferno.schedule.analysis.varying_rows import read_varying
from inferno.schedule.matmul.contraction import Destination
from inferno.schedule.reductions.log_sums import in_pairs
from inferno.schedule.rows.row_pieces import join_pieces
from inferno.schedule.rows.row_results import cut_results, first_reduction, results_to_cut
from inferno.schedule.rows.row_steps import RowStep, RowValue, StepParser, covered_loops, regroup
from inferno.schedule.rows.split_extrema import split_extrema
from inferno.schedule.scans.kernel import inclusive_combiner
from inferno.symbolic import Int, bounds, hint, product

_SCAN = "tm_tensor.scan"


@dataclass(frozen=True)
class Part(Destination):
    """One that has only those points of rows whose loops, by their numbers, are at places from one up to another.  ``access`` is as if it had all."""

    inside: tuple[tuple[int, int, int], ...] = ()

    def share(self, sizes: Sequence[Int]) -> float:
        """Of the points of loops of these sizes, those that it has."""
        return prod((end - begin) / sizes[d] for d, begin, end in self.inside)


@dataclass(frozen=True)
class RowKernel:
    """A nest of loops of ``sizes``, in the order of memory, of which ``rows`` are those of rows.  A destination's ``source`` is the number of a
    value.  The sizes of rows may vary, and how far apart rows are; of what ``parse_sized_rows`` reads their length, too.

    Every loop has more than one iteration, as far as that is known.  ``runs`` are the loops of columns, merged where every tensor walks them with one stride.
    So many neighbouring rows as ``together`` says share their reductions.  ``once``: each value is computed once, for it is compared with what it came to.
    """

    sizes: tuple[Int, ...]
    rows: tuple[int, ...]
    runs: tuple[tuple[int, ...], ...]
    values: tuple[RowValue, ...]
    steps: tuple[RowStep, ...]
    destinations: tuple[Destination, ...]
    kernel: ir.Module = field(repr=False)  # a copy of all of it, which the steps' operations are in
    together: int = 1
    once: bool = False

    @property
    def count(self) -> Int:
        """Rows."""
        return product(self.sizes[d] for d in self.rows)

    @property
    def varies(self) -> bool:
        """Whether the number of rows does, or their length."""
        return not isinstance(self.count * self.width, int)

    def in_example(self) -> "RowKernel":
        """The same of the example's sizes: for costs, never for what has to be right."""
        return self.of_sizes(hint)

    def of_sizes(self, size: Callable[[Int], int]) -> "RowKernel":
        """The same of sizes that are known."""
        if not self.varies:
            return self

        def known(a: Access) -> Access:
            return replace(a, strides=tuple(map(size, a.strides)), offset=size(a.offset), shape=tuple(map(size, a.shape)))

        steps = tuple(replace(s, sources=tuple(known(x) if isinstance(x, Access) else x for x in s.sources)) for s in self.steps)
        destinations = tuple(replace(d, access=known(d.access)) for d in self.destinations)
        return replace(self, sizes=tuple(max(1, size(s)) for s in self.sizes), steps=steps, destinations=destinations)

    @property
    def width(self) -> Int:
        """Points of a row."""
        return product(self.sizes[d] for d in self.columns)

    @property
    def columns(self) -> tuple[int, ...]:
        """The loops of a row's points."""
        return tuple(d for d in range(len(self.sizes)) if d not in self.rows)

    @property
    def run_sizes(self) -> tuple[Int, ...]:
        return tuple(product(self.sizes[d] for d in run) for run in self.runs)

    @property
    def phases(self) -> int:
        """How many reductions and scans follow each other, and what is behind the last one."""
        return max(s.phase + s.meets for s in self.steps) + 1

    @property
    def scans(self) -> tuple[RowStep, ...]:
        return tuple(s for s in self.steps if s.scans is not None)

    def maker(self, value: int) -> RowStep:
        return next(s for s in self.steps if value in s.results)

    def computed(self, value: int) -> int:
        """The phase in which a value becomes known."""
        step = self.maker(value)
        return step.phase + step.meets

    def wide(self, access: Access) -> bool:
        """Whether an access differs between the points of a row."""
        return any(access.strides[d] for d in self.columns)

    def flat(self, access: Access) -> bool:
        """Whether a row's points are neighbours."""
        wanted: Int = 1
        for run, size in zip(reversed(self.runs), reversed(self.run_sizes)):
            if access.strides[run[-1]] != wanted:
                return False
            wanted = wanted * size
        return True

    def needed(self, phase: int) -> tuple[set[Access], set[int]]:
        """What a phase takes of each point if every phase computes anew what it needs: what it reads, and the values."""
        values = {d.source for d in self.destinations if not self.values[d.source].per_row and self.computed(d.source) == phase}
        values |= {v for s in self.steps if s.meets and s.phase == phase for v in s.results if v is not None}
        pending, seen, reads = list(values), set(), set()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            step = self.maker(value)
            if step.per_row or (step.reduces and step.phase != phase):
                continue
            reads.update(a for a in step.extras if self.wide(a))
            pending += [n for n in step.sources if isinstance(n, int) and not self.values[n].per_row]
        return reads, seen

    def repeated(self) -> list[Access]:
        """What several phases read of each point.  Booleans, which are few, and what neighbours share are read again."""
        each = [self.needed(p)[0] for p in range(self.phases)]
        accesses = dict.fromkeys(a for step in self.steps for a in step.extras if self.wide(a))
        own = [a for a in accesses if a.element.width >= 8 and a.strides[self.runs[-1][-1]] != 0]
        return [a for a in own if sum(a in reads for reads in each) > 1]

    def common(self) -> list[Access]:
        """What is read of each point but once, and is the same for all rows, as weights are."""
        accesses, repeated = dict.fromkeys(a for step in self.steps for a in step.extras if self.wide(a)), self.repeated()
        own = [a for a in accesses if a not in repeated and not any(a.strides[d] != 0 for d in self.rows)]
        return [a for a in own if a.element.width >= 8 and a.strides[self.runs[-1][-1]] != 0]

    @property
    def joined(self) -> list[Joined]:
        """Concatenations that are read in place."""
        return [a for a in dict.fromkeys(a for step in self.steps for a in step.extras) if isinstance(a, Joined)]

    @property
    def choosing(self) -> list[RowStep]:
        """The steps that choose what they read by where a point lies: other concatenations, padded tensors, shifts."""
        return [s for s in self.steps if s.chooses]

    @property
    def parts(self) -> list[Part]:
        """Parts of results: of a concatenation, or of what rows have."""
        return [d for d in self.destinations if isinstance(d, Part)]

    @property
    def in_pieces(self) -> bool:
        """Whether pieces of concatenations are read in place."""
        return bool(self.joined or self.choosing)

    @property
    def scanned_bits(self) -> int:
        """Bits a vector that scans take besides: what is in front of it."""
        return sum(s.scans.total.width for s in self.scans)

    def held_bits(self) -> int:
        """Bits a point that lie in registers from one phase to the next, where they are most: of what is read and computed once."""
        first: dict[Access | int, int] = {}
        last: dict[Access | int, int] = {}
        for step in self.steps:
            if step.per_row:
                continue
            points = [
                n for n in step.sources if n is not None and (self.wide(n) if isinstance(n, Access) else not self.values[n].per_row)
            ]
            for n in points:
                first.setdefault(n, step.phase if isinstance(n, Access) else self.computed(n))
                last[n] = max(last.get(n, 0), step.phase)
            if step.scans is not None:  # which is computed of it once more
                last[points[0]] = max(last[points[0]], step.phase + 1)
        width = {n: (n.element if isinstance(n, Access) else self.values[n].element).width for n in first}
        # (Of 16 bits, and less, it stays as it is, see ``codegen/rows/row_scans.py``; of more its running values in a vector may be what stays.)
        width |= {n: max(width[n], s.scans.type.width) for s in self.scans for n in s.sources if width[n] > 16}
        return max((sum(max(8, width[n]) for n in first if first[n] < p <= last[n]) for p in range(1, self.phases)), default=0)


@asked_once
def parse_row_kernel(kernel: func.FuncOp) -> RowKernel | None:
    """What ``kernel`` computes, or None if it is anything else.  Of sizes that vary up to two symbols may be in the number of rows."""
    operations = [o.operation for o in kernel.entry_block.operations]
    scans = any(o.name == _SCAN for o in operations)
    if not scans and not any(o.name == "linalg.generic" and "reduction" in iterators(o) for o in operations):
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
    operations = [o.operation for o in kernel.entry_block.operations]
    reduces = any(o.name == "linalg.generic" and "reduction" in iterators(o) for o in operations)
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
    generics = [o.operation for o in kernel.entry_block.operations if o.operation.name == "linalg.generic"]
    transposed = any("reduction" in iterators(g) and any(m.is_permutation and m != ir.AffineMap.get_identity(m.n_dims) for m in maps(g)) for g in generics)
    return _ByLoops.read(kernel) if transposed and not symbol_arguments(kernel.operation) else None


def parse_turning(kernel: func.FuncOp) -> RowKernel | None:
    """The same where what is given back alone lies in another order than what it is made of, in which rows are gone over then; None where sizes vary."""
    generics = [o.operation for o in kernel.entry_block.operations if o.operation.name == "linalg.generic"]
    transposed = any("reduction" not in iterators(g) and len({m for m in maps(g) if m.is_permutation}) > 1 for g in generics)
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
        self.operations = [o.operation for o in self.kernel.entry_block.operations]
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
            nests.append((generic, sizes, "reduction" in [k for k, s in zip(kinds, sizes) if s != 1], kinds))
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
        self.rows = sorted(n for d in order if kinds[d] == "parallel" for n in covered[d])
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
        if covered is None or covered.get(kinds.index("reduction")) != set(self.columns):
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
        returned, arguments = list(self.operations[-1].operands), len(self.kernel.type.inputs)
        found = []
        for i, value in enumerate(returned):
            argument, number = arguments - len(returned) + i, self.find(value)
            if number is None or destination_index(self.kernel, value) != argument:
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
        return loop_sizes(op), iterators(op)
    shape, along = op.operands[0].type.shape, ir.IntegerAttr(op.attributes["dimension"]).value
    return tuple(shape), ["reduction" if d == along else "parallel" for d in range(len(shape))]


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
        """The same by the rows' loops; None where one of them is cut, or is one of several of a row's points."""
        order = list(range(len(self.nest)))
        covered = covered_loops(order, self.nest, [(d, self.sizes[d]) for d in self.loops])
        loops = {n: covered[n] for n in places} if covered is not None else {}
        if any(len(loops.get(n, ())) != 1 or (loops[n] <= set(self.columns) and len(self.columns) != 1) for n in places):
            return None
        return tuple((*loops[n], *ends) for n, ends in places.items())


class _ByLoops(_Parser):
    by_loops = True


class _Transposing(_Parser):
    transposing = True
