"""``tm_tensor.scatter``: ``n`` updates, each a window of elements, into places that a table of indices tells.

Where indices are unique every updated element has a thread.  Where they may repeat and updates add up, or the largest or the
smallest stays, so it has, and the memory combines them; of floats the order then is another in every run.  Other updates of one
element must be made in order: either one thread goes over all updates for each element of a window, or one for each
element of the destination that looks for updates of it, whichever is estimated to be faster.

Where updates are whole runs of neighbours, a thread moves 16 bytes of one; sums of float32 by one instruction, from sm_90 on.

An update whose place is outside of the destination is left out: nothing is written beyond it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.device_function import DeviceFunction
from inferno.codegen.builders.elements import lanes_of, load_vector, store_vector
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.element_sizes import element_bytes
from inferno.mlir import arith, ir, llvm, memref, outside_values, owner, scf, terminator, vector
from inferno.passes.shapes import known_shape, row_major
from inferno.schedule.analysis.combiners import Combiner, read_combiner
from inferno.symbolic import Int, ceildiv, hint, product

_THREADS = 256  # of a block
# A step of a lone chain of dependent updates waits for memory; one of a search hits the cache, but is taken by each element
# of the destination, of which the machine handles this many at a time.
_UPDATE_NS, _SEARCH_NS, _RESIDENT = 500, 20, 132 * 2048
# So few updates are made in order at once: as fast, and the same run after run.
_FEW = 64

# What the memory can combine, by the operation: MLIR's number of the atomic operation, and the types that it is for.
_ATOMIC = {
    "arith.addf": (0, ("f32", "f64")), "arith.addi": (1, ("i32", "i64")), "arith.maxsi": (6, ("i32", "i64")),
    "arith.maxui": (7, ("i32", "i64")), "arith.minsi": (10, ("i32", "i64")), "arith.minui": (11, ("i32", "i64")),
}


@dataclass(frozen=True)
class Scatter:
    """``dims``: the destination's dimension that each column of the table moves along; ``window``: the sizes of an update in each
    dimension of the destination (1 where it has none) and the update's own dimension for it."""

    operation: ir.Operation
    count: Int
    dims: tuple[int, ...]
    window: tuple[Int, ...]
    update_dims: tuple[int | None, ...]
    shape: tuple[Int, ...]
    unique: bool
    combiner: Combiner | None
    adds_vectors: bool = False  # whether the machine adds several floats to memory by one instruction
    value: ir.Value | None = None  # the host function's that all updates are, if they are in no memory
    places: ir.Operation | None = None  # the host function's map that the table of indices, of one column, is the result of, if it is in no memory

    @property
    def atomic(self) -> int | None:
        """The kind of atomic operation that makes the updates, if they are many and there is one."""
        if self.unique or self.combiner is None or hint(self.count) <= _FEW:
            return None
        kind, types = _ATOMIC.get(self.combiner.name, (None, ()))
        return kind if str(self.combiner.narrow) in types else None

    @property
    def searching(self) -> bool:
        return not self.unique and self.atomic is None and _SEARCH_NS * max(1, hint(product(self.shape)) / _RESIDENT) < _UPDATE_NS

    @property
    def lanes(self) -> int:
        """Neighbours that one thread updates."""
        last, element = len(self.shape) - 1, ir.MemRefType(self.operation.operands[0].type).element_type
        sizes = (self.window[last], self.shape[last]) if self.shape and str(element) != "i1" else ()  # no vectors of booleans are bytes
        if not sizes or self.update_dims[last] is None or last in self.dims or not all(isinstance(n, int) for n in sizes):
            return 1
        if any(flat_parameter(self.operation.operands[i]) is None for i in (0, 2)):
            return 1
        body = self.operation.regions[0].blocks[0]
        if not (_moves(body) if self.unique else self.adds_vectors and self.atomic == 0 and str(element) in ("f32", "f16", "bf16") and _adds(body)):
            return 1
        widest = max(element_bytes(ir.MemRefType(self.operation.operands[i].type).element_type) for i in (0, 2))
        return gcd(16 // widest, *sizes)

    @property
    def points(self) -> Int:
        """Threads that have something to do."""
        if self.searching:
            return product(self.shape)
        return product(self.window) // self.lanes * (self.count if self.unique or self.atomic is not None else 1)

    @property
    def launch(self) -> tuple[Int, int]:
        return ceildiv(self.points, _THREADS), _THREADS


def read_scatter(op: ir.Operation) -> Scatter:
    """What a ``tm_tensor.scatter`` on buffers of known shapes does."""
    updates, indices, shape = (known_shape(v) for v in op.operands)
    rank, extra = len(shape), len(shape) - (len(updates) - 1)
    update_dims = tuple(d - extra + 1 if d >= extra else None for d in range(rank))
    window = tuple(updates[u] if u is not None else 1 for u in update_dims)
    body = op.regions[0].blocks[0]
    combiner = read_combiner(body, body.arguments[1])
    return Scatter(
        op, indices[0], tuple(ir.DenseI64ArrayAttr(op.attributes["dimension_map"])), window, update_dims, shape,
        ir.BoolAttr(op.attributes["unique_indices"]).value, combiner,
    )


def emit_scatters(scatters: Sequence[Scatter], function: DeviceFunction) -> None:
    """The whole kernel: each scatter, of an operation cloned into ``function``, has the next of its blocks."""
    ints = function.ints
    block = ints.block()
    thread = ints.thread(_THREADS)
    _emit(list(scatters), block, thread, function)


def _emit(scatters: list[Scatter], block: Integer, thread: Integer, function: DeviceFunction) -> None:
    ints, (scatter, *others) = function.ints, scatters
    if others:
        if_else(
            ints.less(block, scatter.launch[0]), [],
            lambda: _emit([scatter], block, thread, function), lambda: _emit(others, ints.sub(block, scatter.launch[0]), thread, function),
        )
        return
    point = ints.add(ints.mul(block, _THREADS), thread)
    with only_if(ints.less(point, scatter.points)):
        emitter = _Emitter(scatter, function)
        if scatter.searching:
            emitter.search(point)
        elif scatter.unique or scatter.atomic is not None:
            lanes = scatter.lanes
            number, *where = ints.split(point, [scatter.count, *scatter.window[:-1], *(w // lanes for w in scatter.window[-1:])])
            emitter.update(number, [*where[:-1], *(ints.mul(w, lanes) for w in where[-1:])])
        else:
            where = ints.split(point, list(scatter.window))
            loop = scf.ForOp(ints.value(0), ints.value(scatter.count), ints.value(1), [])
            with ir.InsertionPoint(loop.body):
                emitter.update(loop.induction_variable, where)
                scf.YieldOp([])


@dataclass
class _Emitter:
    scatter: Scatter
    function: DeviceFunction

    def __post_init__(self) -> None:
        self.ints = self.function.ints
        self.updates, self.indices, self.target = self.scatter.operation.operands

    def combine(self, update: ir.Value, old: ir.Value) -> ir.Value:
        return inline_body(self.scatter.operation.regions[0].blocks[0], [update, old])[0]

    def term(self, update: ir.Value) -> ir.Value:
        """What an update adds, which need not be the update itself: a count adds 1.  It is what the combination with what changes
        nothing gives."""
        return self.combine(update, self.scatter.combiner.identity(self.scatter.combiner.narrow))

    def row(self, number: Integer, column: int) -> Integer:
        """An entry of the table of indices."""
        return _of_width(self.entry(number, column), self.ints.type)

    def entry(self, number: Integer, column: int) -> ir.Value:
        """The same in the table's own width."""
        ints, places = self.ints, self.scatter.places
        if places is None:
            return memref.load(self.indices, [ints.index(number), ints.index(column)])
        at, value = ints.index(number), self.function.value
        read = [memref.load(value(v), [at]) for v in list(places.operands)[:-1]]
        outside = {v: value(v) for v in outside_values(places) if v != places.operands[len(places.operands) - 1]}
        return inline_body(places.regions[0].blocks[0], [*read, at], [at], outside=outside)[0]

    def load_update(self, number: Integer, where: list[Integer]) -> ir.Value:
        if self.scatter.value is not None:
            return self.function.value(self.scatter.value)
        at = [self.ints.index(number)] + [self.ints.index(w) for w, u in zip(where, self.scatter.update_dims) if u is not None]
        return memref.load(self.updates, at)

    def update(self, number: Integer, where: list[Integer]) -> None:
        """Make one update at one place of its window, unless the window is not in the destination."""
        with only_if(self.is_inside(number)):
            self.make(number, where)

    def is_inside(self, number: Integer) -> ir.Value:
        """Asked of the indices as they are: in the width of the arithmetic an index far outside might be one inside."""
        s, found = self.scatter, None
        for column, dim in enumerate(s.dims):
            index = self.entry(number, column)
            places = self.ints.sub(self.ints.add(s.shape[dim], 1), s.window[dim])
            count = arith.constant(index.type, places) if isinstance(places, int) else _of_width(self.ints.value(places), index.type)
            inside = arith.cmpi(arith.CmpIPredicate.ult, index, count)
            found = inside if found is None else arith.andi(found, inside)
        return found

    def make(self, number: Integer, where: list[Integer]) -> None:
        at = list(where)
        for column, dim in enumerate(self.scatter.dims):
            at[dim] = self.ints.add(at[dim], self.row(number, column))
        if (lanes := self.scatter.lanes) > 1:
            self.make_vector(number, where, at, lanes)
            return
        place = [self.ints.index(x) for x in at]
        update = self.load_update(number, where)
        if self.scatter.atomic is not None:
            term = self.term(update)
            kind = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), self.scatter.atomic)
            memref.AtomicRMWOp(kind, term, self.target, place)
            return
        memref.store(self.combine(update, memref.load(self.target, place)), self.target, place)

    def make_vector(self, number: Integer, where: list[Integer], at: list[Integer], lanes: int) -> None:
        ints, element = self.ints, ir.MemRefType(self.updates.type).element_type
        target = flat_parameter(self.target)
        own = [d for d, u in enumerate(self.scatter.update_dims) if u is not None]
        sizes = [self.scatter.count, *(self.scatter.window[d] for d in own)]
        begin = ints.dot([number, *(where[d] for d in own)], row_major(sizes))
        if self.scatter.value is not None:
            update = vector.broadcast(ir.VectorType.get([lanes], element), self.function.value(self.scatter.value))
        else:
            update = load_vector(ints, flat_parameter(self.updates), begin, element, lanes, lanes)
        place = ints.dot(at, row_major(self.scatter.shape))
        if self.scatter.atomic is None:
            store_vector(ints, update, target, place, lanes)
            return
        if not isinstance(element, ir.F32Type):
            update = arith.extf(ir.VectorType.get([lanes], ir.F32Type.get()), update)
        base = arith.index_cast(ir.IntegerType.get_signless(64), memref.ExtractAlignedPointerAsIndexOp(target).result)
        offset = arith.extui(base.type, ints.value(place)) if ints.width < 64 else ints.value(place)
        address = arith.addi(base, arith.muli(offset, arith.constant(base.type, 4)))
        values = ", ".join(f"${i + 1}" for i in range(lanes))
        llvm.InlineAsmOp(
            None, [address, *lanes_of(update)], f"red.relaxed.gpu.global.add.v{lanes}.f32 [$0], {{{values}}};", ",".join(["l", *["f"] * lanes, "~{memory}"]),
            has_side_effects=True,
        )

    def search(self, point: Integer) -> None:
        """Make all updates of one element of the destination, in order."""
        s, ints = self.scatter, self.ints
        at = ints.split(point, list(s.shape))
        place = [ints.index(x) for x in at]
        wide = s.combiner
        start = memref.load(self.target, place)
        start = wide.widen(start) if wide is not None else start
        loop = scf.ForOp(ints.value(0), ints.value(s.count), ints.value(1), [start])
        with ir.InsertionPoint(loop.body):
            number, old = loop.induction_variable, loop.inner_iter_args[0]
            where, hit = list(at), self.is_inside(number)
            for column, dim in enumerate(s.dims):
                where[dim] = ints.sub(where[dim], self.row(number, column))
            for dim, size in enumerate(s.window):
                if dim in s.dims or size != s.shape[dim]:
                    hit = arith.andi(hit, ints.less(where[dim], size))
            found = scf.IfOp(hit, [old.type], has_else=True)
            with ir.InsertionPoint(found.then_block):
                update = self.load_update(number, where)
                scf.yield_([wide.combine(old, wide.widen(self.term(update))) if wide is not None else self.combine(update, old)])
            with ir.InsertionPoint(found.else_block):
                scf.yield_([old])
            scf.YieldOp([found.results[0]])
        total = loop.results[0]
        memref.store(wide.round(total) if wide is not None else total, self.target, place)


def adds_narrow(scatter: Scatter) -> bool:
    """Whether it only adds many 16-bit floats, which no order has been promised for."""
    element = ir.MemRefType(scatter.operation.operands[2].type).element_type
    return not scatter.unique and hint(scatter.count) > _FEW and str(element) in ("f16", "bf16") and _adds(scatter.operation.regions[0].blocks[0])


def flat_parameter(value: ir.Value) -> ir.Value | None:
    """The kernel's parameter that a contiguous buffer is, all of it and in order."""
    while (op := owner(value)) is not None and op.name in ("memref.cast", "memref.expand_shape", "memref.collapse_shape", "memref.reinterpret_cast"):
        value = op.operands[0]
    return value if op is None or op.name == "memref.alloc" else None


def _moves(body: ir.Block) -> bool:
    """Whether an update is what it puts in place."""
    return terminator(body).operands[0] == body.arguments[0]


def _adds(body: ir.Block) -> bool:
    """Whether an update is what it adds."""
    update, old = body.arguments
    operations = [o.operation for o in body.operations]
    if operations[0].name == "arith.extf" and len(operations) == 3 and operations[0].operands[0] == update:
        update, operations = operations[0].results[0], operations[1:]
    first = operations[0]
    if len(operations) != 2 or first.name != "arith.addf" or operations[1].operands[0] != first.results[0]:
        return False
    return {update, old} == set(first.operands)


def _of_width(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A signed integer in another width."""
    if value.type.width == type_.width:
        return value
    return arith.trunci(type_, value) if value.type.width > type_.width else arith.extsi(type_, value)
