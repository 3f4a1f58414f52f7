"""Rows that are added to others, of which each gets few.

Three kernels: one that empties the lists, one that puts each update in front of the list of the row that it goes to, and one that walks over the rows.  In
which order a row's updates are added is another in every run.
"""

from dataclasses import dataclass

from inferno.codegen.elements import as_vector, join, lanes_of, load_vector, splat, store_vector
from inferno.codegen.elementwise import Emitter
from inferno.codegen.expand_math import expand_math
from inferno.codegen.flat_elements import Reader
from inferno.codegen.float8 import round_by_instruction
from inferno.codegen.gpu_function import Buffer, gpu_function, parameters_of
from inferno.codegen.integers import Integer, Integers
from inferno.codegen.launcher import launch, launcher, parameter, pointer, temporary
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, memref, scf
from inferno.schedule.added_rows import AddedRows, parse_added_rows
from inferno.schedule.elementwise import Elementwise
from inferno.schedule.row_lists import RowLists
from inferno.target import Target

_NONE = -1  # behind a list's last update
_EXCHANGE = 3  # MLIR's number of the atomic operation


def generate(kernel: func.FuncOp, schedule: RowLists, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that adds rows to others, and make ``kernel`` its launcher."""
    c, name = parse_added_rows(kernel), kernel.name.value
    if c is None or c.columns % schedule.lanes or schedule.lists not in (1, 2, 4, 8):
        raise CompileError(f"@{name} adds no rows to others by {schedule}")
    expand_math(c.updates.generic)
    round_by_instruction(c.updates.generic, target)
    i32 = ir.IntegerType.get_signless(32)
    own = parameters_of(kernel, {c.target})
    ints = Integers(32 if max(c.count * c.columns, *(b.count for b in own)) < 2**31 else 64)
    heads = c.rows * schedule.lists
    threads = [heads, c.count, c.rows * (c.columns // schedule.lanes)]
    for number, (emit, written) in enumerate(((_Emitter.empty, True), (_Emitter.put, True), (_Emitter.add, False))):
        buffers = [*own, *(Buffer(i32, n, not written) for n in (heads, c.count))]
        with gpu_function(kernel, buffers, schedule.threads, suffix=f"_{number}" if number else "") as function:
            index = ir.IndexType.get()
            thread = ints.narrow(gpu.ThreadIdOp(gpu.Dimension.x, upper_bound=schedule.threads, results=[index]).result)
            block = ints.narrow(gpu.BlockIdOp(gpu.Dimension.x, results=[index]).result)
            mine = ints.add(ints.mul(block, schedule.threads), thread)
            inside = scf.IfOp(ints.less(mine, threads[number]))
            with ir.InsertionPoint(inside.then_block):
                emit(_Emitter(c, schedule, ints, function.buffers), mine)
                scf.yield_([])
    with launcher(kernel) as arguments:
        lists = [temporary([n], i32) for n in (heads, c.count)]
        parameters = [*(parameter(a) for a in arguments), *map(pointer, lists)]
        for number, count in enumerate(threads):
            grid = (-(-count // schedule.threads), 1, 1)
            launch(f"{name}_gpu", name + (f"_{number}" if number else ""), parameters, grid, (schedule.threads, 1, 1))


@dataclass
class _Emitter:
    """``buffers``: the kernel's arguments, the first update of each list of a row, and the one behind each update."""

    c: AddedRows
    schedule: RowLists
    ints: Integers
    buffers: list[ir.Value]

    def empty(self, number: Integer) -> None:
        memref.store(_number(_NONE), self.buffers[-2], [self.ints.index(number)])

    def put(self, update: Integer) -> None:
        ints = self.ints
        (place,) = Reader(ints, self.buffers).read(self.c.places, update)
        # In the place's own width: one far outside could be one inside in another.
        inside = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, place, arith.constant(place.type, self.c.rows)))
        with ir.InsertionPoint(inside.then_block):
            kind, index = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _EXCHANGE), ir.IndexType.get()
            own = ints.value(update)
            own = own if ints.width == 32 else arith.trunci(ir.IntegerType.get_signless(32), own)
            lists = self.schedule.lists
            head = arith.muli(arith.index_cast(index, place), arith.constant(index, lists))
            head = arith.addi(head, ints.index(ints.rem(update, lists)))
            before = memref.AtomicRMWOp(kind, own, self.buffers[-2], [head]).result
            memref.store(before, self.buffers[-1], [ints.index(update)])
            scf.yield_([])

    def add(self, point: Integer) -> None:
        """Add up a thread's elements of a row."""
        c, ints, lanes = self.c, self.ints, self.schedule.lanes
        row, part = ints.split(point, [c.rows, c.columns // lanes])
        column = ints.mul(part, lanes)
        at = ints.add(ints.mul(row, c.columns), column)
        first = self.heads(row)
        if not isinstance(c.start, int):
            self.sum(first, at, column)
            return
        # Where the result is in the place of what it begins as, other rows are there already; elsewhere both are read at once.
        source, target = (memref.ExtractAlignedPointerAsIndexOp(self.buffers[n]).result for n in (c.start, c.target))
        elsewhere = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ne, source, target), has_else=True)
        with ir.InsertionPoint(elsewhere.then_block):
            self.sum(first, at, column)
            scf.yield_([])
        with ir.InsertionPoint(elsewhere.else_block):
            some = scf.IfOp(_is_any(first))
            with ir.InsertionPoint(some.then_block):
                self.sum(first, at, column)
                scf.yield_([])
            scf.yield_([])

    def heads(self, row: Integer) -> list[ir.Value]:
        """The first update of each of a row's lists."""
        ints, lists = self.ints, self.schedule.lists
        i32, begin = ir.IntegerType.get_signless(32), ints.mul(row, lists)
        if lists == 1:
            return [memref.load(self.buffers[-2], [ints.index(begin)])]
        return lanes_of(load_vector(ints, self.buffers[-2], begin, i32, lists, lists))

    def sum(self, first: list[ir.Value], at: Integer, column: Integer) -> None:
        """Add the updates of lists to the elements from ``at`` on, which are a row's from ``column`` on."""
        c, ints, lanes, lists = self.c, self.ints, self.schedule.lanes, self.schedule.lists
        sums = [c.combiner.widen(x) for x in self.begin(at)]
        types = [x.type for x in (*first, *sums)]
        loop, locations = scf.WhileOp(types, [*first, *sums]), [ir.Location.current] * len(types)
        before, after = (r.blocks.append(*types, arg_locs=locations) for r in (loop.before, loop.after))
        with ir.InsertionPoint(before):
            scf.condition(_is_any(list(before.arguments)[:lists]), list(before.arguments))
        with ir.InsertionPoint(after):
            updates, running = list(after.arguments)[:lists], list(after.arguments)[lists:]
            there = [_is_any([u]) for u in updates]
            least = updates[0]  # one that there is: as a number without a sign, none is the largest
            for u in updates[1:]:
                least = arith.minui(least, u)
            numbers = [u if lists == 1 else arith.select(t, u, least) for t, u in zip(there, updates)]
            numbers = [n if ints.width == 32 else arith.extui(ints.type, n) for n in numbers]
            following = [memref.load(self.buffers[-1], [ints.index(n)]) for n in numbers]
            terms = [self.terms(ints.add(ints.mul(n, c.columns), column)) for n in numbers]
            for t, row in zip(there, terms):
                added = [c.combiner.combine(a, c.combiner.widen(b)) for a, b in zip(running, row)]
                running = added if lists == 1 else [arith.select(t, a, r) for a, r in zip(added, running)]
            following = following if lists == 1 else [arith.select(t, f, u) for t, f, u in zip(there, following, updates)]
            scf.yield_([*following, *running])
        result = join([c.combiner.round(x) for x in list(loop.results)[lists:]])
        store_vector(ints, result, self.buffers[c.target], at, lanes)

    def terms(self, at: Integer) -> list[ir.Value]:
        """The elements from ``at`` on of what is added."""
        lanes = self.schedule.lanes
        (found,) = Emitter(self.c.updates, Elementwise(self.schedule.threads, lanes), self.ints, self.buffers).compute(at, lanes)
        return lanes_of(as_vector(found, lanes))

    def begin(self, at: Integer) -> list[ir.Value]:
        """What elements of the result begin as."""
        c, lanes = self.c, self.schedule.lanes
        if isinstance(c.start, int):
            return lanes_of(load_vector(self.ints, self.buffers[c.start], at, c.element, lanes, lanes))
        return [splat(c.element, c.start.value)] * lanes


def _number(number: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(32), number)


def _is_any(updates: list[ir.Value]) -> ir.Value:
    """Whether any of these is an update: all bits of none are set."""
    both = updates[0]
    for u in updates[1:]:
        both = arith.andi(both, u)
    return arith.cmpi(arith.CmpIPredicate.ne, both, _number(_NONE))
