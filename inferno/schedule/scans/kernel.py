"""What a kernel computes that goes along one dimension and keeps a running value, with maps of the same points in front and behind.

``parse_scan_kernel`` reads a kernel function of one ``tm_tensor.scan`` and structured operations that read and make whole tensors of its points.
"""

from dataclasses import dataclass, field, replace
from math import prod

from inferno.element_sizes import element_bytes
from inferno.mlir import func, ir, is_read, users, walk
from inferno.passes.generics import input_count, is_copy, is_reduction, maps, outputs
from inferno.passes.programs import VIEWS, operations_in, root_of
from inferno.passes.shapes import row_major, symbol_arguments
from inferno.schedule.analysis.accesses import Access, filled, loop_sizes, merge, placed, written_results
from inferno.schedule.analysis.combiners import BodyCombiner, Combiner, scan_combiner, term_of
from inferno.schedule.analysis.varying_rows import read_varying
from inferno.schedule.matmul.contraction import Destination
from inferno.schedule.rows.row_steps import RowStep, RowValue, StepParser, covered_loops, order_of
from inferno.schedule.scans.flips import mirrored, take_flips
from inferno.symbolic import Int


@dataclass(frozen=True)
class ScanKernel:
    """A nest of loops of ``sizes``, in the order of memory, of which those from ``begin`` to before ``end`` are the scan's dimension.

    The scan takes ``source``, what is read of an argument or the number of a value, and gives the value ``result``.  ``before`` and ``after`` are
    maps that make other values.  What is flipped is read and written from the end, by negative strides.
    """

    sizes: tuple[Int, ...]
    begin: int
    end: int
    combiner: Combiner
    source: Access | int
    result: int
    values: tuple[RowValue, ...]
    before: tuple[RowStep, ...]
    after: tuple[RowStep, ...]
    destinations: tuple[Destination, ...]
    kernel: ir.Module = field(repr=False)  # a copy of all of it, which the steps' operations are in

    @property
    def outer(self) -> Int:
        return prod(self.sizes[:self.begin])

    @property
    def length(self) -> Int:
        return prod(self.sizes[self.begin:self.end])

    @property
    def inner(self) -> Int:
        return prod(self.sizes[self.end:])

    @property
    def along(self) -> bool:
        """Whether neighbours in memory belong to one row."""
        return self.inner == 1

    @property
    def neighbours(self) -> Int:
        """Places next to each other: of a row along memory, of as many rows across it."""
        return 1 if self.along and self.begin == self.end else self.sizes[-1]

    @property
    def bytes(self) -> int:
        """Of an element that is scanned."""
        return element_bytes(self.combiner.narrow)

    @property
    def steps(self) -> tuple[RowStep, ...]:
        return self.before + self.after

    @property
    def reads(self) -> tuple[Access, ...]:
        """What is read of a point in order to scan it."""
        return (self.source,) if isinstance(self.source, Access) else tuple(dict.fromkeys(a for s in self.before for a in s.extras))

    @property
    def gathering(self) -> tuple[RowStep, ...]:
        """Maps that read tensors at places that they compute."""
        return tuple(s for s in self.steps if walk(s.generic, "tensor.extract"))

    @property
    def ahead(self) -> tuple[Access | int, ...]:
        """What is asked for of a tile ahead: what is read, or what is made of what is gathered."""
        return (self.source,) if isinstance(self.source, int) and self.gathering else self.reads

    @property
    def all_reads(self) -> tuple[Access, ...]:
        return tuple(dict.fromkeys((*self.reads, *(a for s in self.after for a in s.extras))))

    @property
    def accesses(self) -> tuple[Access, ...]:
        return tuple(dict.fromkeys((*self.all_reads, *(d.access for d in self.destinations))))


def parse_scan_kernel(kernel: func.FuncOp) -> ScanKernel | None:
    """What ``kernel`` computes, or None if it is anything else, has sizes that vary, or one whose running value is no known combination."""
    if sum(o.operation.name == "tm_tensor.scan" for o in kernel.entry_block.operations) != 1:
        return None
    return _Parser.read(kernel)


def parse_sized_scan(kernel: func.FuncOp) -> ScanKernel | None:
    """The same of up to four symbols anywhere in the sizes; maps that gather ask for known ones."""
    c = read_varying(kernel, parse_scan_kernel, most=4) if symbol_arguments(kernel.operation) else None
    return c if c is not None and not c.gathering else None


class _Parser(StepParser):
    with_tables = True

    def parse(self) -> ScanKernel | None:
        others = ("linalg.generic", "linalg.fill", "arith.constant", "tensor.empty", "tensor.extract_slice", "func.return", "tm_tensor.scan", *VIEWS)
        if any(o.name not in others for o in self.operations):
            return None
        scan = next(o for o in self.operations if o.name == "tm_tensor.scan")
        turned = take_flips([o for o in self.operations if o.name == "linalg.generic" and filled(o.results[0]) is None], scan)
        if turned is None:
            return None
        self.operations = operations_in(self.kernel)
        combiner, shape, dim = inclusive_combiner(scan), list(scan.operands[0].type.shape), ir.IntegerAttr(scan.attributes["dimension"]).value
        generics = [o for o in self.operations if o.name == "linalg.generic" and filled(o.results[0]) is None]
        if combiner is None or is_read(scan.results[1]) or not self.shape(generics, shape, dim):
            return None
        covered = covered_loops([d for d, n in enumerate(shape) if n != 1], shape, list(enumerate(self.sizes))) or {}
        self.turned = {v: frozenset().union(*(covered.get(d, ()) for d in along)) for v, along in turned.items()}
        steps, result, source = [], -1, None
        for op in self.operations:
            if op == scan:
                source = self.find(scan.operands[0])
                if source is None:
                    source = self.whole(scan.operands[0])
                    if source is None:
                        return None
                if steps and source == steps[-1].results[0] and is_copy(steps[-1].generic) and len(list(users(scan.operands[0]))) == 1:
                    source = steps.pop().sources[0]  # what is read from the end
                before, steps = steps, []
                result = self.add(scan.results[0], False, 0)
            elif op in generics:
                step = self.step(op)
                if step is None or step.per_row:
                    return None
                along = self.turned[op.results[0]]
                steps.append(replace(step, sources=tuple(mirrored(x, along, self.sizes) if isinstance(x, Access) else x for x in step.sources)))
        destinations = self.destinations()
        if not destinations:
            return None
        lo = prod(shape[dim + 1:])
        inside = [prod(self.sizes[d + 1:]) for d in self.loops]
        begin, end = sum(p >= lo * shape[dim] for p in inside), sum(p >= lo for p in inside)
        c = ScanKernel(
            tuple(self.sizes), begin, end, combiner, source, result, tuple(self.values), tuple(before), tuple(steps), destinations, self.module,
        )
        return _merged(c)

    def shape(self, generics: list[ir.Operation], shape: list[int], dim: int) -> bool:
        """Take the finest loops that the scan and the maps have in common."""
        points = prod(shape)
        ends = {1, points, prod(shape[dim:]), prod(shape[dim + 1:])}
        for generic in generics:
            sizes = loop_sizes(generic)
            if sizes is None or is_reduction(generic) or prod(sizes) != points:
                return False
            order = order_of(maps(generic)[input_count(generic)], sizes)
            if order is None:
                return False
            ends.update(prod(sizes[d] for d in order[i:]) for i in range(len(order)))
        inner = sorted(ends)
        if points == 0 or any(b % a for a, b in zip(inner, inner[1:])):
            return False
        self.sizes = [b // a for a, b in zip(inner, inner[1:])][::-1]
        self.loops = self.columns = list(range(len(self.sizes)))
        self.rows, self.count, self.width = [], 1, points
        return True

    def whole(self, value: ir.Value) -> Access | None:
        """An argument that is read element by element."""
        shape = list(value.type.shape)
        found = placed(self.kernel, value, ir.AffineMap.get_identity(len(shape)))
        flat = found is not None and found.offset == 0 and all(s == w or n == 1 for s, w, n in zip(found.strides, row_major(shape), shape))
        return Access(found.argument, found.element, tuple(row_major(self.sizes)), 0, found.shape) if flat else None

    def destinations(self) -> tuple[Destination, ...]:
        found = []
        for value, argument in written_results(self.kernel) or ():
            number = self.find(value)
            if number is None:
                return ()
            at = Access(argument, value.type.element_type, tuple(row_major(self.sizes)), 0, tuple(value.type.shape))
            found.append(Destination(number, mirrored(at, self.turned[root_of(value)], self.sizes)))
        return tuple(found)


def inclusive_combiner(scan: ir.Operation) -> Combiner | None:
    """How the elements of an inclusive scan are combined, where they may be in any order."""
    if "inclusive" not in scan.attributes or not ir.BoolAttr(scan.attributes["inclusive"]).value:
        return None
    combiner, element = scan_combiner(scan), scan.operands[0].type.element_type
    if combiner is None or str(element) == "i1" or combiner.narrow != element or outputs(scan)[0].type != scan.operands[0].type:
        return None
    body = scan.regions[0].blocks[0]
    if isinstance(combiner, BodyCombiner):
        return combiner
    term = term_of(body, body.arguments[0])
    while term is not None and not isinstance(term, ir.BlockArgument) and term.owner.operation.name == "arith.extf":
        term = term.owner.operation.operands[0]
    return combiner if term == body.arguments[1] else None


def _merged(c: ScanKernel) -> ScanKernel:
    """With loops made one where every tensor walks them with one stride, and no body reads their numbers."""
    numbered = {d for s in c.steps for d in s.indices if d is not None}
    alone = [Access(0, c.combiner.narrow, tuple(int(d == n) for d in range(len(c.sizes)))) for n in numbered]
    parts = [merge(range(a, b), c.sizes, [*c.accesses, *alone]) for a, b in ((0, c.begin), (c.begin, c.end), (c.end, len(c.sizes)))]
    runs = [run for part in parts for run in part]
    place = {d: i for i, run in enumerate(runs) for d in run}

    def moved(x: Access | int | None) -> Access | int | None:
        return replace(x, strides=tuple(x.strides[run[-1]] for run in runs)) if isinstance(x, Access) else x

    def step(s: RowStep) -> RowStep:
        return replace(s, sources=tuple(map(moved, s.sources)), indices=tuple(None if d is None else place[d] for d in s.indices))

    return replace(
        c, sizes=tuple(prod(c.sizes[d] for d in run) for run in runs), begin=len(parts[0]), end=len(parts[0]) + len(parts[1]), source=moved(c.source),
        before=tuple(map(step, c.before)), after=tuple(map(step, c.after)), destinations=tuple(replace(d, access=moved(d.access)) for d in c.destinations),
    )
